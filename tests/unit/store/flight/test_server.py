"""A Flight door: what any client of Flight gets, what is refused, and what is bounded."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.interop.ends import eventually
from tests.link.certificates import certificates
from tests.unit.spark.logs import fill, fill_long, log_at
from tests.unit.store.log.rows import numbers_of, stamp

from elea.errors import ConfigError, StoreError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.flight import server
from elea.store.flight.connections import cut, peer_of
from elea.store.flight.door import Door
from elea.store.flight.settings import FlightSettings
from elea.store.log.location import TOKEN_ENV
from elea.store.log.log import Log
from elea.store.log.ranges import COLUMNS
from elea.store.log.reader import LogReader
from elea.store.log.ticket import Ticket

ROWS = 600
TOKEN = "a-token-that-is-long-enough"
HERE = {"location": "grpc://127.0.0.1:0"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with log_at(tmp_path_factory.mktemp("log")) as made:
        fill(made, 0, ROWS)
        yield made


@pytest.fixture
def door(log: Log) -> Iterator[Door]:
    with opened(log) as made:
        yield made


@contextmanager
def opened(log: Log, limits: Limits = DEFAULT_LIMITS, **section: Any) -> Iterator[Door]:
    with closing(Door(limits)) as made:
        made.add("fleet", log.disk)
        made.open(FlightSettings.read(HERE | section))
        yield made


def client_of(door: Door, **more: Any) -> flight.FlightClient:
    assert door.location is not None
    return flight.FlightClient(door.location, **more)


def info_of(client: flight.FlightClient, **wanted: Any) -> flight.FlightInfo:
    command = Ticket(log="fleet", **wanted).encode()
    return client.get_flight_info(flight.FlightDescriptor.for_command(command))


def read(client: flight.FlightClient, **wanted: Any) -> list[pa.RecordBatch]:
    endpoints = info_of(client, **wanted).endpoints
    return [batch for one in endpoints for batch in client.do_get(one.ticket).to_reader()]


def refused(client: flight.FlightClient, ticket: bytes) -> dict[str, Any]:
    with pytest.raises((flight.FlightServerError, flight.FlightUnavailableError)) as caught:
        client.do_get(flight.Ticket(ticket)).read_all()
    found = json.loads(caught.value.extra_info)
    assert isinstance(found, dict)
    return found


def test_any_client_finds_and_reads_a_log(door: Door, log: Log) -> None:
    with client_of(door) as client:
        [info] = client.list_flights()
        assert info.descriptor.path == [b"fleet"]
        assert info.total_records == ROWS
        assert info.schema.names == list(COLUMNS)
        assert len(info.endpoints) == 2
        tables = [client.do_get(one.ticket).read_all() for one in info.endpoints]
        assert [table.num_rows for table in tables] == log.ends()
        found = [batch for table in tables for batch in table.to_batches()]
        assert sorted(numbers_of(found)) == list(range(ROWS))
        named = client.get_flight_info(flight.FlightDescriptor.for_path("fleet"))
        assert named.schema == info.schema == tables[0].schema
    counts = door.counts.by_name()
    assert (counts["streams"], counts["open"], counts["rows"]) == (2, 0, ROWS)
    assert counts["octets"] > 10_000


def test_ranges_columns_keys_and_times(door: Door, log: Log) -> None:
    with client_of(door) as client:
        [part] = pa.Table.from_batches(
            read(client, shard=0, first=7, end=9, columns=("seq", "key"))
        ).to_batches(max_chunksize=9)
        assert part.schema.names == ["seq", "key"]
        assert part.column("seq").to_pylist() == [7, 8]
        info = info_of(client, key_exprs=("k/1",))
        assert info.total_records == -1  # how many match is not known before
        rows = [row for one in read(client, key_exprs=("k/1", "k/2")) for row in one.to_pylist()]
        assert {row["key"] for row in rows} == {"k/1", "k/2"}
        assert len(rows) == ROWS // 4
        timed = read(client, span=(stamp(100), stamp(103)), columns=("sn", "payload"))
        assert sorted(numbers_of(timed)) == [100, 101, 102]
        assert read(client, key_exprs=("nobody",)) == []
        assert read(client, shard=1, first=3, end=3) == []


@pytest.mark.parametrize(
    ("ticket", "kind", "complaint"),
    [
        (b"garbage", "unknown", "legal is JSON"),
        (b'{"v": 3}', "unknown", "saw version 3; legal is 1"),
        (b'{"v": 1, "log": "fleet"}', "unknown", "shard, lo or hi is missing"),
        (b'{"v": 1, "log": "no", "shard": 0, "lo": 0, "hi": 1}', "absent", "there are: fleet"),
        (b'{"v": 1, "log": "fleet", "shard": 2, "lo": 0, "hi": 1}', "unknown", "legal are 0 to 1"),
        (b'{"v": 1, "log": "fleet", "shard": 0, "lo": 0, "hi": 9999}', "unknown", "not written"),
        (
            b'{"v": 1, "log": "fleet", "shard": 0, "lo": 0, "hi": 1,'
            b' "id": "00000000-0000-0000-0000-000000000007"}',
            "unknown",
            "rows of log 00000000-0000-0000-0000-000000000007 are wanted; fleet is log",
        ),
    ],
)
def test_what_cannot_be_read_is_told(door: Door, ticket: bytes, kind: str, complaint: str) -> None:
    with client_of(door) as client:
        told = refused(client, ticket)
    assert told["error"] == kind
    assert complaint in told["detail"]
    assert "Traceback" not in json.dumps(told)
    assert door.counts.refused == 1


def test_a_descriptor_that_is_none_is_told(door: Door) -> None:
    with client_of(door) as client:
        for descriptor, complaint in (
            (flight.FlightDescriptor.for_path("a", "b"), "legal is the name of a log"),
            (flight.FlightDescriptor.for_path("nix"), "no log 'nix' is here; there are: fleet"),
            (flight.FlightDescriptor.for_command(b"?"), "legal is JSON"),
        ):
            with pytest.raises(flight.FlightServerError, match=complaint):
                client.get_flight_info(descriptor)


def test_rows_that_were_trimmed_are_told_with_what_is_left(tmp_path: Path) -> None:
    with log_at(tmp_path, 1, segment_len=4_000) as made:
        fill(made, 0, 100, 10)
        for path in sorted(tmp_path.glob("shard-0000/*.arrows"))[:2]:
            path.unlink()
            path.with_suffix(".idx").unlink()
        first = LogReader(tmp_path).bounds(0).first
        assert first > 0
        with opened(made) as door, client_of(door) as client:
            told = refused(client, Ticket(log="fleet", shard=0, first=0, end=100).encode())
            assert (told["error"], told["first"], told["end"]) == ("trimmed", first, 100)
            assert sum(one.num_rows for one in read(client)) == 100 - first


def test_it_is_read_only(door: Door) -> None:
    with client_of(door) as client:
        assert list(client.list_actions()) == []
        with pytest.raises(flight.FlightServerError, match="consumers commit over Zenoh"):
            list(client.do_action("drop"))
        descriptor = flight.FlightDescriptor.for_path("fleet")
        writer, _ = client.do_put(descriptor, pa.schema([("x", pa.int8())]))
        with pytest.raises(flight.FlightServerError, match="logs are read here"):
            writer.close()
        _, reader = client.do_exchange(descriptor)
        with pytest.raises(flight.FlightServerError, match="logs are read here"):
            reader.read_all()


def test_a_token_is_asked_for_by_every_call(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    with opened(log) as door:
        with client_of(door) as client:
            ticket = flight.Ticket(Ticket(log="fleet", shard=0, first=0, end=3).encode())
            wrong = [[], [(b"authorization", b"Bearer " + TOKEN.encode() + b"!")]]
            wrong.append([(b"authorization", b"Basic " + TOKEN.encode())])
            for headers in wrong:
                options = flight.FlightCallOptions(headers=headers)
                with pytest.raises(flight.FlightUnauthenticatedError, match="Bearer TOKEN"):
                    list(client.list_flights(options=options))
                with pytest.raises(flight.FlightUnauthenticatedError):
                    client.do_get(ticket, options).read_all()
                with pytest.raises(flight.FlightUnauthenticatedError):
                    list(client.do_action("x", options))
            assert door.counts.unauthenticated == 9
            right = [(b"authorization", b"bearer " + TOKEN.encode())]
            options = flight.FlightCallOptions(headers=right)
            assert client.do_get(ticket, options).read_all().num_rows == 3
        assert door.status()["token"] is True
        assert TOKEN not in json.dumps(door.status())


def test_tls(log: Log, tmp_path: Path) -> None:
    made = certificates()
    (tmp_path / "c.pem").write_text(made.server.certificate_text)
    (tmp_path / "k.pem").write_text(made.server.key_text)
    (tmp_path / "k.pem").chmod(0o600)
    section: dict[str, Any] = {
        "location": "grpc+tls://127.0.0.1:0",
        "tls_certificate": str(tmp_path / "c.pem"),
        "tls_private_key": str(tmp_path / "k.pem"),
    }
    with opened(log, **section) as door:
        with client_of(door, tls_root_certs=made.root_text.encode()) as client:
            assert sum(one.num_rows for one in read(client)) == ROWS
        with client_of(door) as client, pytest.raises(flight.FlightUnavailableError):
            list(client.list_flights())  # nobody it knows vouches for that


@pytest.mark.parametrize("name", ["tls_certificate", "tls_private_key"])
def test_a_certificate_that_is_not_there_is_told(name: str, tmp_path: Path) -> None:
    made = certificates()
    files = {"tls_certificate": tmp_path / "c.pem", "tls_private_key": tmp_path / "k.pem"}
    files["tls_certificate"].write_text(made.server.certificate_text)
    files["tls_private_key"].write_text(made.server.key_text)
    files["tls_private_key"].chmod(0o600)
    files[name].unlink()
    texts = {one: str(file) for one, file in files.items()}
    door = Door()
    with pytest.raises(ConfigError, match="No such file") as caught:
        door.open(FlightSettings.read({"location": "grpc+tls://127.0.0.1:0", **texts}))
    assert caught.value.path == f"plugins/recorder/flight/{name}"
    assert door.status()["state"] == "Failed"


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        door = Door()
        location = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StoreError, match=f"cannot listen at {location}: is the port in use"):
            door.open(FlightSettings.read({"location": location}))
        assert "in use" in str(door.status()["error"])
        door.close()


def long_log(directory: Path) -> Log:
    made = log_at(directory, 1, segment_len=1 << 30)
    fill_long(made)
    return made


def test_messages_and_streams_are_bounded(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, flight_streams_count=2, flight_batch_len=100_000)
    with long_log(tmp_path) as made, opened(made, limits) as door, client_of(door) as client:
        ticket = Ticket(log="fleet", shard=0, first=0, end=8_000).encode()
        streams = [client.do_get(flight.Ticket(ticket)) for _ in range(2)]
        assert [next(one).data.num_rows for one in streams] == [12, 12]  # of 8 000 octets
        assert eventually(lambda: door.counts.open == 2)
        told = refused(client, ticket)
        assert (told["error"], door.counts.busy) == ("busy", 1)
        assert told["detail"] == "2 ranges are being read; ask again later"
        streams[0].cancel()
        assert eventually(lambda: door.counts.open == 1)  # its place is free again
        stream = client.do_get(flight.Ticket(ticket))
        assert sum(chunk.data.num_rows for chunk in stream) == 8_000
        # A row that is longer than a message goes alone.
        tiny = replace(limits, flight_batch_len=10)
        with opened(made, tiny) as other, client_of(other) as second:
            parts = read(second, shard=0, first=0, end=3)
            assert [one.num_rows for one in parts] == [1, 1, 1]


def test_a_reader_that_stands_still_is_let_go(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, flight_stall_ns=1_000_000_000)
    with long_log(tmp_path) as made, opened(made, limits) as door, client_of(door) as client:
        ticket = Ticket(log="fleet", shard=0, first=0, end=8_000).encode()
        stream = client.do_get(flight.Ticket(ticket))
        next(stream)
        assert eventually(lambda: door.counts.open == 0)
        assert eventually(lambda: door.counts.stalled == 1)
        with pytest.raises(pa.ArrowException):
            stream.read_all()


def test_a_reader_whose_connection_could_not_be_cut_at_once_kept_its_place_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def cut_later(port: int, peer: tuple[str, int] | None = None) -> int:
        tries.append(port)
        return cut(port, peer) if len(tries) > 1 else 0

    monkeypatch.setattr(server, "cut", cut_later)
    limits = replace(DEFAULT_LIMITS, flight_stall_ns=200_000_000)
    with long_log(tmp_path) as made, opened(made, limits) as door, client_of(door) as client:
        ticket = Ticket(log="fleet", shard=0, first=0, end=8_000).encode()
        stream = client.do_get(flight.Ticket(ticket))
        next(stream)
        assert eventually(lambda: door.counts.stalled == 1)
        assert eventually(lambda: door.counts.open == 0)


def test_a_reader_that_stands_still_does_not_keep_a_door_from_closing(tmp_path: Path) -> None:
    with long_log(tmp_path) as made, opened(made) as door:
        client = client_of(door)
        stream = client.do_get(
            flight.Ticket(Ticket(log="fleet", shard=0, first=0, end=8_000).encode())
        )
        next(stream)
        closing_ = threading.Thread(target=door.close)
        closing_.start()
        closing_.join(20)
        assert not closing_.is_alive()
        assert door.location is None
        with pytest.raises(pa.ArrowException):
            stream.read_all()
        client.close()


def test_a_log_that_was_opened_anew_stays_when_the_old_one_goes(log: Log, tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as other:
        door = Door()
        door.add("fleet", log.disk)
        door.add("fleet", other.disk)
        door.remove("fleet", log.disk)
        assert door.find("fleet") is other.disk
        door.remove("fleet", other.disk)
        assert door.names() == []


def test_connections_are_cut_by_port_and_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = server.getsockname()
        with socket.create_connection(at) as one, socket.create_connection(at) as two:
            accepted = [server.accept()[0] for _ in range(2)]
            peer = peer_of(f"ipv4:127.0.0.1:{one.getsockname()[1]}")
            assert peer == one.getsockname()
            assert cut(at[1], peer) == 1
            assert one.recv(1) == b""
            assert cut(at[1]) >= 1
            assert two.recv(1) == b""
            for each in accepted:
                each.close()
    assert peer_of("unix:/x") is None
    assert peer_of("ipv4:127.0.0.1") is None
