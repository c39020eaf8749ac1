"""`elea spark standalone` and `env`: a cluster on this host, and what Spark's programs need."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from elea.errors import EleaError

Run = Callable[[argparse.Namespace], int]
Add = Callable[[str, str, Run], argparse.ArgumentParser]

_WATCH_S: Final = 0.2


def add_verbs(add: Add) -> None:
    """Add them to `elea spark`."""
    standalone = add("standalone", "run a cluster on this host, to try programs with", _standalone)
    standalone.add_argument(
        "--workers", type=int, default=2, metavar="N", help="how many (%(default)s)"
    )
    standalone.add_argument(
        "--cores", type=int, default=1, metavar="N", help="tasks at a time, of each (%(default)s)"
    )
    standalone.add_argument(
        "--memory", default="1g", metavar="SIZE", help="of each, for programs (%(default)s)"
    )
    standalone.add_argument(
        "--port", type=int, default=7077, help="of the master; 0 is a free one (%(default)s)"
    )
    standalone.add_argument(
        "--directory", type=Path, metavar="DIR", help="for settings and logs; else a temporary one"
    )
    add("env", "tell what spark-submit and its like need in their environment", _env)


def _standalone(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.spark.standalone import Standalone

    cluster = Standalone(
        args.directory,
        workers_count=args.workers,
        cores_count=args.cores,
        memory=args.memory,
        port=args.port,
    )
    with cluster:
        text = f"# {cluster.master}, {args.workers} workers; logs in {cluster.directory}"
        printer = Printer.of(args)
        printer.record(
            {"master": cluster.master, "environment": {**cluster.environment}},
            f"{text}; in another shell:\n{_exports(cluster.environment)}",
        )
        while (failure := cluster.failed()) is None:
            time.sleep(_WATCH_S)
    raise EleaError(failure)


def _env(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.spark.java import find
    from elea.spark.jvm import environment_of, local_settings

    java = find()
    found = {**environment_of(java), "SPARK_CONF_DIR": str(local_settings(java))}
    Printer.of(args).record({**found}, _exports(found))
    return 0


def _exports(environment: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
