"""What a verb imports before it does something: modules that few need are imported late."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from tests.meta.tree import PACKAGE, relative

# Slow to import, and needed by few runs of these verbs.
LATE = (
    *("asyncio", "bz2", "concurrent", "csv", "email", "encodings.idna", "http"),
    *("importlib.metadata", "lzma", "multiprocessing", "platform", "random", "shutil"),
    *("ssl", "subprocess", "tempfile", "unittest", "uuid", "xml", "zipfile"),
    *("cyclonedds", "duckdb", "isal", "mcap", "numpy", "pyarrow", "pyspark", "starlette"),
    *("websockets", "yaml"),
    *("elea.link.memory", "elea.link.serial", "elea.link.tls", "elea.link.unix", "elea.link.ws"),
    *("elea.session.ack", "elea.session.advanced_publisher", "elea.session.advanced_subscriber"),
    *("elea.session.aio", "elea.session.arrow", "elea.session.logs", "elea.session.shm"),
    *("elea.session.since", "elea.session.spool", "elea.session.scouting"),
    *(
        "elea.daemon",
        "elea.dds",
        "elea.decode",
        "elea.demo",
        "elea.devices",
        "elea.predicate",
        "elea.ros",
    ),
    *("elea.sim.driver", "elea.spark", "elea.store", "elea.web", "elea.xrce"),
)
# Counted on 3.11: 426 to 439, of which 150 are Python's own. What another one costs, see below.
CONNECTED_COUNT_MAX = 455
RUN = """
import gc, sys
collections = []
gc.callbacks.append(lambda phase, _: collections.append(len(sys.modules)))
from elea.cli.main import main
parsed = len(sys.modules)
sys.argv[1:1] = {verb!r}
try:
    code = main()
finally:
    late = [name for name in {late!r} if name in sys.modules]
    print(code, len(sys.modules), sum(count > parsed + 50 for count in collections), *late)
"""


@pytest.mark.parametrize(
    "verb",
    [["put", "a", "b"], ["get", "a"], ["sub", "a"], ["delete", "a"], ["pub", "a", "b"], ["ls"]],
    ids=lambda one: one[0],
)
def test_common_verbs_imported_what_they_do_not_need(verb: list[str]) -> None:
    """A tenth of the time of `elea put` went into entry points, Unicode names and spools.

    Another tenth went into two collections of garbage among what starting makes, which found none.
    """
    nowhere = ["-m", "client", "-e", "tcp/127.0.0.1:1", "--no-multicast-scouting"]
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(late=LATE, verb=verb), *nowhere],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "ELEA_NO_SCOUTING": "1"},
        check=True,
    )
    assert "Connection refused" in done.stderr  # it went as far as a connection
    code, count, collections, *imported = done.stdout.split()
    assert code == "1"
    assert imported == []
    assert int(count) < CONNECTED_COUNT_MAX
    assert collections == "0"


_COPIES = re.compile(r"^from dataclasses import .*\breplace\b", re.MULTILINE)
_CORE = ("wire", "routing", "policy", "node", "config", "transport", "link", "session")


def test_values_of_the_core_were_copied_by_completing_their_classes() -> None:
    """`dataclasses.replace` asks for all fields: `Limits`, which has 266, took 10 ms to make."""
    files = [*PACKAGE.glob("*.py"), *(one for unit in _CORE for one in (PACKAGE / unit).rglob("*"))]
    assert [
        relative(path)
        for path in files
        if path.suffix == ".py" and path.name != "records.py"
        if _COPIES.search(path.read_text(encoding="utf-8"))
    ] == []


# What no parser needs: what a verb does is imported when it does it.
DOING = (
    *("asyncio", "email", "http", "importlib.metadata", "logging", "socket", "ssl", "statistics"),
    *("cyclonedds", "numpy", "pyarrow", "pyspark"),
    *("elea.config", "elea.daemon", "elea.keyexpr", "elea.link", "elea.node", "elea.operate.walk"),
    *("elea.policy", "elea.ros", "elea.sample", "elea.session", "elea.sim", "elea.wire"),
    *("elea.dds", "elea.devices", "elea.predicate", "elea.xrce"),
)
PARSERS = """
import sys
from elea.cli.main import VERBS, build_parser
for verb in sys.argv[1:] or VERBS:
    build_parser([verb])
print(len(sys.modules), *(name for name in {doing!r} if name in sys.modules))
"""
# Counted on 3.11: 180 for all verbs, 130 for one; other Pythons have some more or fewer of their
# own. Every ten cost a verb about 2 ms; the sessions alone are 250.
ALL_COUNT_MAX = 230
ONE_COUNT_MAX = 170


@pytest.mark.parametrize("verb", ["", "put", "sub", "router", "doctor"])
def test_parsers_imported_what_verbs_do(verb: str) -> None:
    """`--help` of a verb took up to 0.29 s, and `completion` 0.37 s: it has the parsers of all."""
    done = subprocess.run(
        [sys.executable, "-c", PARSERS.format(doing=DOING), *verb.split()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    count, *imported = done.stdout.split()
    assert imported == []
    assert int(count) < (ONE_COUNT_MAX if verb else ALL_COUNT_MAX)
