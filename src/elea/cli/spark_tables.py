"""`elea spark archive`, `compact`, `vacuum` and `tables`: tables of rows of logs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.exit_codes import reading_arguments
from elea.cli.output import counted
from elea.errors import ConfigError, EleaError, MissingDependencyError

if TYPE_CHECKING:
    from elea.cli.output import Json
    from elea.cli.samples import Printer
    from elea.store.tables.table import Table

Run = Callable[[argparse.Namespace], int]
Add = Callable[[str, str, Run], argparse.ArgumentParser]

_FORMATS: Final = ("delta", "iceberg", "parquet")
_WEEK_HOURS: Final = 168
_EVERY_S: Final = 10.0


def add_verbs(add: Add) -> None:
    """Add them to `elea spark`."""
    archive = add("archive", "write the rows of a log to a table, each once", _told(_archive))
    archive.add_argument("log", metavar="LOG", help="a directory, zenoh:NAME or flight:NAME")
    archive.add_argument("table", metavar="TABLE", type=Path, help="its directory; made if needed")
    archive.add_argument("--format", choices=_FORMATS, default="delta", help="(%(default)s)")
    archive.add_argument(
        "--consumer", default="archive", metavar="NAME", help="who it is, to both (%(default)s)"
    )
    archive.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="local: in this process, without Spark and Java (%(default)s)",
    )
    archive.add_argument("--once", action="store_true", help="take what there is, and end")
    archive.add_argument(
        "--every",
        type=float,
        default=_EVERY_S,
        metavar="SECONDS",
        help="how often it looks for more (%(default)s)",
    )
    archive.add_argument(
        "--bucket",
        action="append",
        default=[],
        metavar="NAME=PREFIX",
        help="a partition for keys that begin so; when the table is made, 64 at most",
    )
    archive.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the source: connect, config, startingOffsets, keyexpr, ...",
    )
    compact = add("compact", "make few sorted files of many, without duplicates", _told(_compact))
    compact.add_argument("table", metavar="TABLE", type=Path, help="its directory")
    compact.add_argument("--before", metavar="DATE", help="days before this one: 2026-11-15")
    vacuum = add("vacuum", "remove files that are not of the table", _told(_vacuum))
    vacuum.add_argument("table", metavar="TABLE", type=Path, help="its directory")
    vacuum.add_argument(
        "--older-than",
        type=int,
        default=_WEEK_HOURS,
        metavar="HOURS",
        help="not what may still be written, or read (%(default)s)",
    )
    vacuum.add_argument("--dry-run", action="store_true", help="only tell which they are")
    tables = add("tables", "tell what a table has, by day", _told(_tables))
    tables.add_argument("table", metavar="TABLE", type=Path, help="its directory")
    tables.add_argument("--key", default="**", metavar="KEYEXPR", help="files that may have it")
    tables.add_argument("--since", metavar="TIME", help="files from this time on: now(-1h)")
    tables.add_argument("--until", metavar="TIME", help="files before this time")


def _told(run: Run) -> Run:
    """What is missing is told by the name of its extra, and what a disk says as it says it."""

    def wrapped(args: argparse.Namespace) -> int:
        try:
            return run(args)
        except ModuleNotFoundError as error:
            raise MissingDependencyError("elea spark", "arrow") from error
        except OSError as error:
            raise EleaError(f"{args.table}: {error}") from error

    return wrapped


def _archive(args: argparse.Namespace) -> int:
    options = _pairs("--option", args.option)
    buckets = _pairs("--bucket", args.bucket) or None
    run = _by_spark if args.engine == "spark" else _locally
    return run(args, options, buckets)


def _by_spark(
    args: argparse.Namespace, options: dict[str, str], buckets: dict[str, str] | None
) -> int:
    from elea.cli.samples import Printer
    from elea.spark.archiving import archive
    from elea.spark.java import find
    from elea.spark.jvm import prepare_later, session, silence_threads
    from elea.spark.options import FLIGHT, ZENOH, Options
    from elea.spark.pipelines.supervision import told
    from elea.spark.places import open_place
    from elea.store.tables.table import open_table

    if not args.log.startswith((ZENOH, FLIGHT)):
        open_place(Options({"log": args.log}).stream().source)  # before Java is started
    java = find()
    silence_threads()
    spark = session("elea archive", quick=args.once, java=java)
    try:
        made = archive(
            spark,
            log=args.log,
            table=args.table,
            format=args.format,
            consumer=args.consumer,
            buckets=buckets,
            options=options,
        )
        query = made.start(trigger="once" if args.once else f"{args.every} seconds")
        try:
            query.awaitTermination()
        finally:
            query.stop()
    except Exception as error:
        if not type(error).__module__.startswith("pyspark."):
            raise
        raise EleaError(told(error)) from None
    finally:
        spark.stop()
    if args.once:
        prepare_later(java)
    _show(Printer.of(args), open_table(args.table))
    return 0


def _locally(
    args: argparse.Namespace, options: dict[str, str], buckets: dict[str, str] | None
) -> int:
    from elea.cli.samples import Printer
    from elea.spark.archiving import archive_local, prepared
    from elea.store.tables.table import open_table

    printer = Printer.of(args)
    target, given = prepared(args.log, args.table, args.format, args.consumer, buckets, options)
    while True:
        for rows_count in archive_local(target, given):
            printer.record({"rows": rows_count}, f"{rows_count} rows")
        if args.once:
            break
        time.sleep(args.every)
    _show(printer, open_table(args.table))
    return 0


def _compact(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.store.tables.compaction import compact
    from elea.store.tables.table import open_table

    printer = Printer.of(args)
    for one in compact(open_table(args.table), before=args.before):
        values: dict[str, Json] = {
            "date": one.date,
            "bucket": one.bucket,
            "files": one.files_count,
            "made": one.made_count,
            "rows": one.rows_count,
            "repeats": one.repeats_count,
        }
        text = f"{counted(one.files_count, 'file')} compacted into {one.made_count}"
        text += f", {counted(one.rows_count, 'row')}"
        place = one.date if one.bucket is None else f"{one.date} {one.bucket}"
        printer.record(
            values, f"{place}: {text}, {counted(one.repeats_count, 'duplicate')} left out"
        )
    return 0


def _vacuum(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.store.tables.table import open_table

    if args.older_than < 0:
        raise ConfigError("--older-than", f"saw {args.older_than}; legal are hours from 0 on")
    printer = Printer.of(args)
    for path in open_table(args.table).vacuum(args.older_than * 3_600, dry_run=args.dry_run):
        printer.record({"file": path, "removed": not args.dry_run}, path)
    return 0


def _tables(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.keyexpr.keyexpr import KeyExpr
    from elea.spark.scan import moment
    from elea.store.tables.table import open_table

    with reading_arguments():
        key = str(KeyExpr(args.key))  # one that is none matches no file
        since = 0 if args.since is None else moment(args.since)
        until = 2**64 if args.until is None else moment(args.until)
    _show(Printer.of(args), open_table(args.table), key, since, until)
    return 0


def _show(
    printer: Printer, table: Table, key_expr: str = "**", since: int = 0, until: int = 2**64
) -> None:
    files = sorted(
        table.files(key_expr, since, until), key=lambda file: (file.date, file.bucket or "")
    )
    rows_count = sum(file.rows_count for file in files)
    length = sum(file.octets_count for file in files)
    told: dict[str, Json] = {
        "table": table.layout.root,
        "format": table.format,
        "files": len(files),
        "rows": rows_count,
        "octets": length,
    }
    text = f"{counted(len(files), 'file')}, {counted(rows_count, 'row')}, {length} octets"
    printer.record(told, f"{table.layout.root} ({table.format}): {text}")
    by_day = [file for file in files if file.date]  # those of a gold table have none
    for (day, bucket), found in groupby(by_day, lambda file: (file.date, file.bucket)):
        group = list(found)
        rows_count = sum(file.rows_count for file in group)
        sorted_count = sum(file.is_sorted for file in group)
        values: dict[str, Json] = {
            "date": day,
            "bucket": bucket,
            "files": len(group),
            "compacted": sorted_count,
            "rows": rows_count,
        }
        place = day if bucket is None else f"{day} {bucket}"
        text = f"{counted(len(group), 'file')}, {sorted_count} of them compacted"
        text += f", {counted(rows_count, 'row')}"
        printer.record(values, f"  {place}: {text}")


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(option, f"saw {text!a}; legal is NAME=VALUE")
        found[name] = value
    return found
