"""`elea record`: what is published, into a durable log."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, is_refused, note, open_watched
from elea.cli.exit_codes import FAILED, reading_arguments
from elea.cli.output import Json, counted, json_line
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import count, seconds
from elea.cli.progress import Progress, Span
from elea.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from elea.store.flight.settings import FlightSettings
    from elea.store.recorder.recorder import Recorder
    from elea.store.recorder.settings import RecordingSettings

NAME: Final = "record"
SUMMARY: Final = "record what is published into a durable log"

_EPILOG: Final = """\
KEYEXPR may name chunks, as fleet/{robot}/**; --name '{robot}' makes one log for each robot, below
the directory. A put to @elea/log/NAME/put/KEY as a query is answered when it is on disk.
--flight serves rows to whoever reads Arrow Flight; beyond this host it needs TLS and a token.

exit status:
  0    ended by --count or --duration
  1    failed, --duration was over before --count, or samples were dropped
  2    wrong usage
  130  ended by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP
  What was received is on disk in all of these, but for what the summary counts as dropped. With a
  full disk or --quota the recorder drops, logs the reason and goes on: it records again once there
  is room.

examples:
  elea record 'fleet/**' --to /var/lib/elea/fleet --connect tcp/127.0.0.1:7447
  elea record 'fleet/{robot}/**' --name '{robot}' --to logs --liveliness --history
  elea record 'fleet/**' --flight grpc://127.0.0.1:8815
"""
_POLL_S: Final = 0.1
_NS: Final = 1_000_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_key_argument(parser, metavar="KEYEXPR", many=True, help="what to record")
    parser.add_argument(
        "--to", metavar="DIR", type=Path, help="the directory of the log (default: its name)"
    )
    parser.add_argument(
        "--name", help="the name of the log, or a template (default: the beginning of KEYEXPR)"
    )
    parser.add_argument("--liveliness", action="store_true", help="record liveliness tokens too")
    parser.add_argument(
        "--history", action="store_true", help="ask caches of publishers for what was before"
    )
    parser.add_argument(
        "--storages", action="store_true", help="ask storages too, and all who answer for KEYEXPR"
    )
    parser.add_argument(
        "--no-recovery", action="store_true", help="do not ask caches for samples that are missing"
    )
    _add_log_options(parser)
    _add_flight_options(parser)
    parser.add_argument(
        "--count",
        type=count,
        metavar="N",
        help="end after N samples; rows that note losses do not count",
    )
    parser.add_argument("--duration", type=seconds, metavar="S", help="end after S seconds")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object every second, and at the end"
    )
    add_connection_options(parser)


def _add_log_options(parser: argparse.ArgumentParser) -> None:
    from elea.store.log.settings import COMPRESSIONS

    group = parser.add_argument_group("log")
    group.add_argument("--shards", type=count, default=1, help="of a log that is made (default: 1)")
    group.add_argument(
        "--compression",
        choices=COMPRESSIONS,
        default="none",
        help="of rows that come in (default: none)",
    )
    group.add_argument(
        "--packing",
        choices=COMPRESSIONS,
        default="zstd",
        help="of closed files, which are written once more; none: they stay (default: zstd)",
    )
    group.add_argument(
        "--pack-age",
        type=seconds,
        default=600.0,
        metavar="S",
        help="after the last row of a file; sooner if room is short (default: 600)",
    )
    group.add_argument(
        "--quota", type=count, metavar="LEN", help="refuse samples beyond LEN octets"
    )
    group.add_argument(
        "--retain-len", type=count, metavar="LEN", help="let the oldest go beyond LEN octets"
    )
    group.add_argument(
        "--retain-age", type=seconds, metavar="S", help="let go what is older than S seconds"
    )
    group.add_argument(
        "--retain-consumed", action="store_true", help="let go what every consumer has read"
    )


def _add_flight_options(parser: argparse.ArgumentParser) -> None:
    from elea.store.log.location import TOKEN_ENV

    group = parser.add_argument_group("Arrow Flight")
    group.add_argument(
        "--flight", metavar="LOCATION", help="serve rows at grpc://IP:PORT or grpc+tls://IP:PORT"
    )
    group.add_argument("--flight-tls-certificate", metavar="FILE", help="PEM, for grpc+tls")
    group.add_argument("--flight-tls-private-key", metavar="FILE", help="PEM, for grpc+tls")
    group.add_argument(
        "--flight-token-file",
        metavar="FILE",
        help=f"the token that readers show (default: the variable {TOKEN_ENV})",
    )
    group.add_argument(
        "--flight-advertise", metavar="LOCATION", help="what readers are told in place of LOCATION"
    )


def run(args: argparse.Namespace) -> int:
    """Record until it is enough; 1 if it was not, a router refused, or samples were dropped."""
    try:
        from elea.store.flight.door import Door
        from elea.store.recorder.recorder import Recorder
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea record", "arrow") from error

    with reading_arguments():
        settings = _settings(args)
    flight = _flight(args)
    with open_watched(args) as (session, neighbours), closing(Door()) as door:
        if flight is not None:
            door.open(flight)
        recorder = Recorder(session, [settings], door=door)
        span, progress = Span(args.count, args.duration), Progress()
        where = "" if door.location is None else f", read at {door.location}"
        note(f"records {', '.join(settings.key_exprs)} in {settings.directory}{where}")
        try:
            for told_rest in _ticks(recorder, span):
                progress.update(span.count, _rest(recorder))
                if args.json and told_rest:
                    print(json_line(_told(recorder, span)), flush=True)
        finally:
            progress.end()
            door.close()
            recorder.stop()
            span.count = recorder.counts().rows
            if args.json:
                print(json_line({**_told(recorder, span), "ended": True}), flush=True)
            _summarise(recorder, span)
        neighbours.require()
        if not span.count and any(
            is_refused(session, key, "declare_subscriber") for key in args.key
        ):
            return FAILED
        if recorder.counts().dropped:
            return FAILED
    return span.code


def _settings(args: argparse.Namespace) -> RecordingSettings:
    from elea.store.log.settings import LogSettings
    from elea.store.recorder.settings import RecordingSettings, default_name

    name = args.name or default_name(args.key[0])
    directory = args.to or Path("." if "{" in name else name)
    log = LogSettings(
        shards_count=args.shards,
        compression=args.compression,
        packing=args.packing,
        pack_age_ns=int(args.pack_age * _NS),
        quota_len=args.quota,
        retain_len=args.retain_len,
        retain_age_ns=None if args.retain_age is None else int(args.retain_age * _NS),
        retain_consumed=args.retain_consumed,
    )
    return RecordingSettings(
        key_exprs=tuple(args.key),
        name=name,
        directory=directory,
        log=log,
        liveliness=args.liveliness,
        history=args.history,
        storages=args.storages,
        recovery=not args.no_recovery,
    )


def _flight(args: argparse.Namespace) -> FlightSettings | None:
    """How rows are served over Flight; None: not at all.

    Raises:
        ConfigError: naming the option that is not legal.
    """
    from elea.store.flight.settings import SECTION, FlightSettings

    names = {"location": "flight"} | {
        key.name: f"flight_{key.name}" for key in SECTION.keys if key.name != "location"
    }
    given = {name: getattr(args, option) for name, option in names.items()}
    section = {name: value for name, value in given.items() if value is not None}
    if not section:
        return None
    try:
        return FlightSettings.read(section)
    except ConfigError as error:
        name = error.path.rpartition("/")[2]
        option = names.get(name, name).replace("_", "-")
        raise ConfigError(f"--{option}", error.reason) from error


def _ticks(recorder: Recorder, span: Span) -> Iterator[bool]:
    """Many times a second until the end; every second with True."""
    told_s = span.elapsed_s
    while True:
        span.count = recorder.counts().rows
        if span.is_over:
            return
        is_time = span.elapsed_s - told_s >= 1
        told_s = span.elapsed_s if is_time else told_s
        yield is_time
        left_s = span.left_s
        time.sleep(_POLL_S if left_s is None else min(_POLL_S, left_s))


def _rest(recorder: Recorder) -> str:
    counts = recorder.counts()
    books = [book for one in recorder.recordings for book in one.books()]
    octets = sum(book.used_len for book in books)
    lag_ms = max((book.lag_ns for book in books), default=0) // 1_000_000
    return (
        f", {octets:,} octets, lag {lag_ms} ms, {counts.filled} filled,"
        f" {counts.gaps} missing, {counts.dropped} dropped"
    )


def _told(recorder: Recorder, span: Span) -> dict[str, Json]:
    counts: dict[str, Json] = dict(asdict(recorder.counts()))
    books = [book for one in recorder.recordings for book in one.books()]
    return {
        "seconds": round(span.elapsed_s, 3),
        **counts,
        "octets": sum(book.used_len for book in books),
        "lag_ms": max((book.lag_ns for book in books), default=0) // 1_000_000,
        "logs": len(books),
    }


def _summarise(recorder: Recorder, span: Span) -> None:
    counts = recorder.counts()
    rate = f", {span.count / span.elapsed_s:,.1f}/s" if span.elapsed_s > 0 else ""
    note(
        f"{counted(span.count, 'row')} in {span.elapsed_s:.1f} s{rate},"
        f" {counted(counts.duplicates, 'duplicate')},"
        f" {counts.filled} filled, {counts.gaps} missing, {counts.dropped} dropped"
    )
