"""`elea config explain`: the configuration a router would run with, and what that opens."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.exit_codes import reading_arguments
from elea.cli.output import escape, json_line
from elea.cli.router import add_daemon_options, options_of
from elea.errors import ConfigError

if TYPE_CHECKING:
    from elea.daemon.effective import Effective

NAME: Final = "config"
SUMMARY: Final = "explain the configuration of a router"

_ENDINGS: Final = (".json5", ".json", ".yaml", ".yml", ".toml")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the verb."""
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", required=True)
    summary = "print what `elea router` would run with and why, what it opens, and what it keeps"
    explain = verbs.add_parser("explain", help=summary, description=summary, allow_abbrev=False)
    explain.add_argument(
        "keys", nargs="*", metavar="KEY", help="print what these keys do, and nothing else"
    )
    explain.add_argument("--all", action="store_true", help="also what nobody has set")
    explain.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_daemon_options(explain)


def run(args: argparse.Namespace) -> int:
    """Print keys, then what they open and keep, then what is wrong."""
    from elea.config.kinds import public
    from elea.config.schema import BY_PATH
    from elea.daemon import exposure
    from elea.daemon.effective import Effective

    options = options_of(args)
    effective = Effective.of(options)
    if args.keys:
        for path in args.keys:
            with reading_arguments():
                if path not in BY_PATH and (Path(path).is_file() or path.endswith(_ENDINGS)):
                    raise ConfigError(path, "is a file, not a key; give it as --config FILE")
                effective.config.get(path)  # an unknown key raises
            _print_key(effective, path, as_json=args.json)
        return 0
    paths = [path for path in BY_PATH if args.all or path in effective.config.paths()]
    problem = _problem(effective, allow_plain=options.allow_plain)
    if args.json:
        for path in paths:
            value = public(effective.config.get(path))
            print(json_line({"key": path, "value": value, "origin": effective.origin(path)}))
        for line in exposure.lines(effective.config):
            print(json_line({"exposes": line}))
        for line in _kept(effective):
            print(json_line({"keeps": line}))
        for line in _idle(effective):
            print(json_line({"without_effect": line}))
        if problem:
            print(json_line({"problem": problem}))
    else:
        for line in _text(effective, paths):
            print(escape(line))
        if problem:
            print()
            print(escape(f"it would not start: {problem}"))
    return 1 if problem else 0


def _print_key(effective: Effective, path: str, *, as_json: bool) -> None:
    """Print what a key does, what is legal, what is in effect, and why it has no effect if so."""
    from elea.config.kinds import public
    from elea.config.reference import describe_key
    from elea.config.schema import BY_PATH

    value = public(effective.config.get(path))  # an unknown key raises
    key = BY_PATH[path]
    meaning = describe_key(key).replace("*", "")
    if as_json:
        told = {"key": path, "meaning": meaning, "legal": key.kind.legal, "value": value}
        print(json_line({**told, "origin": effective.origin(path)}))
        return
    print(escape(f"{path}: {meaning}"))
    print(escape(f"  legal: {key.kind.legal}"))
    print(escape(f"  in effect: {_shown(effective, path)}  ({effective.origin(path)})"))
    if key.inert is not None and not key.inert.any_value:
        print(escape(f"  any value but the default is refused at start: {key.inert.advice}"))


def _shown(effective: Effective, path: str) -> str:
    from elea.config.kinds import public

    return json.dumps(public(effective.config.get(path)), separators=(",", ":"))


def _text(effective: Effective, paths: list[str]) -> Iterator[str]:
    from elea.daemon import exposure

    for path in paths:
        yield f"{path} = {_shown(effective, path)}  ({effective.origin(path)})"
    yield ""
    yield "what this opens:"
    for line in exposure.lines(effective.config):
        yield f"  {line}"
    kept = list(_kept(effective))
    if kept:
        yield ""
        yield "what it keeps:"
        yield from (f"  {line}" for line in kept)
    idle = list(_idle(effective))
    if idle:
        yield ""
        yield "what has no effect:"
        yield from (f"  {line}" for line in idle)


def _kept(effective: Effective) -> Iterator[str]:
    from elea.store.settings import NAME as STORAGE_MANAGER
    from elea.store.settings import ManagerConfig

    sections = effective.config.get("plugins")
    settings = sections.get(STORAGE_MANAGER) if isinstance(sections, dict) else None
    if isinstance(settings, dict):
        try:
            yield from ManagerConfig.read(settings).lines()
        except ConfigError:
            return  # told as what is wrong


def _idle(effective: Effective) -> Iterator[str]:
    """What is asked for and would not be there."""
    from elea.daemon import preflight
    from elea.daemon.services import Services

    services = Services()
    yield from preflight.notes(effective.config, services)
    for path, reason in preflight.started_without(effective.config, services):
        yield f"{path}: {reason}"
    try:
        services.check_parts(effective.config)
    except ConfigError as error:
        yield f"{error}; it would be left out"


def _problem(effective: Effective, *, allow_plain: bool) -> str | None:
    from elea.daemon import preflight
    from elea.daemon.services import Services

    try:
        preflight.check(effective.config, Services(), allow_plain=allow_plain)
    except ConfigError as error:
        return str(error)
    return None
