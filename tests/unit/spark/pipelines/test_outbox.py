"""What a table publishes is sent once it is there; after a kill again, and can be told apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.unit.spark.gold_tables import Source

from elea.errors import LinkError, StoreError
from elea.sample import Sample
from elea.spark.pipelines.outbox import Outbox
from elea.spark.repeats import Repeats, once
from elea.store.tables.results import open_results

ROWS = pa.table({"robot": ["r1", "r2"], "x": [1, 2]})
# A round of a table that has one row more after each, as a pipeline makes and publishes it.
ROUND = """
import os, signal, sys
from pathlib import Path
from unittest.mock import MagicMock
import pyarrow as pa
from elea.spark.pipelines.definition import Pipeline, Publish
from elea.spark.pipelines.gold import Gold, Kind, refresh
from elea.spark.pipelines.gold.rounds import Changes
from elea.spark.pipelines.outbox import Outbox
from elea.spark.pipelines.publish import send_rows
from elea.store.tables.results import Results

place, endpoint, where = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
pipeline = Pipeline("fleet", "log", str(place), connect=endpoint)

def killing(name, call):
    def made(*arguments):
        if where == f"before {name}":
            os.kill(os.getpid(), signal.SIGKILL)
        found = call(*arguments)
        if where == f"after {name}":
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return made

def send(rows, number):
    send_rows(pipeline, "counted", Publish("gold/{number}"), rows, str(number))

def counted(round):
    number = round.mark.get("rounds", 0) + 1
    return Changes(pa.table({"number": [number]}), mark={"rounds": number})

Results.change = killing("change", Results.change)
outbox = Outbox(place / "_elea" / "outbox.arrow", killing("send", send))
kind = Kind("counted", "", (), "update", lambda _: ("number",), None, counted)
refresh(MagicMock(), Gold(kind, {}, [place / "t"], place / "counted"), outbox=outbox)
"""


def test_each_row_is_had_once_whenever_it_is_killed(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    source = Source(tmp_path / "t")
    got: list[Sample] = []
    repeats = Repeats()
    places = ("before change", "after change", "before send", "after send", "nowhere")
    with session(ELEA, "router", listen=endpoint) as router:
        router.declare_subscriber("gold/**", once(got.append, repeats))
        for at_s, where in enumerate(places):
            source.add({"at": at_s})  # there is more to do each time
            done = subprocess.run(
                [sys.executable, "-c", ROUND, tmp_path, endpoint, where],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            assert done.returncode == (0 if where == "nowhere" else -signal.SIGKILL), where
        rows = open_results(tmp_path / "counted").rows(["number"])
        assert rows is not None
        wanted = sorted(f"gold/{number}" for number in rows["number"].to_pylist())
        assert wanted == ["gold/1", "gold/2"]  # the others died of what was left of the first
        assert eventually(lambda: len(got) >= len(wanted))
    assert sorted(str(one.key_expr) for one in got) == wanted
    assert repeats.dropped_count == 1  # that of the kill after it was sent


def test_what_cannot_be_sent_is_kept(tmp_path: Path) -> None:
    sent: list[tuple[int, int]] = []
    is_there = False

    def send(rows: pa.Table, number: int) -> None:
        if not is_there:
            raise LinkError("nobody is there")
        sent.append((rows.num_rows, number))

    outbox = Outbox(tmp_path / "own" / "t.arrow", send)
    outbox.deliver(3)  # there is nothing
    outbox.keep(ROWS, 4)
    with pytest.raises(LinkError):
        outbox.deliver(4)
    is_there = True
    outbox.deliver(5)
    assert sent == [(2, 4)]
    outbox.deliver(5)
    outbox.keep(ROWS, 6)
    outbox.deliver(5)  # the table never got it
    outbox.deliver(6)
    assert sent == [(2, 4)]


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.arrow"
    file.write_bytes(b"nonsense")
    with pytest.raises(StoreError, match=r"t\.arrow is damaged.*remove it"):
        Outbox(file, lambda rows, number: None).deliver(1)
