"""`elea spark`: whether Spark starts here, how it starts sooner.

Its tables are in spark_tables.py, a cluster to try it with in spark_cluster.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli import spark_cluster, spark_tables
from elea.cli.output import add_output_options, painter
from elea.errors import EleaError, MissingDependencyError

if TYPE_CHECKING:
    from elea.cli.doctor import Check
    from elea.spark.java import Java

NAME: Final = "spark"
SUMMARY: Final = "check Spark and its Java; run a cluster; keep logs in tables"

_SPARK_MIN: Final = (4, 2)
_EPILOG: Final = """\
exit status:
  0  done; with doctor, Spark works
  1  with doctor, it does not
  2  wrong usage

examples:
  elea spark doctor
  elea spark prepare
  eval "$(elea spark env)" && spark-submit app.py
  elea spark standalone --workers 2
  elea spark archive /var/lib/elea/fleet /lake/bronze --once
  elea spark archive zenoh:fleet /lake/bronze --option connect=tcp/10.0.0.1:7447
  elea spark compact /lake/bronze --before 2026-11-15
  elea spark tables /lake/bronze --key 'fleet/*/imu' --since 'now(-1h)'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the verb."""
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", required=True)

    def add(
        name: str, summary: str, run: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        verb = verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_output_options(verb)
        verb.set_defaults(spark_verb=run)
        return verb

    doctor = add("doctor", "tell which Java and Spark are used, and read one sample", _doctor)
    doctor.add_argument("--no-start", action="store_true", help="do not start Spark")
    add("prepare", "make a start-up cache for short programs; takes a minute, 200 MB", _prepare)
    spark_cluster.add_verbs(add)
    spark_tables.add_verbs(add)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    # Modules of Spark are imported by the verbs: the command works without the extra.
    try:
        status: int = args.spark_verb(args)
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea spark", "spark") from error
    return status


def _doctor(args: argparse.Namespace) -> int:
    from elea.cli.doctor import Status
    from elea.cli.samples import Printer

    printer, paint = Printer.of(args), painter(args.color, sys.stdout)
    code = 0
    for check in _checks(start=not args.no_start):
        printer.record(check.values(), check.text(paint))
        if check.status is Status.PROBLEM:
            code = 1
    return code


def _prepare(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer

    if find_spec("pyspark") is None:
        raise MissingDependencyError("elea spark prepare", "spark")
    from elea.spark.java import find
    from elea.spark.jvm import prepare

    made = prepare(find())
    size = made.stat().st_size
    Printer.of(args).record({"file": str(made), "octets": size}, f"{made}: {size >> 20} MB")
    return 0


def _checks(*, start: bool) -> Iterator[Check]:
    import platform

    from elea.cli.doctor import Check, Status

    yield (spark := _spark())
    if find_spec("pyarrow") is None:  # nothing of `elea.spark` can be imported
        if spark.status is not Status.PROBLEM:
            yield Check("arrow", Status.PROBLEM, "not installed", "pip install 'elea[spark]'")
        return
    from elea.spark.java import cache_directory, find

    try:
        java = find()
    except EleaError as error:
        yield Check("java", Status.PROBLEM, str(error))
        return
    yield _java(java)
    worker = os.environ.get("PYSPARK_PYTHON") or sys.executable
    yield Check("workers", Status.OK, f"Python {platform.python_version()}, {worker}")
    yield _pandas()
    yield _writable(cache_directory())
    if spark.status is Status.PROBLEM:
        return
    yield _cache(java)
    if start:
        yield _one_sample(java)


def _spark() -> Check:
    from importlib.metadata import PackageNotFoundError, version

    from elea.cli.doctor import Check, Status

    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Check("spark", Status.PROBLEM, "not installed", "pip install 'elea[spark]'")
    numbers = tuple(int(one) for one in found.split(".")[:2] if one.isdecimal())
    if numbers < _SPARK_MIN:
        return Check("spark", Status.PROBLEM, f"PySpark {found}", "pip install 'pyspark>=4.2'")
    if find_spec("pyspark_elea") is None:
        advice = "install elea where Spark's Python runs"
        return Check("spark", Status.PROBLEM, "pyspark_elea cannot be imported", advice)
    return Check("spark", Status.OK, f'PySpark {found}, finds format("zenoh") by itself')


def _java(java: Java) -> Check:
    from elea.cli.doctor import Check, Status

    found = str(java)
    if not java.has_vector:
        found += ", started without jdk.incubator.vector, which it lacks"
    if not java.g1_is_safe:
        found += ", with another collector than G1, which has a defect in it"
    return Check("java", Status.OK, found)


def _pandas() -> Check:
    from importlib.metadata import PackageNotFoundError, version

    from elea.cli.doctor import Check, Status

    try:
        found = version("pandas")
    except PackageNotFoundError:
        return Check("pandas", Status.OK, "not installed, and not needed")
    if found.split(".")[0].isdecimal() and int(found.split(".")[0]) >= 3:
        return Check("pandas", Status.NOTE, found, "Spark knows pandas 2: pip install 'pandas<3'")
    return Check("pandas", Status.OK, found)


def _writable(directory: Path) -> Check:
    import tempfile

    from elea.cli.doctor import Check, Status

    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        return Check("cache", Status.PROBLEM, str(error), "set XDG_CACHE_HOME to another directory")
    return Check("cache", Status.OK, f"{directory} can be written")


def _cache(java: Java) -> Check:
    from elea.cli.doctor import Check, Status
    from elea.spark.jvm import cache_file

    file = cache_file(java)
    if file is None:
        return Check("start", Status.OK, "this Java has no start-up cache")
    if file.exists():
        return Check("start", Status.OK, f"short programs use {file}")
    advice = "elea spark prepare makes one, as do the first short commands"
    return Check("start", Status.NOTE, "no start-up cache yet", advice)


def _one_sample(java: Java) -> Check:
    """Put a row into a log, and read it by Spark."""
    import tempfile

    from elea.cli.doctor import Check, Status
    from elea.spark.jvm import prepare_later, session
    from elea.spark.trial import trial_log

    try:
        with tempfile.TemporaryDirectory() as folder:
            trial_log(Path(folder))
            spark = session("elea doctor", master="local[1]", quick=True, java=java)
            try:
                rows = spark.read.format("zenoh").option("log", folder).load().collect()
            finally:
                spark.stop()
            prepare_later(java)
    except Exception as error:  # of Java, of Spark, of workers: whatever it is, it is told
        text = f"{type(error).__name__}: {error}"
        return Check("sample", Status.PROBLEM, text[:2_000], "the lines above tell more")
    if [(row.key, bytes(row.payload)) for row in rows] != [("elea/doctor", b"hello")]:
        return Check("sample", Status.PROBLEM, f"another row was read: {rows}"[:500])
    return Check("sample", Status.OK, "a row of a log was read by Spark")
