"""`elea pipeline backfill`, `candidate`: tables made anew from history, and other definitions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elea.cli.exit_codes import reading_arguments
from elea.cli.output import Json
from elea.errors import ConfigError

if TYPE_CHECKING:
    from elea.cli.samples import Printer
    from elea.spark.pipelines.definition import Gold, Pipeline, Table


def configure_backfill(verb: argparse.ArgumentParser) -> None:
    """The options of `backfill`."""
    verb.add_argument("--table", required=True, help="which table")
    verb.add_argument("--from", dest="since", metavar="TIME", help="from this time on: now(-1h)")
    verb.add_argument("--to", dest="until", metavar="TIME", help="before this time")
    verb.add_argument(
        "--downstream", action="store_true", help="also the gold tables that are made of it"
    )


def configure_candidate(verb: argparse.ArgumentParser) -> None:
    """The options of `candidate`."""
    verb.add_argument(
        "candidate", metavar="CANDIDATE", type=Path, help="the file with other definitions"
    )
    verb.add_argument("--name", default="candidate", help="where its tables are (%(default)s)")
    verb.add_argument(
        "--samples", type=int, default=3, metavar="N", help="rows that are shown (%(default)s)"
    )


def backfill(args: argparse.Namespace) -> int:
    """Make a table anew from history, or a span of time of it."""
    from elea.cli.samples import Printer
    from elea.spark import pipelines as dp
    from elea.spark.pipelines import graph
    from elea.spark.pipelines.definition import Gold

    with reading_arguments():
        span = _span(args)
    pipeline = dp.load(args.file)
    wanted = graph.only(pipeline, [args.table]).table(args.table)
    tables: list[Table] = [wanted]
    if args.downstream:
        tables += graph.after(pipeline, args.table)
    printer = Printer.of(args)
    spark = _spark(pipeline) if any(isinstance(one, Gold) for one in tables) else None
    try:
        for one in tables:
            _one(printer, pipeline, one, span, spark)
    finally:
        if spark is not None:
            spark.stop()
    return 0


def _one(
    printer: Printer,
    pipeline: Pipeline,
    table: Table,
    span: tuple[int, int],
    spark: Any,
) -> None:
    from elea.spark.pipelines.definition import Archive, Decoded, Gold
    from elea.spark.pipelines.rebuild import rebuild

    if isinstance(table, (Archive, Decoded)):
        for one in rebuild(pipeline, table.name, span):
            _tell(printer, one.table, one.removed_count, one.added_count)
    elif isinstance(table, Gold):
        assert spark is not None
        since, until = _microseconds(span)
        removed_count, added_count = _gold(spark, pipeline, table, since, until)
        _tell(printer, table.name, removed_count, added_count)
    else:
        raise ConfigError(table.name, "is made anew by the runner, whenever its tables change")


def _gold(
    spark: Any, pipeline: Pipeline, table: Gold, since: int | None, until: int | None
) -> tuple[int, int]:
    from elea.spark.pipelines.gold import backfill as fill
    from elea.spark.pipelines.upkeep import gold_of

    made = gold_of(pipeline, table)
    if made.kind.time is None:
        since = until = None
    done = fill(spark, made, since, until)
    return done.removed_count, done.added_count


def candidate(args: argparse.Namespace) -> int:
    """Make the gold tables of another file beside the first ones, and tell what differs."""
    from elea.cli.samples import Printer
    from elea.spark import pipelines as dp
    from elea.spark.pipelines import graph
    from elea.spark.pipelines.definition import Gold
    from elea.spark.pipelines.gold import backfill as fill
    from elea.spark.pipelines.gold import candidates, diff
    from elea.spark.pipelines.upkeep import gold_of

    first, second = dp.load(args.file), dp.load(args.candidate)
    if first.storage != second.storage:
        reason = f"{second.storage}; legal is that of the first, {first.storage}"
        raise ConfigError(f"{args.candidate}: storage", reason)
    wanted = [one for one in graph.ordered(second) if isinstance(one, Gold)]
    golds = {one.name: gold_of(second, one) for one in wanted}
    made = candidates(golds, first.storage, args.name)
    known = {one.name for one in first.tables if isinstance(one, Gold)}
    printer, is_same = Printer.of(args), True
    spark = _spark(first)
    try:
        for one in wanted:
            gold = made[one.name]
            fill(spark, gold)
            if one.name not in known:
                printer.record({"table": one.name, "new": True}, f"{one.name}: new")
                continue
            found = diff(
                spark,
                first.path(one.name),
                gold.path,
                gold.identity,
                time=gold.kind.time,
                samples_max=args.samples,
            )
            is_same = is_same and found.is_none
            counts: dict[str, Json] = {
                "added": found.added_count,
                "removed": found.removed_count,
                "changed": found.changed_count,
                "equal": found.equal_count,
            }
            lines = [f"{one.name}: {', '.join(f'{v} {k}' for k, v in counts.items())}"]
            for sort, rows in found.samples.items():
                lines += [f"  {sort}: {row}" for row in rows]
            by_column: dict[str, Json] = dict(found.changed_by_column)
            told: dict[str, Json] = {"table": one.name, **counts, "columns": by_column}
            printer.record(told, "\n".join(lines))
    finally:
        spark.stop()
    return 0 if is_same else 1


def _spark(pipeline: Pipeline) -> Any:
    from elea.spark.pipelines.runner import session_for

    return session_for(pipeline, quick=True)


def _tell(printer: Printer, table: str, removed_count: int, added_count: int) -> None:
    values: dict[str, Json] = {"table": table, "removed": removed_count, "added": added_count}
    printer.record(values, f"{table}: {removed_count} rows went, {added_count} came")


def _span(args: argparse.Namespace) -> tuple[int, int]:
    from elea.spark.scan import moment

    since = 0 if args.since is None else moment(args.since)
    until = 2**64 if args.until is None else moment(args.until)
    if since >= until:
        raise ConfigError("--from", f"saw {args.since}, and --to {args.until}, which is not later")
    return since, until


def _microseconds(span: tuple[int, int]) -> tuple[int | None, int | None]:
    from elea.store.tables.files import microseconds

    since = None if span[0] == 0 else microseconds(span[0])
    return since, None if span[1] == 2**64 else microseconds(span[1])
