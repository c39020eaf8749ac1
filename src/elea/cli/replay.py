"""`elea replay`: publish what logs hold, as if it were live, and control that."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.connection import (
    add_connection_options,
    note,
    open_session,
    open_watched,
    require_neighbour,
)
from elea.cli.exit_codes import UsageError, reading_arguments
from elea.cli.output import Json, escape, json_line
from elea.cli.progress import Progress
from elea.errors import EleaError, LinkError, MissingDependencyError

if TYPE_CHECKING:
    from elea.session.session import Session
    from elea.store.replay import Replay

NAME: Final = "replay"
SUMMARY: Final = "publish what logs hold, as if it were live"

_EPILOG: Final = """\
times:
  2024-07-01T13:51:12.5Z   RFC 3339 in UTC
  now(-1h)                 relative to now
  start+90s, end-10m       relative to the first and the last row

commands of --control:
  status, pause, resume, stop, seek TIME, speed X

examples:
  elea replay /var/lib/elea/fleet 'fleet/*/pose' --speed 2 --connect tcp/127.0.0.1:7447
  elea replay /var/lib/elea/fleet --rewrite 'fleet/{x:**}=sim/{x:**}' --timestamps now --loop
  elea replay --control drive-1 seek start+90s --connect tcp/127.0.0.1:7447
"""
_TOLD_EVERY_S: Final = 0.2
_ANSWER_S: Final = 5.0  # a replay answers from memory
_VALUES: Final = {"status": 0, "pause": 0, "resume": 0, "stop": 0, "seek": 1, "speed": 1}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", type=Path, help="the directory of a log"
    )
    parser.add_argument(
        "key_exprs", metavar="KEYEXPR", nargs="*", help="rows of keys that one of these matches"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="another log, merged in the order of time; may be repeated",
    )
    _add_span_options(parser)
    _add_sample_options(parser)
    parser.add_argument("--id", metavar="NAME", help="its name, under which it can be controlled")
    parser.add_argument(
        "--control",
        nargs="+",
        metavar=("ID", "COMMAND"),
        help="tell a replay that runs what to do, and print what it does then",
    )
    parser.add_argument("--json", action="store_true", help="print the status as a JSON object")
    add_connection_options(parser)


def _add_span_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="start", metavar="TIME", help="from when on")
    parser.add_argument("--to", dest="end", metavar="TIME", help="until when, included")
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="how much of the past goes by in a second; 0 is as fast as possible (default: 1)",
    )
    parser.add_argument("--loop", action="store_true", help="begin again at the end, for ever")
    parser.add_argument(
        "--paused", action="store_true", help="publish nothing until it is told to resume"
    )


def _add_sample_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rewrite",
        action="append",
        default=[],
        metavar="SOURCE=TARGET",
        help="change keys, as 'fleet/{x}=sim/{x}'; may be repeated, the first that fits counts",
    )
    parser.add_argument(
        "--timestamps",
        choices=("original", "now"),
        default="original",
        help="samples keep theirs, or get new ones (default: original)",
    )
    parser.add_argument(
        "--kinds",
        default="put,delete",
        metavar="KIND,...",
        help="of put, delete and token; tokens are declared while they were (default: put,delete)",
    )
    parser.add_argument(
        "--log-clock",
        choices=("hlc", "recv"),
        default="hlc",
        help="the time of a row: its timestamp, or when it was received (default: hlc)",
    )
    parser.add_argument(
        "--congestion",
        choices=("auto", "recorded", "block"),
        default="auto",
        help="where a queue is full: as recorded, or wait; auto waits with --speed 0",
    )


def run(args: argparse.Namespace) -> int:
    """Replay, or control a replay; returns the exit status."""
    if args.control is not None:
        return _control(args)
    if args.directory is None:
        raise UsageError("no log: give the directory of one, or --control ID COMMAND")
    try:
        from elea.store.replay import Replay, ReplaySettings
        from elea.store.replay.rewrite import Rewriter
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea replay", "arrow") from error
    with reading_arguments():
        settings = ReplaySettings(
            key_exprs=args.key_exprs,
            start=args.start,
            end=args.end,
            speed=args.speed,
            loop=args.loop,
            rewrite=args.rewrite,
            timestamps=args.timestamps,
            kinds=args.kinds.split(","),
            clock=args.log_clock,
            congestion=args.congestion,
        )
        Rewriter(args.rewrite)
    config = ["timestamping/enabled:true"] if args.timestamps == "now" else []
    args.cfg = [*config, *(args.cfg or [])]
    with open_watched(args) as (session, _):
        replay = Replay(session, [args.directory, *args.also], settings, id=args.id)
        require_neighbour(session)
        if replay.id in _running(session):
            raise EleaError(f"a replay {replay.id!a} runs already; choose another --id, or stop it")
        if args.paused:
            replay.pause()
        with replay:
            note(f"replay {replay.id}: `elea replay --control {replay.id} COMMAND` controls it")
            _watch(replay)
    status = replay.status()
    if args.json:
        print(json_line(status))
    else:
        note(_summary(status))
    return 0


def _watch(replay: Replay) -> None:
    """Tell how far it is until it is done."""
    progress = Progress()
    try:
        while not replay.wait(_TOLD_EVERY_S):
            status = replay.status()
            rest = f"  {status['state']} at {status['position']}, behind {status['behind_s']} s"
            progress.update(replay.published_count, rest)
    finally:
        progress.end()


def _summary(status: Mapping[str, Json]) -> str:
    counts = ", ".join(f"{status[name]} {name}" for name in ("dropped", "late", "lost"))
    return f"{status['published']} published, {counts}"


def _control(args: argparse.Namespace) -> int:
    id, command, *values = (*args.control, "status") if len(args.control) == 1 else args.control
    if command not in _VALUES or len(values) != _VALUES[command]:
        seen = " ".join((command, *values))
        raise UsageError(f"saw {seen!a}; legal are status, pause, resume, stop, seek T, speed X")
    with open_session(args) as session:
        require_neighbour(session)
        status = _ask(session, id, command, values[0] if values else None)
    if args.json:
        print(json_line(status))
    else:
        for name, value in status.items():
            print(escape(f"{name}: {value}"))
    return 0


def _ask(session: Session, id: str, command: str, value: str | None) -> dict[str, Json]:
    """What a replay answers.

    Raises:
        EleaError: there is none, or it refuses.
    """
    for reply in session.get(f"@elea/replay/{id}/{command}", payload=value, timeout=_ANSWER_S):
        told = reply.ok if reply.ok is not None else reply.err
        if told is None:
            continue
        try:
            status = json.loads(told.payload.to_string())
        except ValueError:
            continue
        if reply.err is not None:
            raise EleaError(f"the replay refuses: {escape(str(status.get('detail')))}")
        assert isinstance(status, dict)
        return status
    names = escape(", ".join(_running(session))) or "none"
    raise LinkError(f"no replay {id!a} answers; running are: {names}")


def _running(session: Session) -> list[str]:
    """The names of the replays that can be reached."""
    tokens = session.liveliness().get("@elea/replay/*", timeout=_ANSWER_S)
    return sorted(str(one.ok.key_expr).rpartition("/")[2] for one in tokens if one.ok is not None)
