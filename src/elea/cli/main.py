"""The `elea` command: argument parser, dispatch, exit codes.

Each verb is a module beside this one with `NAME`, `SUMMARY`, `configure(parser)` and
`run(args) -> int`. Its module is imported when the verb is used: `elea put` does not pay for Spark,
and `elea --help` reads the summaries without importing anything.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import io
import os
import re
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final, Protocol, cast

from elea import version
from elea.cli import collector
from elea.cli.allocator import use_system_allocator
from elea.cli.exit_codes import (
    DONE,
    FAILED,
    INTERRUPTED,
    WRONG_USAGE,
    Terminated,
    UsageError,
    summary,
)
from elea.cli.output import is_full, printable
from elea.cli.parsing import Parser, nearest
from elea.errors import EleaError

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
    "ui": "elea.cli.ui",
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
    "ros2": "elea.cli.ros2",
    "dds": "elea.cli.dds",
    "spark": "elea.cli.spark",
    "pipeline": "elea.cli.pipeline",
    "replay": "elea.cli.replay",
    "historian": "elea.cli.historian",
    "sim": "elea.cli.sim",
    "demo": "elea.cli.demo",
    "up": "elea.cli.up",
    "completion": "elea.cli.completion",
}
_WORDS: Final = {"help": "--help", "version": "--version"}  # verbs of other programs
_AGAIN_S: Final = 0.01  # until an interrupt that was dropped is raised once more
_SIGNALLED: Final = 128  # exit codes by signals begin here
_RUST_LOG: Final = "RUST_LOG"  # which zenoh's programs read, and every verb
# With these a router ends at once: it needs no other allocator, for which Python is started anew.
_SHORT: Final = {"-h", "--help", "-V", "--version", "--config-check"}
_BEGUN_LEN: Final = 3  # a verb of fewer letters begins words by chance
_SUMMARY: Final = re.compile(r'^SUMMARY: Final = "([^"\\]*)"$', re.MULTILINE)


class Verb(Protocol):
    """What the module of a verb offers."""

    NAME: str
    SUMMARY: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(
    argv: Sequence[str] | None = None,
    verbs: Mapping[str, str] = VERBS,
    *,
    prog: str | None = None,
) -> int:
    """Run a command line and return its exit code.

    Args:
        argv: The arguments without the program's name; those of this process if not given.
        verbs: The verbs there are, with their modules.
        prog: The program's name, if it is a verb under a name of its own: `argv` begins with it.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    is_process = argv is None or prog is not None
    if is_process:
        _open_closed_streams()
        collector.begin()
    if is_process and arguments[:1] == ["router"] and not _SHORT & {*arguments}:
        use_system_allocator()
    if is_process and threading.current_thread() is threading.main_thread():
        _end_by_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character is no failure
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(arguments, verbs, prog)
        sys.stdout.flush()  # here, so that a closed pipe is noticed where it can be handled
        return code
    except SystemExit as stop:  # argparse: help was asked for, or the usage is wrong
        return stop.code if isinstance(stop.code, int) else DONE
    except Terminated as stop:
        return stop.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python flushes once more at exit: give it
        # somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except EleaError as error:
        _complain(str(error))
        return WRONG_USAGE if isinstance(error, UsageError) else FAILED
    except OSError as error:
        _complain(_told(error))
        return FAILED
    finally:
        if argv is None:
            gc.freeze()  # the process ends: looking for garbage in all of it takes 15 ms


def build_parser(
    names: Sequence[str], verbs: Mapping[str, str] = VERBS, prog: str | None = None
) -> Parser:
    """The parser for the verbs in `names`; only their modules are imported."""
    parser = _top_parser()
    commands = parser.add_subparsers(metavar="VERB", title="verbs") if names else None
    for name in names:
        assert commands is not None
        verb = cast(Verb, importlib.import_module(verbs[name]))
        child = commands.add_parser(name, help=verb.SUMMARY, description=verb.SUMMARY)
        child.prog = child.prog if prog is None else prog
        verb.configure(child)
        child.set_defaults(run=verb.run)
    return parser


def _top_parser() -> Parser:
    parser = Parser(
        prog="elea",
        description="Elea, the Zenoh data space in Python.",
        epilog=f"`elea VERB --help` tells more. Exit codes: {summary()}.",
    )
    parser.add_argument(
        "-V",
        "--version",
        action="store_true",
        help="print the package version, the wire version, whether this build is compiled, and the"
        " Python version, one per line",
    )
    return parser


def _dispatch(arguments: list[str], verbs: Mapping[str, str], prog: str | None) -> int:
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    if first is None:
        return _without_verb(arguments, verbs)
    if first in _WORDS and first not in verbs:
        rest = [argument for argument in arguments if argument != first]
        return _dispatch([*rest, _WORDS[first]], verbs, prog)
    if first not in verbs:
        # `publish` and `subscribe` are not near to their verbs, but begin with them.
        begun = (one for one in verbs if len(one) >= _BEGUN_LEN and first.startswith(one))
        near = nearest(first, list(verbs)) or next(begun, None)
        hint = "`elea --help` lists the verbs" if near is None else f"did you mean {near!r}?"
        if first != arguments[0] and any(one in verbs for one in arguments):
            hint = "options come after the verb"
        _complain(f"no verb {first!r}; {hint}")
        return WRONG_USAGE
    if arguments[1:] in (["-V"], ["--version"]):  # `elea put --version` as `elea --version`
        print(version_text())
        return DONE
    args = build_parser([first], verbs, prog).parse_args(arguments)
    if args.version:
        print(version_text())
        return DONE
    if _RUST_LOG in os.environ and not hasattr(args, "log_format"):  # else that log tells
        from elea.cli.connection import log_to_stderr

        log_to_stderr()
    code = args.run(args)
    assert isinstance(code, int)
    return code


def _without_verb(arguments: list[str], verbs: Mapping[str, str]) -> int:
    """`elea --version`, `elea --help`, or nothing that could be done."""
    parser = _top_parser()
    if verbs:
        commands = parser.add_subparsers(metavar="VERB", title="verbs")
        for name, module in verbs.items():
            commands.add_parser(name, help=_summary_of(module))
    if parser.parse_args(arguments).version:
        print(version_text())
        return DONE
    parser.print_help(sys.stderr)
    return WRONG_USAGE


def _summary_of(module: str) -> str:
    """The `SUMMARY` of a verb, from its source if that is there: importing all takes long."""
    spec = find_spec(module)
    if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
        with open(spec.origin, encoding="utf-8") as source:
            found = _SUMMARY.search(source.read())
        if found is not None:
            return found[1]
    return cast(Verb, importlib.import_module(module)).SUMMARY


def version_text() -> str:
    """What `elea --version` prints."""
    import platform  # which is slow to import, and needed here only

    return "\n".join(
        (
            f"elea {version.VERSION}",
            f"wire version: {version.WIRE_VERSION}",
            f"compiled: {'yes' if version.COMPILED else f'no ({version.why_interpreted()})'}",
            f"Python: {platform.python_version()} ({platform.python_implementation()})",
        )
    )


def _open_closed_streams() -> None:
    """Have the null device where a shell closed a standard stream (`>&-`).

    Python has None there, and the next socket would have the number of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _end_by_signals() -> None:
    """A verb that ends tells what it has done."""
    sys.unraisablehook = _interrupt_again
    signal.signal(signal.SIGTERM, _terminate)
    # Windows has no SIGHUP; `nohup` has it ignored.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _terminate)


def _terminate(number: int, frame: object) -> None:
    raise Terminated(number)


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Have a signal end the verb where Python dropped the exception that it raised.

    A signal is handled between any two steps of the main thread, also in a function that Python
    calls by itself, as when it collects garbage: what is raised there is printed, and goes no
    further. So it is raised once more, a moment later.
    """
    stop = unraisable.exc_value
    if not isinstance(stop, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    number = stop.code - _SIGNALLED if isinstance(stop, Terminated) else int(signal.SIGINT)
    again = threading.Timer(_AGAIN_S, _signal_main_thread, [number])
    again.daemon = True
    again.start()


def _signal_main_thread(number: int) -> None:
    """Send the main thread a signal, which also ends its wait for a lock."""
    main_thread = threading.main_thread().ident
    if main_thread is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread, number)
    else:
        interrupt_main(signal.Signals(number))  # Windows: handled when the wait is over


def _told(error: OSError) -> str:
    """What could not be read or written, and why."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    if error.errno == errno.ENOSPC and is_full(sys.stdout):
        return f"cannot write to standard output: {error.strerror}"
    return error.strerror or str(error)


def _complain(text: str) -> None:
    print(f"elea: {printable(text)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
