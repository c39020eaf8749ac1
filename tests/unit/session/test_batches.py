"""Samples as Arrow record batches."""

from __future__ import annotations

import datetime
import sys

import pyarrow as pa
import pytest
from tests.unit.session.fake_node import FakeDriver

from elea.config.config import Config
from elea.encoding import Encoding
from elea.errors import InvalidValueError, MissingDependencyError
from elea.fast.plain import PlainPush
from elea.handlers import ArrowBatches
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SourceInfo
from elea.session import batches
from elea.session.arrow import record_batch, single
from elea.session.columns import Columns, ColumnsOutlet
from elea.session.outlet import Channel
from elea.session.ports import CallbackThread
from elea.session.session import Session
from elea.store.log.schema import SCHEMA
from elea.timestamp import NTP64, Timestamp
from elea.wire.buffer import Writer
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, WireEncoding, WireExpr
from elea.wire.network.push import Push, encode
from elea.wire.shared_extensions import SourceRef

WALL_NS = 1_700_000_000_000_001_000
WALL = datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC) + datetime.timedelta(
    microseconds=1
)
ROW = {
    "kind": 0,
    "attachment": None,
    "encoding": "zenoh/bytes",
    "ts": None,
    "hlc": None,
    "hlc_id": None,
    "zid": None,
    "eid": None,
    "sn": None,
    "qos": 5,
    "recv_ts": WALL,
}


class Rows:
    """An outlet fed with samples as they stand in a batch."""

    def __init__(self, rows_count: int = 100, len_max: int = 1_000_000, capacity: int = 10) -> None:
        self.channel = Channel(capacity, is_ring=False, overrun_count=0)
        self.outlet = ColumnsOutlet(self.channel, rows_count, len_max, lambda: WALL_NS)
        self.outlet.begin()
        self._plain = PlainPush()

    def feed(self, key: str, put: Put, qos: int = 0x05) -> None:
        writer = Writer()
        encode(writer, Push(WireExpr(1), put, qos))
        octets = writer.to_bytes() + bytes(64)
        assert self._plain.read(octets, 0, len(octets)) > 0
        self.outlet.add(key, self._plain)

    def batch(self) -> pa.RecordBatch:
        value = self.channel.take(blocking=False, timeout=None)
        assert isinstance(value, Columns)
        batch = record_batch(value)
        batch.validate(full=True)
        assert batch.schema == SCHEMA
        return batch


def test_rows_have_what_samples_have() -> None:
    rows = Rows()
    rows.feed("a", Put(b"1"))
    stamp = Stamp((5 << 32) | (1 << 31), b"\x01")  # 5.5 seconds
    source = SourceRef(b"\x02", 3, 4)
    rows.feed("b", Put(b"", stamp, WireEncoding(1), b"", source), 0x1D)
    rows.feed("a", Put(b"22", None, WireEncoding(0, b"mine")))
    rows.outlet.seal()
    assert rows.batch().to_pylist() == [
        {**ROW, "key": "a", "payload": b"1"},
        {
            **ROW,
            "key": "b",
            "payload": b"",
            "attachment": b"",
            "encoding": "zenoh/string",
            "ts": datetime.datetime(1970, 1, 1, 0, 0, 5, 500_000, datetime.UTC),
            "hlc": stamp.time,
            "hlc_id": "1",
            "zid": "2",
            "eid": 3,
            "sn": 4,
            "qos": 0x1D,
        },
        {**ROW, "key": "a", "payload": b"22", "encoding": "zenoh/bytes;mine"},
    ]


@pytest.mark.parametrize(
    "put",
    [
        Put(b"1"),
        Put(b"", Stamp(5 << 32, b"\x01"), WireEncoding(1), b"", SourceRef(b"\x02", 3, 4)),
        Put(b"22", None, WireEncoding(5, b"mine"), b"beside"),
    ],
)
def test_a_row_that_is_alone_is_the_same_without_arrow(put: Put) -> None:
    rows = Rows()
    rows.feed("a", put)
    rows.outlet.seal()
    value = rows.channel.take(blocking=False, timeout=None)
    assert isinstance(value, Columns)
    [wanted] = record_batch(value).to_pylist()
    found = single(value)
    for name in ("key", "kind", "payload", "attachment", "encoding", "hlc", "hlc_id"):
        assert getattr(found, name) == wanted[name], name
    assert (found.zid, found.eid, found.sn) == (wanted["zid"], wanted["eid"], wanted["sn"])
    assert (found.qos, found.received_us) == (wanted["qos"], WALL_NS // 1_000)


def test_times_after_2038_keep_their_bits_and_their_order() -> None:
    rows = Rows()
    late = (2_200_000_000 << 32) | 7
    rows.feed("a", Put(b"", Stamp(late, b"\x01")))
    rows.outlet.seal()
    [row] = rows.batch().to_pylist()
    assert row["hlc"] % (1 << 64) == late
    assert row["ts"].timestamp() == 2_200_000_000


@pytest.mark.parametrize("holes", [False, True])
def test_few_rows_and_many_have_the_same_times(holes: bool) -> None:
    stamps = [Stamp((number << 40) + 77 * number + 1, bytes([7])) for number in range(40)]
    rows = Rows()
    for number, stamp in enumerate(stamps):
        rows.feed("k", Put(b"", None if holes and number % 3 else stamp))
    rows.outlet.seal()
    many = rows.batch().to_pylist()
    few = []
    for start in range(0, 40, 10):
        for number in range(start, start + 10):
            rows.feed("k", Put(b"", None if holes and number % 3 else stamps[number]))
        rows.outlet.seal()
        few += rows.batch().to_pylist()
    assert few == many
    assert [row["hlc"] for row in many[:3]] == [
        1,
        None if holes else stamps[1].time,
        *([None] if holes else [stamps[2].time]),
    ]
    assert [row["ts"] is None for row in many] == [row["hlc"] is None for row in many]


def test_a_batch_is_full_by_rows_or_by_octets() -> None:
    rows = Rows(rows_count=2)
    for number in range(5):
        rows.feed("a", Put(b"%d" % number))
    assert [rows.batch().num_rows, rows.batch().num_rows] == [2, 2]
    assert len(rows.channel) == 0
    rows.outlet.seal()
    assert rows.batch()["payload"].to_pylist() == [b"4"]
    heavy = Rows(len_max=100)
    heavy.feed("a", Put(bytes(60), None, None, bytes(50)))
    assert heavy.batch().num_rows == 1


def test_numbers_of_keys_start_anew_with_each_batch() -> None:
    rows = Rows(rows_count=1)
    rows.feed("a", Put(b"", None, WireEncoding(4)))
    rows.feed("b", Put(b""))
    assert rows.batch()["key"].to_pylist() == ["a"]
    batch = rows.batch()
    assert batch["key"].to_pylist() == ["b"]
    assert batch["encoding"].to_pylist() == ["zenoh/bytes"]


def test_rows_that_find_no_room_are_counted() -> None:
    rows = Rows(rows_count=3, capacity=1)
    for _ in range(9):
        rows.feed("a", Put(b""))
    assert len(rows.channel) == 1
    assert rows.channel.dropped_count == 6


def test_a_subscriber_reads_batches() -> None:
    session = Session(Config(), FakeDriver(CallbackThread.CALLER))
    subscriber = session.declare_subscriber("a/*", ArrowBatches(rows=3))
    session.put("a/1", "x", encoding=Encoding.TEXT_PLAIN, attachment="y")
    stamp = Timestamp(NTP64(5, 0), b"\x01")
    entity = EntityGlobalId(ZenohId(b"\x02"), EntityId(3))
    session.put("a/2", "z", timestamp=stamp, source_info=SourceInfo(entity, 4))
    assert subscriber.try_recv() is None
    session.delete("a/1")
    batch = subscriber.recv()
    assert batch["key"].to_pylist() == ["a/1", "a/2", "a/1"]
    assert batch["kind"].to_pylist() == [0, 0, 1]
    assert batch["payload"].to_pylist() == [b"x", b"z", b""]
    assert batch["attachment"].to_pylist() == [b"y", None, None]
    assert batch["encoding"].to_pylist()[0] == "text/plain"
    assert batch["hlc"].to_pylist() == [None, 5 << 32, None]
    assert batch["sn"].to_pylist() == [None, 4, None]
    session.put("a/3", "w")
    handler = subscriber.handler
    subscriber.undeclare()  # what is there is handed over
    assert [one["key"].to_pylist() for one in handler] == [["a/3"]]
    session.close()


def test_the_first_row_does_not_wait_for_ever() -> None:
    driver = FakeDriver(CallbackThread.CALLER)
    session = Session(Config(), driver)
    subscriber = session.declare_subscriber("a", ArrowBatches(rows=1_000, ms=20))
    session.put("a", "x")
    assert subscriber.try_recv() is None
    driver.advance(0.019)
    assert subscriber.try_recv() is None
    driver.advance(0.002)
    batch = subscriber.try_recv()
    assert batch is not None
    assert batch.num_rows == 1
    driver.advance(1)
    assert subscriber.try_recv() is None
    session.close()


def test_a_batch_after_one_that_was_handed_over_has_its_own_time() -> None:
    driver = FakeDriver(CallbackThread.CALLER)
    session = Session(Config(), driver)
    subscriber = session.declare_subscriber("a", ArrowBatches(rows=1_000, ms=20))
    face = session._context.core.face
    for _ in range(5):
        session.put("a", "x")
        subscriber.flush()
        assert subscriber.try_recv() is not None
    driver.advance(0.015)
    session.put("a", "x")
    assert len(face._timers._heap) == 1
    driver.advance(0.019)
    assert subscriber.try_recv() is None
    driver.advance(0.002)
    assert subscriber.try_recv() is not None
    assert face.next_timer_ns() is None
    session.put("a", "x")
    driver.advance(0.021)
    assert subscriber.try_recv() is not None
    session.close()


def test_wrong_sizes_are_refused() -> None:
    for wrong in ({"rows": 0}, {"ms": -1}, {"capacity": 0}):
        with pytest.raises(InvalidValueError, match="rows and capacity from 1"):
            ArrowBatches(**wrong)  # type: ignore[arg-type]  # all are numbers


def test_only_samples_become_rows() -> None:
    session = Session(Config(), FakeDriver(CallbackThread.CALLER))
    with pytest.raises(ValueError, match="Invalid handler type ArrowBatches"):
        session.declare_queryable("a", ArrowBatches())  # type: ignore[call-overload]
    session.close()


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elea.session.arrow", None)
    session = Session(Config(), FakeDriver(CallbackThread.CALLER))
    with pytest.raises(MissingDependencyError, match=r"elea\[arrow\]"):
        session.declare_subscriber("a", batches.ArrowBatches())
    session.close()
