"""`elea log export` and `elea log import`: logs as files of other formats, and back."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from elea.cli.connection import note
from elea.cli.exit_codes import UsageError, reading_arguments
from elea.cli.output import Json, counted, escape, json_line
from elea.cli.progress import Progress
from elea.errors import EleaError, MissingDependencyError

if TYPE_CHECKING:
    from elea.ros.formats.kept import Entries
    from elea.store.exchange.transfer import Reading
    from elea.store.log.reader import LogReader

EXPORT_EPILOG: Final = """\
times: 2024-07-01T13:51:12.5Z, now(-1h), start+90s, end-10m

parquet and jsonl hold all of a row, and `elea log import` gives it back. mcap does so too, for
viewers of robot data. csv is for spreadsheets: it cannot be imported.

examples:
  elea log export /var/lib/elea/fleet 'fleet/*/pose' --to poses.parquet --from end-1h
  elea log export /var/lib/elea/fleet --format jsonl | jq -r .payload
"""
IMPORT_EPILOG: Final = """\
The directory is there when all of the file is in it; of a file that is damaged nothing is kept.
Files of others: columns or names `key`, `payload` and `recv_ts` (or `ts`) are enough; topics of
MCAP become keys, and what is changed or left out is told.

examples:
  elea log import drive.mcap --to /var/lib/elea/drive
  elea log import more.parquet --to /var/lib/elea/drive --append
"""


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `elea log export`."""
    from elea.store.exchange.formats import EXPORTED

    parser.add_argument(
        "key_expr", metavar="KEYEXPR", nargs="?", default="**", help="rows of keys that match this"
    )
    parser.add_argument(
        "--format", choices=EXPORTED, help="what to write (default: by the name of the file)"
    )
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="where to (default: standard output, for csv and jsonl)",
    )
    parser.add_argument("--from", dest="start", metavar="TIME", help="from when on")
    parser.add_argument("--to-time", dest="end", metavar="TIME", help="until when, included")
    parser.add_argument(
        "--columns", metavar="NAME,...", help="these columns only; not with mcap (default: all)"
    )
    parser.add_argument(
        "--profile",
        choices=["ros2"],
        help="for mcap: messages of ROS 2 alone, in the form of ROS bags",
    )
    parser.add_argument(
        "--bag", action="store_true", help="with --profile ros2: FILE is a directory, as a bag is"
    )
    parser.add_argument(
        "--types",
        action="append",
        metavar="PATH",
        help="definitions of ROS 2 beyond those that are shipped or kept with the log",
    )
    parser.add_argument("--replace", action="store_true", help="replace a file that exists")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def configure_import(parser: argparse.ArgumentParser) -> None:
    """Add the options of `elea log import`."""
    from elea.store.exchange.formats import IMPORTED

    parser.add_argument("file", metavar="FILE", type=Path, help="what to read")
    parser.add_argument(
        "--to",
        dest="directory",
        type=Path,
        required=True,
        metavar="DIR",
        help="the directory of the log; new, unless --append",
    )
    parser.add_argument(
        "--format", choices=IMPORTED, help="what it is (default: by the name of the file)"
    )
    parser.add_argument(
        "--ros2", action="store_true", help="a bag of ROS 2: keys as rmw_zenoh has them"
    )
    parser.add_argument(
        "--domain", type=int, default=0, metavar="N", help="of these keys (default: 0)"
    )
    parser.add_argument("--append", action="store_true", help="append to the log that is there")
    parser.add_argument(
        "--shards", type=int, default=1, metavar="N", help="shards of a new log (default: 1)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run_export(args: argparse.Namespace) -> int:
    """Write rows to a file, or to standard output."""
    from elea.store.exchange.formats import EXPORTED, TEXTS, format_of
    from elea.store.exchange.transfer import Selection, export_file, export_to
    from elea.store.log.reader import LogReader

    if args.profile is not None or args.bag:
        return run_ros_export(args)
    with reading_arguments():
        format = format_of(args.to, args.format, EXPORTED)
    reader = LogReader(args.directory, tell_damage)
    since_ns, until_ns = _span(reader, args)
    selection = Selection(args.key_expr, since_ns, until_ns)
    if args.columns is not None:
        selection = Selection(args.key_expr, since_ns, until_ns, args.columns.split(","))
    progress = _Shown(args)
    try:
        if args.to is not None:
            count = export_file(reader, args.to, format, selection, progress, replace=args.replace)
        elif format in TEXTS:
            count = export_to(reader, sys.stdout.buffer, format, selection, progress)
        else:
            raise UsageError(f"{format} is no text; give --to FILE")
    finally:
        progress.end()
    if args.to is not None:
        if args.json:
            print(json_line({"done": "export", "file": str(args.to), "rows": count}))
        else:
            note(f"{counted(count, 'row')} in {escape(str(args.to))}, {reader.lost_count} lost")
    return 0


def run_import(args: argparse.Namespace) -> int:
    """Make a log of a file."""
    from elea.store.exchange.formats import IMPORTED, format_of
    from elea.store.exchange.transfer import import_file
    from elea.store.log.settings import LogSettings

    with reading_arguments():
        format = format_of(args.file, args.format, IMPORTED)
    reading, kept = _ros_reading(args.domain) if args.ros2 else (None, {})
    progress = _Shown(args)
    try:
        count = import_file(
            args.file,
            args.directory,
            format,
            append=args.append,
            settings=LogSettings(shards_count=args.shards),
            tell=lambda line: note(escape(line)),
            progress=progress,
            reading=reading,
        )
    finally:
        progress.end()
    if kept:
        from elea.ros.catalog import keep_definitions

        keep_definitions(args.directory, kept)
    if args.json:
        print(json_line({"done": "import", "log": str(args.directory), "rows": count}))
    else:
        note(f"{counted(count, 'row')} in {escape(str(args.directory))}")
    return 0


def run_ros_export(args: argparse.Namespace) -> int:
    """Write messages of ROS as a file, or as the directory of a bag, that ROS tools read."""
    try:
        from elea.store.exchange.mcap_ros import RosMcapRows, write_metadata
    except ModuleNotFoundError as error:
        raise MissingDependencyError("MCAP", "mcap") from error
    from elea.errors import UnknownTypeError
    from elea.ros.catalog import Types
    from elea.store.exchange.transfer import Selection, export_file
    from elea.store.log.reader import LogReader

    if args.to is None:
        raise EleaError("MCAP is no text; give --to FILE")
    types = Types(args.types or ())
    directory = Path(args.directory)
    if directory.is_dir():
        types.load(directory)
    reader = LogReader(args.directory, tell_damage)
    selection = Selection(args.key_expr, *_span(reader, args), by_reception=True)
    made: list[RosMcapRows] = []

    def define(type: str, hash: str) -> str | None:
        try:
            return types.message(type, hash).text
        except UnknownTypeError:
            return None

    def make_sink(stream: BinaryIO) -> RosMcapRows:
        tokens = reader.keys("@ros2_lv/**")
        made.append(RosMcapRows(stream, define, tokens, lambda line: note(escape(line))))
        return made[0]

    file = args.to / f"{args.to.name}_0.mcap" if args.bag else args.to
    if args.bag:
        args.to.mkdir(parents=True, exist_ok=True)
    progress = _Shown(args)
    try:
        export_file(
            reader, file, "mcap", selection, progress, replace=args.replace, make_sink=make_sink
        )
    finally:
        progress.end()
    [rows] = made
    if args.bag:
        write_metadata(args.to, rows, file.name)
    if args.json:
        told: dict[str, Json] = {"done": "export", "file": str(args.to), "rows": rows.count}
        print(json_line({**told, "left_out": rows.left_out}))
    else:
        note(f"{rows.count} messages in {escape(str(args.to))}, {reader.lost_count} lost")
    return 0


def _ros_reading(domain: int) -> tuple[Reading, Entries]:
    """What reads a bag, and the definitions that it finds on the way."""
    from elea.ros.formats.keys import checked_domain
    from elea.ros.formats.library import Library
    from elea.store.exchange.mcap_ros import ros_reading

    kept: Entries = {}

    def keep(name: str, text: str) -> None:
        kind = Library.of_text(text, name).message(name)
        kept[kind.hash] = {"name": kind.name, "text": kind.text, "source": "bag"}

    return ros_reading(checked_domain(domain), keep), kept


class _Shown:
    """Progress on a terminal."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._progress = None if args.quiet else Progress()

    def __call__(self, rows_count: int) -> None:
        if self._progress is not None:
            self._progress.update(rows_count, " rows")

    def end(self) -> None:
        if self._progress is not None:
            self._progress.end()


def _span(reader: LogReader, args: argparse.Namespace) -> tuple[int | None, int | None]:
    """Both ends of what is wanted, in nanoseconds since 1970."""
    from elea.store.replay.merge import span_of
    from elea.store.replay.moment import Span, moment_ns

    if args.start is None and args.end is None:
        return None, None
    span = span_of([reader]) or Span(0, 0)
    since_ns, until_ns = (
        None if text is None else moment_ns(text, span, time.time_ns())
        for text in (args.start, args.end)
    )
    return since_ns, until_ns


def tell_damage(damage: object) -> None:
    """A line of what was passed because it is damaged."""
    print(escape(f"elea log: {damage}"), file=sys.stderr)
