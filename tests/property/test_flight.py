"""Rows over Flight are the rows of the files, for any range, columns, keys, times and messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight
from tests.unit.spark.logs import fill, log_at
from tests.unit.store.log.rows import stamp

from elea.limits import DEFAULT_LIMITS
from elea.store.flight.door import Door
from elea.store.flight.settings import FlightSettings
from elea.store.log.ranges import ALL_TIME, COLUMNS, rows_of
from elea.store.log.reader import LogReader
from elea.store.log.ticket import Ticket

ROWS = 400
Ends = tuple[LogReader, flight.FlightClient]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    directory: Path = tmp_path_factory.mktemp("log")
    limits = replace(DEFAULT_LIMITS, flight_batch_len=700)  # some rows each
    with log_at(directory, 1, segment_len=4_000) as log, closing(Door(limits)) as door:
        fill(log, 0, ROWS, 37)
        door.add("fleet", log.disk)
        door.open(FlightSettings.read({"location": "grpc://127.0.0.1:0"}))
        with flight.FlightClient(door.location) as client:
            yield LogReader(directory), client


spans = st.just(ALL_TIME) | st.tuples(
    st.integers(-1, ROWS).map(stamp), st.integers(-1, ROWS).map(stamp)
)
tickets = st.builds(
    Ticket,
    log=st.just("fleet"),
    shard=st.just(0),
    first=st.integers(0, ROWS),
    end=st.integers(0, ROWS),
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True).map(tuple),
    key_exprs=st.lists(st.sampled_from(["k/1", "k/*", "k/7", "x"]), max_size=2).map(tuple),
    span=spans,
    lossy=st.booleans(),
)


@settings(deadline=None)
@given(ticket=tickets)
def test_flight_and_files_agree(ends: Ends, ticket: Ticket) -> None:
    reader, client = ends
    assert Ticket.decode(ticket.encode()) == ticket
    assert ticket.first is not None
    assert ticket.end is not None
    wanted = (list(ticket.columns), ticket.key_exprs, ticket.span)
    by_file = rows_of(reader, 0, ticket.first, ticket.end, *wanted)
    table = client.do_get(flight.Ticket(ticket.encode())).read_all()
    assert table.schema.names == list(ticket.columns)
    assert table.to_pylist() == [row for _, _, batch in by_file for row in batch.to_pylist()]
