"""A log over Flight: the same rows as by its files, and what happens when somebody is not there."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.link.certificates import certificates
from tests.unit.spark.engine import Query
from tests.unit.spark.logs import (
    WISHES,
    all_rows,
    fill,
    fill_long,
    log_at,
    range_of,
    source,
    stream,
)
from tests.unit.store.log.rows import stamp

import elea
from elea.errors import ConfigError, LinkError, OffsetError, StoreError
from elea.spark import flights
from elea.spark.flights import FlightPlace
from elea.spark.places import FilePlace, check_reached, open_place
from elea.spark.rows import raw_range, read_range
from elea.spark.served import ServedPlace
from elea.spark.sessions import close_all
from elea.store.flight.door import Door
from elea.store.flight.settings import FlightSettings
from elea.store.log.location import TOKEN_ENV
from elea.store.log.log import Log
from elea.store.log.ranges import COLUMNS
from elea.store.log.reader import LogReader
from elea.store.logserver import LogServer

ROWS = 600
TOKEN = "a-token-that-is-long-enough"
HERE = {"location": "grpc://127.0.0.1:0"}


@dataclass
class Served:
    """A log that is served as `fleet`."""

    log: Log
    directory: Path
    node: elea.Session
    door: Door
    endpoint: str


@contextmanager
def serving(directory: Path, **section: str) -> Iterator[Served]:
    endpoint = free_endpoint()
    with log_at(directory) as log, session(ELEA, "router", listen=endpoint) as node:
        fill(log, 0, ROWS)
        with closing(Door()) as door:
            door.open(FlightSettings.read(HERE | section))
            server = LogServer(node, "fleet", directory, log, door=door)
            yield Served(log, directory, node, door, endpoint)
            server.stop()
        close_all()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("log")) as found:
        yield found


@pytest.mark.parametrize("more", WISHES)
def test_flight_gives_the_rows_of_the_files(served: Served, more: dict[str, object]) -> None:
    by_file = open_place(source(str(served.directory), served.endpoint))
    by_flight = open_place(source("flight:fleet", served.endpoint))
    assert isinstance(by_flight, FlightPlace)
    assert by_file.log_id == by_flight.log_id
    assert by_file.bounds() == by_flight.bounds()
    for shard, bounds in enumerate(by_file.bounds()):
        expected = range_of(by_file, shard, 3, bounds.end - 5, **dict(more))
        assert range_of(by_flight, shard, 3, bounds.end - 5, **dict(more)) == expected
        numbers = list(by_flight.read(shard, 3, bounds.end - 5, COLUMNS, ("nothing",)))
        assert [(low, high) for low, high, _ in numbers] == [(3, bounds.end - 5)]


def test_types_are_those_of_the_log(served: Served) -> None:
    wanted = source("flight:fleet", served.endpoint)
    [by_flight, by_file] = [
        next(raw_range(one, served.log.log_id, 0, 0, 50))
        for one in (wanted, source(str(served.directory), served.endpoint))
    ]
    assert by_flight.schema.equals(by_file.schema)
    assert by_flight.to_pylist() == by_file.to_pylist()


def test_the_rest_is_told_over_zenoh(served: Served) -> None:
    by_file = open_place(source(str(served.directory), served.endpoint))
    by_flight = open_place(source("flight:fleet", served.endpoint))
    assert by_file.seek(stamp(200)) == by_flight.seek(stamp(200))
    end = by_file.bounds()[0].end
    assert 1 < by_flight.cut(0, 0, end, 3_000) < end
    by_flight.commit("c", {0: 11}, 60)
    assert by_flight.committed("c") == by_file.committed("c") == {0: 11}


def test_a_query_reads_every_row_once(served: Served) -> None:
    options = {"log": "flight:fleet", "connect": served.endpoint, "maxRowsPerTrigger": "170"}
    query = Query(lambda: stream(Path("unused"), **options))
    query.run(batches_count=100, crash=lambda _: None, available_now=True)
    assert query.rows() == all_rows(served.log)


def test_tasks_need_no_zenoh_where_the_location_is_given(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: object, **__: object) -> None:
        raise AssertionError("a task asked over Zenoh")

    monkeypatch.setattr(flights, "ServedPlace", nobody)
    where = {"flight": str(served.door.location), "timeout": "29"}
    wanted = pickle.loads(pickle.dumps(source("flight:fleet", "tcp/127.0.0.1:1", **where)))
    found = list(read_range(wanted, served.log.log_id, 1, 0, 40))
    assert sum(batch.num_rows for batch in found) == 40


def test_a_client_belongs_to_a_process(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = source("flight:fleet", served.endpoint)
    range_of(open_place(wanted), 0, 0, 1)
    range_of(open_place(wanted), 0, 0, 1)
    mine = [one for one in flights._CLIENTS if one[0] == os.getpid()]
    assert len([one for one in mine if str(one[1]) == served.door.location]) <= 2  # also as option
    before = len(flights._CLIENTS)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    range_of(open_place(wanted), 0, 0, 1)
    assert len(flights._CLIENTS) == before + 1


def test_the_next_place_is_taken_where_there_is_no_door(served: Served) -> None:
    server = LogServer(served.node, "shut", served.directory)
    try:
        with pytest.raises(StoreError, match="tells of no Flight: start the recorder with --fli"):
            open_place(source("flight:shut", served.endpoint))
        both = open_place(source("flight:shut,zenoh:shut", served.endpoint))
        assert isinstance(both, ServedPlace)
        first = open_place(source(f"{served.directory},flight:fleet", served.endpoint))
        assert isinstance(first, FilePlace)
    finally:
        server.stop()


def test_rows_and_logs_that_are_not_there_are_an_error(served: Served) -> None:
    place = open_place(source("flight:fleet", served.endpoint))
    with pytest.raises(StoreError, match="not written yet"):
        range_of(place, 0, 0, 100_000)
    away = {"flight": str(served.door.location), "timeout": "3"}
    with pytest.raises(StoreError, match="no log 'other' is here; there are: fleet"):
        open_place(source("flight:other", served.endpoint, **away))


def test_nobody_is_there(served: Served) -> None:
    location = f"grpc://{free_endpoint().removeprefix('tcp/')}"
    with pytest.raises(StoreError, match=f"fleet at {location}, from row 0 of shard 0 on: "):
        open_place(source("flight:fleet", served.endpoint, flight=location, timeout="0.3"))


def test_a_closed_flight_port_fails_a_query_at_its_start(served: Served) -> None:
    """Each was tried until the timeout, 30 s."""
    location = f"grpc://{free_endpoint().removeprefix('tcp/')}"
    with pytest.raises(LinkError, match=f"nothing listens at {location}; start the recorder"):
        check_reached(source("flight:fleet", served.endpoint, flight=location))
    several = f"flight:fleet,{served.directory}"
    check_reached(source(several, served.endpoint, flight=location))  # the next place is taken


def test_trimmed_rows_are_an_error_unless_loss_is_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = free_endpoint()
    with log_at(tmp_path, 1, segment_len=4_000) as log:
        fill(log, 0, 100, 10)
        with session(ELEA, "router", listen=endpoint) as node, closing(Door()) as door:
            door.open(FlightSettings.read(HERE))
            server = LogServer(node, "fleet", tmp_path, log, door=door)
            strict = source("flight:fleet", endpoint)
            lossy = source("flight:fleet", endpoint, failOnDataLoss="false")
            assert len(list(read_range(strict, log.log_id, 0, 0, 100))) > 0
            for path in sorted(tmp_path.glob("shard-0000/*.arrows"))[:2]:
                path.unlink()
                path.with_suffix(".idx").unlink()
            first = LogReader(tmp_path).bounds(0).first
            with pytest.raises(OffsetError, match=f"was trimmed; the log has rows {first} to 99"):
                list(read_range(strict, log.log_id, 0, 0, 100))
            with caplog.at_level(logging.ERROR):
                found = list(read_range(lossy, log.log_id, 0, 0, 100))
            seqs = [seq for batch in found for seq in batch["seq"].to_pylist()]
            assert seqs == list(range(first, 100))
            assert f"data loss: rows 0 to {first - 1} of shard 0" in caplog.text
            server.stop()
            close_all()


@pytest.mark.parametrize("is_told", [True, False])
def test_a_door_that_closes_and_opens_again_is_not_noticed(tmp_path: Path, is_told: bool) -> None:
    """Where it was, if that is an option; anywhere, if a recorder tells it."""
    with serving(tmp_path) as served:
        fill_long(served.log)
        location = str(served.door.location)
        where = {} if is_told else {"flight": location}
        place = open_place(source("flight:fleet", served.endpoint, **where))
        end = place.bounds()[0].end
        found = place.read(0, 0, end, ("seq", "payload"))
        seqs = next(found)[2]["seq"].to_pylist()
        assert served.door.counts.open == 1
        served.door.close()
        served.door.open(FlightSettings.read(HERE if is_told else {"location": location}))
        assert not is_told or served.door.location != location
        for low, _, batch in found:
            assert low == len(seqs)
            seqs += batch["seq"].to_pylist()
        assert seqs == list(range(end))
        assert served.door.counts.streams == 2


def test_a_log_that_was_replaced_is_an_error(tmp_path: Path) -> None:
    with serving(tmp_path / "old") as served:
        place = open_place(source("flight:fleet", served.endpoint))
        with log_at(tmp_path / "new", 2) as new:
            served.door.add("fleet", new.disk)
            with pytest.raises(StoreError, match=f"{served.log.log_id} are wanted; fleet is log"):
                range_of(place, 0, 0, 1)
            other = open_place(source("flight:fleet", served.endpoint))
            assert other.log_id == new.log_id
            with pytest.raises(StoreError, match="start the query again"):
                other.bounds()  # Zenoh and Flight do not agree
            assert not other.is_current()


def test_a_token_and_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    made = certificates()
    texts = {"c.pem": made.server.certificate_text, "k.pem": made.server.key_text, "token": TOKEN}
    files = {name: tmp_path / name for name in [*texts, "roots.pem", "wrong"]}
    for name, text in {**texts, "roots.pem": made.root_text, "wrong": TOKEN + "!"}.items():
        files[name].write_text(text)
        files[name].chmod(0o600)
    with serving(
        tmp_path / "log",
        location="grpc+tls://127.0.0.1:0",
        tls_certificate=str(files["c.pem"]),
        tls_private_key=str(files["k.pem"]),
        token_file=str(files["token"]),
    ) as served:
        where = {"flightRoots": str(files["roots.pem"])}
        with pytest.raises(StoreError, match="wants another token; legal is the option flightTok"):
            open_place(source("flight:fleet", served.endpoint, **where))
        for file, works in (("wrong", False), ("token", True)):
            wanted = source(
                "flight:fleet", served.endpoint, flightTokenFile=str(files[file]), **where
            )
            assert TOKEN not in repr(wanted)
            if not works:
                with pytest.raises(StoreError, match="wants another token"):
                    open_place(wanted)
                continue
            assert len(range_of(open_place(wanted), 0, 0, 10)) == 10
        monkeypatch.setenv(TOKEN_ENV, TOKEN)
        named = {"flight": str(served.door.location), "timeout": "28", **where}
        assert (
            len(range_of(open_place(source("flight:fleet", served.endpoint, **named)), 0, 0, 9))
            == 9
        )
        # Whoever says that a log is there does not get the token for it.
        with pytest.raises(ConfigError, match=r"a token is not sent to grpc.tls://127.0.0.1"):
            open_place(source("flight:fleet", served.endpoint))
        plain = {"flight": "grpc://192.0.2.1:8815"}
        with pytest.raises(ConfigError, match="is not encrypted: the token would be seen"):
            open_place(source("flight:fleet", served.endpoint, **plain))
        nowhere = {**named, "flightRoots": "/no/roots.pem"}
        with pytest.raises(ConfigError, match=r"flightRoots: /no/roots.pem: No such file"):
            open_place(source("flight:fleet", served.endpoint, **nowhere))


def test_a_task_that_has_enough_frees_its_place(served: Served) -> None:
    place = open_place(source("flight:fleet", served.endpoint))
    found = place.read(0, 0, place.bounds()[0].end, COLUMNS)
    assert isinstance(next(found)[2], pa.RecordBatch)
    found.close()  # type: ignore[attr-defined]  # a generator
    assert eventually(lambda: served.door.counts.open == 0)
