"""Files that cannot be imported: what is said, where it is, and that nothing is left behind."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer
from tests.unit.store.samples import EPOCH, batch_of, log_of, row, rows_of

from elea.errors import ExchangeError, MissingDependencyError, StoreError
from elea.store.exchange.mcap_file import MCAP_CLOCK, key_of
from elea.store.exchange.transfer import (
    export_file,
    import_file,
    reading_of,
    sink_of,
)
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings

FREE = LogSettings(low_water_percent=0)
GOOD: dict[str, Any] = {"key": "a/b", "payload": "x", "recv_ts": "2024-07-01T00:00:00Z"}
NOW_NS = 1_700_000_000_123_456_789


def imported(file: Path, format: str, told: list[str] | None = None) -> list[dict[str, Any]]:
    directory = file.parent / f"log-{file.name}"
    told = [] if told is None else told
    import_file(file, directory, format, settings=FREE, tell=told.append)
    return rows_of(directory)


def refused(file: Path, format: str) -> str:
    """Why a file is refused; and that there is no trace of it."""
    before = sorted(file.parent.iterdir())
    with pytest.raises(ExchangeError) as caught:
        import_file(file, file.parent / "log", format, settings=FREE)
    assert sorted(file.parent.iterdir()) == before
    return str(caught.value)


def jsonl(path: Path, *objects: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"key": None}, "saw no key; every row has one"),
        ({"payload": None}, "saw no payload"),
        ({"recv_ts": None}, r"saw no recv_ts \(or ts\)"),
        ({"key": 7}, "key: saw 7; legal is a text"),
        ({"key": "a//b"}, "saw key 'a//b'"),
        ({"key": "a/*"}, "has no wildcard"),
        ({"key": "\ud800"}, "key: .*surrogates not allowed"),
        ({"payload": {"a": 1}}, "payload: saw {'a': 1}; legal is a text"),
        ({"payload_base64": "?"}, "payload_base64: no base64"),
        ({"kind": "putt"}, "kind: saw 'putt'; legal are put, delete, gap"),
        ({"kind": 6}, "saw kind 6; legal are 0 to 5"),
        ({"kind": 1.5}, "kind: saw 1.5; legal is a whole number of 7 bits"),
        ({"qos": 64}, "saw qos 64; legal are 0 to 63"),
        ({"qos": -1}, "saw qos -1; legal are 0 to 63"),
        ({"qos": 128}, "whole number of 7 bits"),
        ({"sn": 2**32}, "saw sn 4294967296; legal are 0 to 4294967295"),
        ({"sn": 2**64}, "sn: saw 18446744073709551616; legal is a whole number of 63 bits"),
        ({"eid": True}, "eid: saw True"),
        ({"zid": "XY"}, "saw zid 'XY'"),
        ({"hlc_id": "0"}, "saw hlc_id '0'"),
        ({"hlc": "-1"}, "hlc: saw '-1'; legal are the digits of a number of 64 bits"),
        ({"hlc": 2**64}, "hlc: saw 18446744073709551616"),
        ({"ts": "noon"}, "ts: saw 'noon'; legal is 2024-07-01T13:51:12.129693Z"),
        ({"ts": "2024-07-01T00:00:00"}, "without a time zone"),
        ({"recv_ts": "1969-07-01T00:00:00Z"}, "saw recv_ts -15897600000000; legal are 0 to"),
        ({"encoding": "x" * 300}, "saw encoding 'xxx.*at most 255 are legal"),
    ],
)
def test_lines_that_are_no_rows(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    file = jsonl(tmp_path / "a.jsonl", GOOD, {**GOOD, **change})
    with pytest.raises(ExchangeError, match=f"(?s)a.jsonl: line 2: .*{complaint}"):
        import_file(file, tmp_path / "log", "jsonl", settings=FREE)
    assert [one.name for one in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "line 3: no JSON"),
        (b"[1]", "line 3: saw list; legal is an object"),
        (b"\xff", "line 3: no JSON"),
        (b"[" * 100_000, "line 3: no JSON"),
        (b'{"sn": ' + b"9" * 5_000 + b"}", "line 3: no JSON"),
    ],
)
def test_lines_that_are_no_json(tmp_path: Path, line: bytes, complaint: str) -> None:
    file = jsonl(tmp_path / "a.jsonl", GOOD)
    file.write_bytes(file.read_bytes() + b"\n" + line + b"\n")  # empty lines count
    assert complaint in refused(file, "jsonl")


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elea.store.exchange.jsonl_file._LINE_LEN_MAX", 200)
    file = jsonl(tmp_path / "a.jsonl", GOOD, {**GOOD, "payload": "x" * 200})
    assert "line 2: it is longer than 200 octets" in refused(file, "jsonl")


def test_lines_of_others(tmp_path: Path) -> None:
    """Few names are enough, numbers are times too, and what is not known is told once."""
    told: list[str] = []
    file = jsonl(
        tmp_path / "a.jsonl",
        {"key": "a", "payload": "x", "ts": 1_000_000, "speed": 3, "seq": 7, "shard": 0},
        {"key": "a", "payload_base64": "/w==", "recv_ts": "1970-01-01T01:00:02+01:00", "speed": 4},
    )
    first, second = imported(file, "jsonl", told)
    assert (first["ts"], first["recv_ts"]) == (datetime.fromtimestamp(1, UTC),) * 2
    assert (first["kind"], first["encoding"], first["qos"]) == (0, "zenoh/bytes", 5)
    assert (second["payload"], second["recv_ts"]) == (b"\xff", datetime.fromtimestamp(2, UTC))
    assert told == [f"{file}: line 1: names that a row has not are left out: speed"]


def parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_of_others(tmp_path: Path) -> None:
    times = pa.array([EPOCH, EPOCH], pa.timestamp("ns", "UTC"))
    file = parquet(tmp_path / "a", key=["a", "b"], payload=["x", "y"], ts=times, speed=[1, 2])
    told: list[str] = []
    first, _ = imported(file, "parquet", told)
    assert (first["payload"], first["recv_ts"], first["qos"]) == (b"x", EPOCH, 5)
    assert told == [f"{file}: columns that a log has not are left out: speed"]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"payload": [b"x"]}, "saw no column key; needed are key, payload"),
        ({"key": ["a"], "payload": [b"x"]}, "row 0: saw no recv_ts.*give a column recv_ts, or ts"),
        ({"key": ["a", None], "payload": [b"x"] * 2, "recv_ts": [EPOCH] * 2}, "row 1: saw no key"),
        ({"key": ["a", "*"], "payload": [b"x"] * 2, "recv_ts": [EPOCH] * 2}, "row 1: saw key '*'"),
        ({"key": ["a"], "payload": [[1]], "recv_ts": [EPOCH]}, "row 0 and after: column payload"),
        ({"key": ["a"], "payload": ["x"], "recv_ts": [EPOCH], "qos": [300]}, "column qos is int64"),
        ({"key": ["a"], "payload": ["x"], "recv_ts": [EPOCH], "sn": [-1]}, "row 0: saw sn -1"),
    ],
)
def test_parquet_that_is_no_log(tmp_path: Path, columns: dict[str, Any], complaint: str) -> None:
    file = parquet(tmp_path / "a.parquet", **columns)
    with pytest.raises(ExchangeError, match=complaint.replace("*'", r"\*'")):
        import_file(file, tmp_path / "log", "parquet", settings=FREE)


@pytest.mark.parametrize("format", ["parquet", "mcap"])
def test_files_that_are_something_else(format: str, tmp_path: Path) -> None:
    file = tmp_path / "a"
    for octets in (b"", b"hello", bytes(1_000), b"PAR1" * 10):
        file.write_bytes(octets)
        assert str(file) in refused(file, format)
    with pytest.raises(FileNotFoundError):
        import_file(tmp_path / "none", tmp_path / "log", format)


def whole(format: str) -> bytes:
    stream = io.BytesIO()
    sink = sink_of(format, stream)
    sink.write(batch_of([row(f"k/{at % 3}", at, b"%d" % at * 50, sn=at) for at in range(40)]))
    sink.finish()
    return stream.getvalue()


WHOLE = {format: whole(format) for format in ("parquet", "mcap")}


@pytest.mark.parametrize("format", sorted(WHOLE))
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_cut_or_flipped_files_are_refused_or_read(
    format: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever octets come: rows, or an error with a place. No other exception."""
    octets = bytearray(WHOLE[format])
    if data.draw(st.booleans()):
        del octets[data.draw(st.integers(0, len(octets) - 1)) :]
        is_cut = True
    else:
        octets[data.draw(st.integers(0, len(octets) - 1))] ^= data.draw(st.integers(1, 255))
        is_cut = False
    file = tmp_path_factory.getbasetemp() / f"broken.{format}"
    file.write_bytes(octets)
    said = ""
    rows_count = 0
    try:
        rows_count = sum(one.num_rows for one in reading_of(format)(file, lambda _: None))
    except ExchangeError as error:
        said = str(error)
    assert (str(file) in said) or (not is_cut and 0 < rows_count <= 40)


def foreign(path: Path, fill: Callable[[Writer], object]) -> Path:
    with path.open("wb") as stream:
        writer = Writer(stream, compression=CompressionType.LZ4)
        writer.start(profile="ros2", library="other")
        fill(writer)
        writer.finish()  # type: ignore[no-untyped-call]
    return path


def test_mcap_of_others(tmp_path: Path) -> None:
    def fill(writer: Writer) -> None:
        schema = writer.register_schema("geometry/Pose", "ros2msg", b"float64 x")
        pose = writer.register_channel("/robot//pose", "cdr", schema)
        odd = writer.register_channel("odd topic?#*$", "flatbuffer", 0)
        json_channel = writer.register_channel("same/key", "json", 0)
        writer.add_message(pose, NOW_NS, b"\x00\x01", NOW_NS - 5)
        writer.add_message(pose, NOW_NS, b"\x02", NOW_NS)
        writer.add_message(odd, NOW_NS + 1, b"x", 0)
        writer.add_message(json_channel, 5_000, b"{}", 2**63)
        writer.add_metadata("about", {"robot": "r1"})

    told: list[str] = []
    file = foreign(tmp_path / "a.mcap", fill)
    first, second, odd, same = imported(file, "mcap", told)
    assert (first["key"], first["encoding"]) == ("robot/pose", "application/cdr;geometry/Pose")
    assert (first["payload"], second["payload"]) == (b"\x00\x01", b"\x02")
    assert first["hlc_id"] == MCAP_CLOCK
    assert str(first["recv_ts"]) == "2023-11-14 22:13:20.123456+00:00"
    assert str(first["ts"]) == "2023-11-14 22:13:20.123456+00:00"
    assert (odd["key"], odd["encoding"], odd["hlc"]) == ("odd topic____", "flatbuffer", None)
    assert (same["key"], same["hlc"]) == ("same/key", None)
    assert sorted(one.removeprefix(f"{file}: ") for one in told) == [
        "metadata records are left out",
        "the text of schema 'geometry/Pose' is left out, its name is kept",
        "topic '/robot//pose' becomes key 'robot/pose'",
        "topic 'odd topic?#*$' becomes key 'odd topic____'",
    ]


def test_mcap_that_breaks_its_own_rules(tmp_path: Path) -> None:
    unknown = foreign(tmp_path / "a", lambda writer: writer.add_message(7, 1, b"", 1))
    assert "saw a message of channel 7, not told" in refused(unknown, "mcap")

    def rest_alone(writer: Writer) -> None:
        rows = writer.register_channel("@elea/row", "json", 0, {"elea.encoding": ""})
        writer.add_message(rows, 1, b'{"sn": 5}', 1, 3)

    assert "the value of the last row is missing" in refused(
        foreign(tmp_path / "b", rest_alone), "mcap"
    )

    def mixed(writer: Writer) -> None:
        rest_alone(writer)
        key = writer.register_channel("k", "json", 0)
        writer.add_message(key, 1, b"", 1, 4)

    assert "a tool has changed the order" in refused(foreign(tmp_path / "c", mixed), "mcap")

    def no_json(writer: Writer) -> None:
        rows = writer.register_channel("@elea/row", "json", 0, {"elea.encoding": ""})
        writer.add_message(rows, 1, b"{", 1, 3)

    assert "no JSON" in refused(foreign(tmp_path / "d", no_json), "mcap")


@given(topic=st.text(max_size=20))
def test_every_topic_has_a_key(topic: str) -> None:
    from elea.keyexpr.keyexpr import KeyExpr

    assert "*" not in str(KeyExpr(key_of(topic)))


def test_more_keys_than_mcap_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elea.store.exchange.mcap_file._CHANNELS_COUNT_MAX", 3)
    sink = sink_of("mcap", io.BytesIO())
    sink.write(batch_of([row("a", 0), row("b", 1)]))
    with pytest.raises(ExchangeError, match="saw more than 3 keys"):
        sink.write(batch_of([row("c", 2)]))


def test_nothing_is_appended_of_a_bad_file(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", [row("k", 0)])
    file = jsonl(tmp_path / "a.jsonl", GOOD, {})
    with pytest.raises(ExchangeError, match="line 2"):
        import_file(file, log, "jsonl", append=True)
    assert len(rows_of(log)) == 1
    with pytest.raises(StoreError, match="no log there"):
        import_file(jsonl(file, GOOD), tmp_path / "none", "jsonl", append=True)


def test_directories_that_are_in_use(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "a.jsonl", GOOD)
    log = log_of(tmp_path / "log", [row("k", 0)])
    with pytest.raises(StoreError, match="is not empty; append to it"):
        import_file(file, log, "jsonl")
    (tmp_path / "new.partial").mkdir()
    with pytest.raises(StoreError, match="an import runs, or was interrupted"):
        import_file(file, tmp_path / "new", "jsonl")
    (tmp_path / "empty").mkdir()
    assert import_file(file, tmp_path / "empty", "jsonl", settings=FREE) == 1


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "elea.store.exchange.mcap_file")
    monkeypatch.setitem(sys.modules, "mcap", None)
    monkeypatch.setitem(sys.modules, "mcap.records", None)
    log = log_of(tmp_path / "log", [row("k", 0)])
    with pytest.raises(MissingDependencyError, match=r"elea\[mcap\]"):
        export_file(LogReader(log), tmp_path / "a.mcap", "mcap")
    with pytest.raises(MissingDependencyError, match=r"elea\[mcap\]"):
        import_file(tmp_path / "a.mcap", tmp_path / "new", "mcap")
