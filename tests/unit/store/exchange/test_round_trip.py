"""What is exported is imported the same, whatever the rows are."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from tests.strategies_keyexpr import key_texts
from tests.unit.store.samples import EPOCH, batch_of, log_of, row, rows_of

from elea.errors import ExchangeError, InvalidValueError
from elea.store.exchange.formats import format_of
from elea.store.exchange.transfer import (
    Selection,
    export_file,
    export_to,
    import_file,
    reading_of,
    sink_of,
)
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA
from elea.store.log.settings import LogSettings

EXACT = ("parquet", "jsonl", "mcap")
FREE = LogSettings(low_water_percent=0)
OCTETS = st.one_of(
    st.binary(max_size=20),
    st.text(max_size=10).map(str.encode),
    st.sampled_from([b"", b'{"a": 1}', b'{"a":1.0}', b"\x00", b"a\r\nb", "\u202e".encode()]),
)
ENCODINGS = st.sampled_from(
    [
        *("zenoh/bytes", "zenoh/string", "application/json", "application/json;pose"),
        *("application/protobuf;pkg.Msg", "text/plain;utf-8", "image/png", "own/thing+json;s"),
    ]
)
ZIDS = st.integers(1, 2**128 - 1).map(lambda number: f"{number:x}")
NUMBERS = st.integers(0, 2**32 - 1)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(
    lambda one: one.replace(tzinfo=UTC)
)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """Any row that a log may hold."""
    hlc = draw(st.none() | st.integers(-(2**63), 2**63 - 1))
    sourced = draw(st.booleans())
    return {
        "key": draw(KEYS),
        "kind": draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5])),
        "payload": draw(OCTETS),
        "attachment": draw(st.none() | OCTETS),
        "encoding": draw(ENCODINGS),
        "ts": draw(st.none() | TIMES),
        "hlc": hlc,
        "hlc_id": None if hlc is None else draw(ZIDS),
        "zid": draw(ZIDS) if sourced else None,
        "eid": draw(NUMBERS) if sourced else None,
        "sn": draw(NUMBERS) if sourced else None,
        "qos": draw(st.integers(0, 0x3F)),
        "recv_ts": draw(TIMES),
    }


KEYS = st.one_of(st.sampled_from(["a", "fleet/1/pose", "é/ü", "@elea/row", 'a b/=,"']), key_texts)


@given(blocks=st.lists(st.lists(rows(), min_size=1, max_size=8), max_size=3))
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("format", EXACT)
def test_any_rows(format: str, blocks: list[list[dict[str, Any]]]) -> None:
    told: list[str] = []
    with tempfile.TemporaryDirectory() as root:
        file = Path(root, "file")
        with file.open("wb") as stream:
            sink = sink_of(format, stream)
            for block in blocks:
                sink.write(batch_of(block))
            sink.finish()
        found = list(reading_of(format)(file, told.append))
    assert [one for batch in found for one in batch.to_pylist()] == [
        one for block in blocks for one in batch_of(block).to_pylist()
    ]
    assert all(batch.schema == SCHEMA for batch in found)
    assert told == []


@pytest.mark.parametrize("format", EXACT)
@pytest.mark.parametrize("shards_count", [1, 3])
def test_a_log_there_and_back(format: str, shards_count: int, tmp_path: Path) -> None:
    blocks = [
        [row(f"k/{at % 7}", at, b"%d" % at, kind=at % 6, sn=at) for at in range(start, start + 20)]
        for start in (0, 20, 40)
    ]
    there = log_of(tmp_path / "there", *blocks, shards_count=shards_count)
    file, back = tmp_path / "a", tmp_path / "new/back"
    assert export_file(LogReader(there), file, format) == 60
    chosen = LogSettings(shards_count=shards_count, low_water_percent=0)
    assert import_file(file, back, format, settings=chosen) == 60
    assert rows_of(back) == rows_of(there)
    assert import_file(file, back, format, append=True) == 60
    assert len(rows_of(back)) == 120


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return log_of(
        tmp_path / "log",
        [row(f"k/{at % 3}", 1_000 * at, b"%d" % at) for at in range(60)],
        [row("bin", 60_000, b"\xff\x00", attachment=b"note", encoding="image/png", kind=0)],
        [row("k/1", 61_000, kind=1)],
    )


def lines(log: Path, selection: Selection | None = None, format: str = "jsonl") -> list[Any]:
    stream = io.BytesIO()
    export_to(LogReader(log), stream, format, selection)
    text = stream.getvalue().decode()
    if format == "csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    return [json.loads(line) for line in text.splitlines()]


def test_jsonl_is_for_people_and_programs(log: Path) -> None:
    found = lines(log)
    assert found[1] == {
        "key": "k/1",
        "kind": "put",
        "payload": "1",
        "encoding": "zenoh/bytes",
        "ts": "2023-11-14T22:13:21.000000Z",
        "hlc": "7301444407494967296",
        "hlc_id": "1f2e",
        "qos": 5,
        "recv_ts": "2023-11-14T22:13:21.000000Z",
    }
    assert found[60]["payload_base64"] == "/wA="
    assert found[60]["attachment_base64"] == "bm90ZQ=="
    assert found[61]["kind"] == "delete"


def test_a_selection(log: Path) -> None:
    begin_ns = round(EPOCH.timestamp()) * 10**9
    chosen = Selection("k/1", begin_ns + 5 * 10**9, begin_ns + 31 * 10**9, ("key", "payload"))
    wanted = [{"key": "k/1", "payload": str(at)} for at in range(5, 32) if at % 3 == 1]
    assert lines(log, chosen) == wanted
    found = lines(log, chosen, "csv")
    assert [one["payload"] for one in found] == [one["payload"] for one in wanted]
    assert list(found[0]) == ["key", "payload", "payload_base64"]
    stream = io.BytesIO()
    assert export_to(LogReader(log), stream, "parquet", chosen) == len(wanted)
    assert pq.read_table(stream).to_pylist() == [
        {"key": one["key"], "payload": one["payload"].encode()} for one in wanted
    ]
    with pytest.raises(InvalidValueError, match="MCAP holds whole rows"):
        export_to(LogReader(log), io.BytesIO(), "mcap", chosen)
    with pytest.raises(InvalidValueError, match="saw nothing; legal are key, kind"):
        Selection(columns=["nothing"])


def test_csv_is_quoted(tmp_path: Path) -> None:
    log_of(tmp_path, [row("k", 0, b'a,"b"\r\nc'), row("k", 1, b"\xff")])
    first, second = lines(tmp_path, format="csv")
    assert (first["payload"], first["payload_base64"]) == ('a,"b"\r\nc', "")
    assert (second["payload"], second["payload_base64"]) == ("", "/w==")
    assert (first["kind"], first["attachment"], first["zid"]) == ("put", "", "")


def test_parquet_is_of_plain_types(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    export_file(LogReader(log), file, "parquet")
    table = pq.read_table(file)
    assert table.schema.names == SCHEMA.names
    assert str(table.schema.field("key").type) == "string"
    assert table.num_rows == 62


def test_mcap_is_seen_by_its_own_library(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.mcap"
    export_file(LogReader(log), file, "mcap")
    with file.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        topics = {channel.topic: channel for channel in summary.channels.values()}
        assert topics.keys() == {"@elea/row", "k/0", "k/1", "k/2", "bin"}
        assert topics["bin"].message_encoding == "image/png"
        found = list(reader.iter_messages(topics=["k/1"]))
    assert [message.data for _, _, message in found] == [b"%d" % at for at in range(1, 60, 3)]
    assert found[0][2].log_time == (round(EPOCH.timestamp()) + 1) * 10**9


def test_mcap_has_a_channel_for_each_encoding_of_a_key(tmp_path: Path) -> None:
    encodings = ["application/json", "application/json;pose", "application/cbor"]
    log_of(tmp_path / "log", [row("k", at, b"1", encoding=one) for at, one in enumerate(encodings)])
    export_file(LogReader(tmp_path / "log"), tmp_path / "a.mcap", "mcap")
    with (tmp_path / "a.mcap").open("rb") as stream:
        seen = [
            (channel.message_encoding, schema.name if schema else None)
            for schema, channel, _ in make_reader(stream).iter_messages(topics=["k"])
        ]
    assert seen == [("json", None), ("json", "pose"), ("cbor", None)]


@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_times_of_day_may_be_any(year: int, tmp_path: Path) -> None:
    log_of(tmp_path / "log", [row("k", 0, ts=datetime(year, 1, 1, tzinfo=UTC))])
    for format in EXACT:
        file = tmp_path / f"a.{format}"
        export_file(LogReader(tmp_path / "log"), file, format)
        import_file(file, tmp_path / format, format, settings=FREE)
        assert rows_of(tmp_path / format) == rows_of(tmp_path / "log")


def test_mcap_has_no_time_before_1970() -> None:
    sink = sink_of("mcap", io.BytesIO())
    with pytest.raises(ExchangeError, match="no time before 1970"):
        sink.write(batch_of([row("k", 0, recv_ts=datetime(1969, 1, 1, tzinfo=UTC))]))


def test_a_file_is_there_when_it_is_whole(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    seen: list[tuple[int, list[Path]]] = []
    export_file(
        LogReader(log), file, "jsonl", progress=lambda n: seen.append((n, _files(tmp_path)))
    )
    assert seen[-1] == (62, [tmp_path / ".a.jsonl.partial"])
    assert _files(tmp_path) == [file]
    with pytest.raises(ExchangeError, match="it exists"):
        export_file(LogReader(log), file, "jsonl")
    assert export_file(LogReader(log), file, "jsonl", Selection("bin"), replace=True) == 1

    def fail(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_file(LogReader(log), tmp_path / "b.jsonl", "jsonl", progress=fail)
    assert _files(tmp_path) == [file]


def _files(directory: Path) -> list[Path]:
    return sorted(one for one in directory.iterdir() if one.is_file())


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [("a.mcap", None, "mcap"), ("a", "parquet", "parquet"), ("a.mcap", "jsonl", "jsonl")],
)
def test_formats_by_name(name: str, said: str | None, found: str) -> None:
    assert format_of(Path(name), said, EXACT) == found


@pytest.mark.parametrize(("name", "said"), [("a.txt", None), ("a.mcap", "csv"), (None, None)])
def test_formats_that_are_none(name: str | None, said: str | None) -> None:
    with pytest.raises(InvalidValueError, match="legal are parquet, jsonl, mcap"):
        format_of(None if name is None else Path(name), said, EXACT)


def test_many_rows_in_bounded_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Group by group, batch by batch: nothing is held but the last few."""
    for module, name in (("rows", "ROWS_COUNT"), ("parquet_file", "ROWS_COUNT")):
        monkeypatch.setattr(f"elea.store.exchange.{module}.{name}", 10)
    monkeypatch.setattr("elea.store.exchange.parquet_file._GROUP_ROWS_COUNT", 25)
    blocks = [[row("k", at, b"%d" % at)] for at in range(95)]
    log_of(tmp_path / "log", *blocks)
    for format in EXACT:
        file = tmp_path / f"a.{format}"
        export_file(LogReader(tmp_path / "log"), file, format)
        steps: list[int] = []
        import_file(file, tmp_path / format, format, settings=FREE, progress=steps.append)
        assert steps == [*range(10, 95, 10), 95] or format == "parquet"
        assert len(steps) >= 10
        assert rows_of(tmp_path / format) == rows_of(tmp_path / "log")
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.num_row_groups == 4


def test_times_are_exact_to_the_microsecond(tmp_path: Path) -> None:
    moments: Iterator[datetime] = (EPOCH + timedelta(microseconds=one) for one in range(7))
    log_of(tmp_path / "log", [row("k", 0, recv_ts=one) for one in moments])
    export_file(LogReader(tmp_path / "log"), tmp_path / "a.mcap", "mcap")
    import_file(tmp_path / "a.mcap", tmp_path / "back", "mcap", settings=FREE)
    assert rows_of(tmp_path / "back") == rows_of(tmp_path / "log")
