"""The sink without Spark: rows become samples, in order, the same in every attempt."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.ports import free_port

import elea
from elea.errors import ConfigError, EleaError, LinkError
from elea.ids import ZenohId
from elea.provenance import SampleKind
from elea.spark.identity import ANY_KEY_EID
from elea.spark.options import Options, Sink
from elea.spark.repeats import Repeats, once
from elea.spark.sink import Sent, check_schema, send
from elea.spark.source import ZenohSource
from elea.timestamp import NTP64, Timestamp

Got = list[elea.Sample]
NOWHERE = f"tcp/127.0.0.1:{free_port()}"  # where nothing listens
SAMPLES = {"key": "StringType", "payload": "BinaryType"}


@pytest.fixture
def end() -> Iterator[tuple[str, Got]]:
    """Where to send to, and what arrives there."""
    endpoint = free_endpoint()
    got: Got = []
    with session(ELEA, "router", listen=endpoint) as node:
        node.declare_subscriber("**", got.append)
        yield endpoint, got


def sink(endpoint: str, **more: str) -> Sink:
    return Options({"connect": endpoint, **more}).sink()


def batch(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {
            "key": [f"out/{number % 3}" for number in numbers],
            "payload": [str(number).encode() for number in numbers],
            "kind": pa.array([1 if number % 10 == 9 else 0 for number in numbers], pa.int8()),
            "encoding": ["text/plain" if number % 2 else None for number in numbers],
            "attachment": [b"a" if number == 3 else None for number in numbers],
        }
    )


def test_rows_become_samples_in_order(end: tuple[str, Got]) -> None:
    endpoint, got = end
    options = sink(endpoint, prefix="p/", encoding="application/json")
    sent = send(options, iter([batch(0, 15), batch(15, 5)]), "query/0", 4)
    assert sent == Sent(18, 2)
    assert eventually(lambda: len(got) == 20)
    assert [str(one.key_expr) for one in got] == [f"p/out/{number % 3}" for number in range(20)]
    kinds = [one.kind is SampleKind.DELETE for one in got]
    assert kinds == [number % 10 == 9 for number in range(20)]
    assert got[5].payload.to_string() == "5"
    assert [str(one.encoding) for one in got[4:6]] == ["application/json", "text/plain"]
    assert got[3].attachment is not None
    sources = {one.source_info for one in got}
    assert len(sources) == 20
    # From there on numbers are of any key: a recorder that hears some keys sees no gap.
    assert all(one is not None and one.source_id.eid >= ANY_KEY_EID for one in sources)


def identities(got: Got) -> Counter[tuple[object, ...]]:
    """By what rows are and how they are identified, how many there are."""
    return Counter(
        (str(one.key_expr), one.payload.to_bytes(), one.source_info, str(one.timestamp))
        for one in got
    )


def shuffled(rows: pa.RecordBatch, seed: int) -> list[pa.RecordBatch]:
    """The same rows in another order, in other batches."""
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    mixed = rows.take(pa.array(order))
    return [mixed.slice(0, 7), mixed.slice(7)]


def test_a_retry_with_rows_in_another_order_gives_each_the_same_identity(
    end: tuple[str, Got],
) -> None:
    """As after a shuffle; also of rows that are equal."""
    endpoint, got = end
    rows = pa.Table.from_batches([batch(0, 30), batch(0, 10), batch(3, 1)]).combine_chunks()
    [joined] = rows.to_batches()
    send(sink(endpoint), iter([joined]), "query/0", 1, at_ns=1_700_000_000 * 10**9)
    assert eventually(lambda: len(got) == 41)
    first = identities(got)
    assert set(first.values()) == {1}, "equal rows are told apart"
    for seed in (1, 2):
        got.clear()
        parts = shuffled(joined, seed)
        send(sink(endpoint), iter(parts), "query/0", 1, at_ns=1_700_000_000 * 10**9)
        assert eventually(lambda: len(got) == 41)
        assert identities(got) == first


def test_rows_carry_their_own_timestamps(end: tuple[str, Got]) -> None:
    endpoint, got = end
    stamp = Timestamp(NTP64(1_700_000_000, 5), ZenohId(b"\x07"))
    rows = pa.RecordBatch.from_pydict(
        {
            "key": ["a", "b", "c"],
            "payload": [b"1", b"2", b"3"],
            "ts": pa.array([7_000_000, 8_000_000, None], pa.timestamp("us", tz="UTC")),
            "hlc": pa.array([None, stamp.time.value, None], pa.int64()),
            "hlc_id": [None, "7", None],
        }
    )
    send(sink(endpoint), iter([rows]), "q", 0, at_ns=9 * 10**9)
    assert eventually(lambda: len(got) == 3)
    a, b, c = (one.timestamp for one in sorted(got, key=lambda one: str(one.key_expr)))
    assert a is not None
    assert a.time == NTP64(7, 0)
    assert b == stamp
    assert c is not None
    assert 9 * 10**9 <= c.time.as_nanos() <= 9 * 10**9 + 10**6


def test_rows_numbered_by_position_rise_as_they_are_sent(end: tuple[str, Got]) -> None:
    endpoint, got = end
    send(sink(endpoint, numbering="position"), iter([batch(0, 20)]), "q", 0)
    assert eventually(lambda: len(got) == 20)
    assert [one.source_info.source_sn for one in got if one.source_info] == [*range(20)]


def test_a_task_that_is_tried_again_is_seen_once(end: tuple[str, Got]) -> None:
    endpoint, _ = end
    options = sink(endpoint)
    got: Got = []
    repeats = Repeats()
    with session(ELEA, "client", connect=endpoint) as subscriber:
        subscriber.declare_subscriber("out/**", once(got.append, repeats))

        def fails() -> Iterator[pa.RecordBatch]:
            yield batch(0, 10)
            raise RuntimeError("the executor is lost")

        with pytest.raises(RuntimeError):
            send(options, fails(), "query/7", 0)
        send(options, iter([batch(0, 20)]), "query/7", 0)
        send(options, iter([batch(0, 20)]), "query/8", 0)  # another batch
        send(options, iter([batch(0, 20)]), "query/8", 1)  # another partition
        assert eventually(lambda: len(got) + repeats.dropped_count == 70)
        assert (len(got), repeats.dropped_count) == (60, 10)


def test_a_subscriber_that_looks_for_gaps_gets_every_row(end: tuple[str, Got]) -> None:
    endpoint, _ = end
    got: Got = []
    missed: list[object] = []
    with session(ELEA, "client", connect=endpoint) as client:
        subscriber = elea.ext.declare_advanced_subscriber(client, "out/**", got.append)
        subscriber.sample_miss_listener(missed.append)
        send(sink(endpoint), iter([batch(0, 200)]), "q", 0)
        assert eventually(lambda: len(got) == 200)
        assert missed == []


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("key", None, "row 0 of partition 2 has no key"),
        ("payload", None, "has no payload"),
        ("kind", 2, "is of kind 2; legal are 0 put, 1 delete"),
        ("key", "a//b", "a//b"),
    ],
)
def test_a_row_that_is_no_sample_is_told(
    end: tuple[str, Got], column: str, value: object, complaint: str
) -> None:
    rows = {"key": ["k"], "payload": [b""], "kind": [0]} | {column: [value]}
    with pytest.raises(EleaError, match=complaint):
        send(sink(end[0]), iter([pa.RecordBatch.from_pydict(rows)]), "q", 2)


def test_nobody_to_send_to() -> None:
    with pytest.raises(LinkError):
        send(sink(free_endpoint(), timeout="0.3"), iter([]), "q", 0)


def test_a_connection_that_breaks_fails_the_task() -> None:
    endpoint = free_endpoint()
    first = session(ELEA, "router", listen=endpoint)
    first.__enter__()

    def breaks() -> Iterator[pa.RecordBatch]:
        yield batch(0, 5)
        first.__exit__(None, None, None)
        yield batch(5, 5)

    with pytest.raises(EleaError):
        send(sink(endpoint, timeout="0.5"), breaks(), "q", 0)


def schema(text: dict[str, str]) -> StructType:
    from pyspark.sql import types

    fields = [types.StructField(name, getattr(types, kind)()) for name, kind in text.items()]
    return StructType(fields)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"payload": "BinaryType"}, "column key: is missing; legal are key \\(string\\)"),
        ({"key": "StringType"}, "column payload: is missing"),
        ({"key": "StringType", "payload": "DoubleType"}, "column payload: is double"),
        ({"key": "StringType", "payload": "StringType", "x": "LongType"}, "column x: is unknown"),
    ],
)
def test_rows_that_are_no_samples_are_refused_on_the_driver(
    columns: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_schema(schema(columns))
    with pytest.raises(ConfigError, match=complaint):
        ZenohSource({"connect": NOWHERE}).writer(schema(columns), overwrite=False)
    with pytest.raises(ConfigError, match=complaint):
        ZenohSource({"connect": NOWHERE}).streamWriter(schema(columns), overwrite=False)


def test_samples_cannot_be_overwritten() -> None:
    with pytest.raises(ConfigError, match=r"mode overwrite: is refused: .+; use append"):
        ZenohSource({"connect": NOWHERE}).writer(schema(SAMPLES), overwrite=True)


def test_a_mistake_is_told_without_frames_of_ours() -> None:
    """Spark shows the traceback to who made it."""
    with pytest.raises(ConfigError) as caught:
        ZenohSource({"connect": NOWHERE}).writer(schema({"key": "StringType"}), overwrite=False)
    assert len(caught.traceback) == 2  # here, and where it was raised again


def test_a_connection_that_is_refused_ends_a_write_before_it_begins() -> None:
    """A task would try until the timeout, and Spark tries tasks again."""
    for make in (ZenohSource.writer, ZenohSource.streamWriter):
        with pytest.raises(LinkError, match="refused"):
            make(ZenohSource({"connect": NOWHERE, "timeout": "3600"}), schema(SAMPLES), False)


def test_rows_of_a_log_can_be_written_as_they_are() -> None:
    check_schema(schema({"key": "StringType", "payload": "BinaryType", "seq": "LongType"}))


def test_a_schema_of_the_user_has_to_be_the_one_there_is() -> None:
    source = ZenohSource({"log": "/x", "columns": "key"})
    with pytest.raises(ConfigError, match="saw payload; rows have key; choose by the option"):
        source.reader(schema({"payload": "BinaryType"}))
