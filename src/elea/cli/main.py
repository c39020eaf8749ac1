"""The `elea` command: argument parser, dispatch, exit codes.

Each verb is a module beside this one with `NAME`, `SUMMARY`, `configure(parser)` and
`run(args) -> int`. Its module is imported when the verb is used, or for the list in `--help`.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from elea import version
from elea.cli.allocator import use_system_allocator
from elea.cli.output import printable
from elea.errors import EleaError

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130

# Verb to module, in the order of the help.
VERBS: Final[Mapping[str, str]] = {
    "router": "elea.cli.router",
    "config": "elea.cli.config",
    "acl": "elea.cli.acl",
    "put": "elea.cli.put",
    "delete": "elea.cli.delete",
    "get": "elea.cli.get",
    "sub": "elea.cli.sub",
    "pub": "elea.cli.pub",
    "queryable": "elea.cli.queryable",
    "querier": "elea.cli.querier",
    "liveliness": "elea.cli.liveliness",
    "scout": "elea.cli.scout",
    "info": "elea.cli.info",
    "ls": "elea.cli.ls",
    "graph": "elea.cli.graph",
    "trace": "elea.cli.trace",
    "top": "elea.cli.top",
    "ping": "elea.cli.ping",
    "pong": "elea.cli.pong",
    "throughput": "elea.cli.throughput",
    "doctor": "elea.cli.doctor",
    "explain": "elea.cli.explain",
    "keyexpr": "elea.cli.keyexpr",
    "predicate": "elea.cli.predicate",
    "record": "elea.cli.record",
    "log": "elea.cli.log",
    "xrce": "elea.cli.xrce",
    "spark": "elea.cli.spark",
    "pipeline": "elea.cli.pipeline",
    "replay": "elea.cli.replay",
    "historian": "elea.cli.historian",
    "sim": "elea.cli.sim",
    "demo": "elea.cli.demo",
    "up": "elea.cli.up",
}


class Verb(Protocol):
    """What the module of a verb offers."""

    NAME: str
    SUMMARY: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None, verbs: Mapping[str, str] = VERBS) -> int:
    """Run the command line `argv` (without the program's name) and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if argv is None and arguments[:1] == ["router"]:
        use_system_allocator()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character is no failure
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(arguments, verbs)
        sys.stdout.flush()  # here, so that a closed pipe is noticed where it can be handled
        return code
    except SystemExit as stop:  # argparse: help was asked for, or the usage is wrong
        return stop.code if isinstance(stop.code, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python flushes once more at exit: give it
        # somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except EleaError as error:
        _complain(str(error))
        return FAILED
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return FAILED


def build_parser(names: Sequence[str], verbs: Mapping[str, str] = VERBS) -> argparse.ArgumentParser:
    """The parser for the verbs in `names`; only their modules are imported."""
    parser = argparse.ArgumentParser(
        prog="elea",
        allow_abbrev=False,
        description="Elea, the Zenoh data space in Python.",
        epilog="`elea VERB --help` tells more. Exit codes: 0 done, 1 failed, 2 wrong usage,"
        " 130 interrupted.",
    )
    parser.add_argument(
        "--version",
        action="store_true",
        help="print the package version, the wire version, whether the hot modules are compiled,"
        " and the Python version, one per line",
    )
    commands = parser.add_subparsers(metavar="VERB", title="verbs") if names else None
    for name in names:
        assert commands is not None
        verb = cast(Verb, importlib.import_module(verbs[name]))
        child = commands.add_parser(
            name, help=verb.SUMMARY, description=verb.SUMMARY, allow_abbrev=False
        )
        verb.configure(child)
        child.set_defaults(run=verb.run)
    return parser


def _dispatch(arguments: list[str], verbs: Mapping[str, str]) -> int:
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    if first is not None and first not in verbs:
        near = difflib.get_close_matches(first, verbs, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`elea --help` lists the verbs"
        _complain(f"no verb {first!r}; {hint}")
        return WRONG_USAGE
    parser = build_parser(list(verbs) if first is None else [first], verbs)
    args = parser.parse_args(arguments)
    if args.version:
        print(version_text())
        return DONE
    if first is None:
        parser.print_help(sys.stderr)
        return WRONG_USAGE
    code = args.run(args)
    assert isinstance(code, int)
    return code


def version_text() -> str:
    """What `elea --version` prints."""
    return "\n".join(
        (
            f"elea {version.VERSION}",
            f"wire version: {version.WIRE_VERSION}",
            f"compiled: {'yes' if version.COMPILED else f'no ({version.TO_COMPILE})'}",
            f"Python: {platform.python_version()} ({platform.python_implementation()})",
        )
    )


def _complain(text: str) -> None:
    print(f"elea: {printable(text)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
