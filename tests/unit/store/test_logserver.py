"""A log served by queries: what it is, its rows, who reads it; and what it refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.ends import WAIT_S, eventually
from tests.unit.store.log.rows import numbers_of, rows
from tests.unit.store.log.test_head import later_log

import elea
from elea.errors import InvalidValueError, StoreError
from elea.limits import DEFAULT_LIMITS
from elea.query import ConsolidationMode
from elea.sample import Reply
from elea.session.query import Query
from elea.store.log import consumers
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log, pack_log
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA
from elea.store.log.settings import LogSettings
from elea.store.logserver import LogServer

SMALL = LogSettings(low_water_percent=0)
ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
BLOCKS = 6
BLOCK_ROWS = 50


@pytest.fixture
def session() -> Iterator[elea.Session]:
    """One node: queries go from it to itself."""
    config = elea.Config()
    for key, value in ALONE.items():
        config.insert_json5(key, json.dumps(value))
    with elea.open(config) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log", SMALL) as made:
        for block in range(BLOCKS):
            made.store(rows(block * BLOCK_ROWS, BLOCK_ROWS))
        yield made


@pytest.fixture
def server(session: elea.Session, log: Log, tmp_path: Path) -> Iterator[LogServer]:
    found = LogServer(session, "fleet", tmp_path / "log", log, key_exprs=["k/**"])
    yield found
    found.stop()


def ask(session: elea.Session, selector: str, payload: str | None = None) -> list[Reply]:
    replies = session.get(
        selector, payload=payload, consolidation=ConsolidationMode.NONE, timeout=WAIT_S
    )
    return list(replies)


def told(session: elea.Session, selector: str, payload: str | None = None) -> dict[str, object]:
    [reply] = ask(session, selector, payload)
    result = reply.ok or reply.err
    assert result is not None
    found: dict[str, object] = json.loads(result.payload.to_string())
    return found


def read(
    session: elea.Session, parameters: str
) -> tuple[list[dict[str, int]], list[pa.RecordBatch]]:
    """Where the replies are from, and their batches."""
    places, batches = [], []
    for reply in ask(session, f"@elea/log/fleet/read/0?{parameters}"):
        assert reply.ok is not None, reply.err
        assert reply.ok.attachment is not None
        assert str(reply.ok.encoding) == "application/vnd.apache.arrow.stream"
        places.append(json.loads(reply.ok.attachment.to_bytes()))
        batches += list(pa.ipc.open_stream(reply.ok.payload.to_bytes()))
    return places, batches


def test_it_tells_what_the_log_is(session: elea.Session, server: LogServer, log: Log) -> None:
    log.commit_consumer("c", {0: 7})
    info = told(session, "@elea/log/fleet/info")
    assert info["log"] == str(LogReader(log.disk).log_id)
    assert info["name"] == "fleet"
    assert info["shards"] == [{"first": 0, "end": 300}]
    assert info["key_exprs"] == ["k/**"]
    assert info["recording"] is True
    assert isinstance(info["consumers"], dict)
    assert info["consumers"]["c"]["offsets"] == {"0": 7}
    shards = told(session, "@elea/log/fleet/info?octets=true;time=0")["shards"]
    assert isinstance(shards, list)
    assert shards[0]["seek"] == 0
    assert shards[0]["octets"] > 1_000
    assert told(session, "@elea/log/*/info")["name"] == "fleet"  # who does not know the name


def test_a_token_tells_that_it_is_served(session: elea.Session, server: LogServer) -> None:
    tokens = [reply.ok for reply in session.liveliness().get("@elea/log/*", timeout=WAIT_S)]
    assert [str(one.key_expr) for one in tokens if one is not None] == ["@elea/log/fleet"]
    server.stop()
    assert eventually(lambda: not list(session.liveliness().get("@elea/log/*", timeout=WAIT_S)))


@pytest.mark.parametrize(
    ("low", "high"), [(0, 300), (0, 50), (50, 300), (7, 9), (49, 51), (30, 290), (299, 300)]
)
def test_a_range_comes_whole_and_in_order(
    session: elea.Session, server: LogServer, low: int, high: int
) -> None:
    places, batches = read(session, f"lo={low};hi={high}")
    assert places[0]["lo"] == low
    assert [one["hi"] for one in places[:-1]] == [one["lo"] for one in places[1:]]
    assert places[-1] == {"lo": places[-1]["lo"], "hi": high, "last": True}
    assert numbers_of(batches) == [*range(low, high)]


def test_segments_of_another_release_are_served_as_rows_of_this_one(
    session: elea.Session, tmp_path: Path
) -> None:
    later_log(tmp_path)
    with Log(tmp_path, SMALL) as log:
        log.store(rows(10, 5))
    server = LogServer(session, "fleet", tmp_path)
    try:
        _, batches = read(session, "lo=0;hi=15")
        assert all(batch.schema == SCHEMA for batch in batches)
        assert numbers_of(batches) == [*range(15)]
    finally:
        server.stop()


def test_an_empty_range_has_an_end_too(session: elea.Session, server: LogServer) -> None:
    places, batches = read(session, "lo=5;hi=5")
    assert places == [{"lo": 5, "hi": 5, "last": True}]
    assert numbers_of(batches) == []


def test_whole_blocks_go_as_they_are_on_disk(
    session: elea.Session, log: Log, tmp_path: Path
) -> None:
    limits = replace(DEFAULT_LIMITS, log_reply_len=1)  # one block each
    server = LogServer(session, "fleet", tmp_path / "log", limits=limits)
    try:
        places, _ = read(session, "lo=0;hi=300")
        assert len(places) == BLOCKS
        data = (tmp_path / "log" / "shard-0000" / f"{0:020}.arrows").read_bytes()
        first = ask(session, "@elea/log/fleet/read/0?lo=0;hi=50")[0].ok
        assert first is not None
        assert data.startswith(first.payload.to_bytes())
    finally:
        server.stop()


def test_packed_blocks_are_served(session: elea.Session, log: Log, tmp_path: Path) -> None:
    log.close()
    server = LogServer(session, "fleet", tmp_path / "log")
    try:
        before = read(session, "lo=10;hi=290")[1]
        pack_log(RealDisk(tmp_path / "log", writable=True), "zstd")
        for parameters in ("lo=10;hi=290", "lo=0;hi=300", "lo=299;hi=300"):
            assert read(session, parameters)[1]
        after = read(session, "lo=10;hi=290")[1]
        assert numbers_of(after) == numbers_of(before) == [*range(10, 290)]
    finally:
        server.stop()


@pytest.mark.parametrize("cuts", [[0, 300], [7, 20, 60, 70, 80, 120, 290], [0, 50, 149, 150, 151]])
def test_a_block_is_whole_in_one_part_of_a_range(
    session: elea.Session, server: LogServer, cuts: list[int]
) -> None:
    found, parts = [], []
    for low, high in pairwise(cuts):
        places, batches = read(session, f"lo={low};hi={high};first={cuts[0]};end={cuts[-1]}")
        assert places[-1]["last"]
        parts.append((places[0]["lo"], places[-1]["hi"]))
        found += numbers_of(batches)
    assert found == [*range(cuts[0], cuts[-1])]
    ends = [high for _, high in parts]
    assert [low for low, _ in parts] == [cuts[0], *ends[:-1]]
    assert ends == [min(-(-cut // BLOCK_ROWS) * BLOCK_ROWS, cuts[-1]) for cut in cuts[1:]]


def test_a_part_of_a_range_may_have_wishes(session: elea.Session, server: LogServer) -> None:
    places, batches = read(session, "lo=60;hi=120;first=10;end=290;columns=seq;keyexpr=k/1")
    assert (places[0]["lo"], places[-1]["hi"]) == (100, 150)
    found = [seq for batch in batches for seq in batch.column("seq").to_pylist()]
    assert found == [n for n in range(100, 150) if n % 3 == 1]


def test_columns_keys_and_times(session: elea.Session, server: LogServer) -> None:
    _, [*batches] = read(session, "lo=0;hi=300;columns=seq,sn;keyexpr=k/1|k/2")
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [row["seq"] for row in found] == [n for n in range(300) if n % 3]
    assert list(found[0]) == ["seq", "sn"]
    half = rows(0, 1).column("hlc")[0].as_py() + (100 << 32) // 1_000
    places, batches = read(session, f"lo=0;hi=300;from={half}")
    assert numbers_of(batches) == [*range(100, 300)]
    assert places[0]["lo"] == 0
    assert places[-1]["hi"] == 300


@pytest.mark.parametrize(
    ("selector", "error", "detail"),
    [
        ("read/0?lo=0;hi=301", "unknown", "not written yet"),
        ("read/7?lo=0;hi=1", "unknown", "legal are 0 to 0"),
        ("read/x?lo=0;hi=1", "unknown", "one of them"),
        ("read/0?lo=0", "unknown", "parameter hi"),
        ("read/0?lo=-1;hi=3", "unknown", "parameter lo"),
        ("read/0?lo=2;hi=3;first=0", "unknown", "parameter end"),
        ("read/0?lo=400;hi=500;first=0;end=900", "unknown", "not written yet"),
        ("read/0?lo=0;hi=9;columns=nix", "unknown", "legal are key, kind"),
        ("read/0?lo=0;hi=9;keyexpr=a//b", "unknown", "a//b"),
        ("info?time=x", "unknown", "parameter time"),
        ("commit/c", "unknown", "lease_s"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    session: elea.Session, server: LogServer, selector: str, error: str, detail: str
) -> None:
    found = told(session, f"@elea/log/fleet/{selector}")
    assert found["error"] == error
    assert detail in str(found["detail"])


def test_trimmed_rows_are_told(session: elea.Session, log: Log, tmp_path: Path) -> None:
    log.close()
    with Log(tmp_path / "log", replace(SMALL, segment_len=1, retain_len=1)) as small:
        small.store(rows(300, 10))
        small.store(rows(310, 10))
        small.keep_house()
    server = LogServer(session, "fleet", tmp_path / "log")
    first = LogReader(tmp_path / "log").bounds(0).first
    assert first > 0
    found = told(session, "@elea/log/fleet/read/0?lo=0;hi=310")
    assert (found["error"], found["first"]) == ("trimmed", first)
    server.stop()


def test_damage_is_told_and_passed_if_that_is_wanted(
    session: elea.Session, log: Log, tmp_path: Path
) -> None:
    log.close()
    [path] = (tmp_path / "log" / "shard-0000").glob("*.arrows")
    data = bytearray(path.read_bytes())
    index = LogReader(tmp_path / "log").blocks(0, 100, 101)
    [(_, record)] = index
    data[record.offset + record.length // 2] ^= 0xFF
    path.write_bytes(data)
    server = LogServer(session, "fleet", tmp_path / "log")
    *_, refused = ask(session, "@elea/log/fleet/read/0?lo=0;hi=300")
    assert refused.err is not None
    assert json.loads(refused.err.payload.to_string())["error"] == "damaged"
    places, batches = read(session, "lo=0;hi=300;lossy=true")
    assert numbers_of(batches) == [*range(100), *range(150, 300)]
    assert (places[0]["lo"], places[-1]["hi"]) == (0, 300)
    server.stop()


@pytest.mark.parametrize("has_writer", [True, False])
def test_a_consumer_commits(
    session: elea.Session, log: Log, tmp_path: Path, has_writer: bool
) -> None:
    server = LogServer(session, "fleet", LogReader(tmp_path / "log"), log if has_writer else None)
    found = told(
        session, "@elea/log/fleet/commit/spark-1", '{"offsets": {"0": 120}, "lease_s": 60}'
    )
    assert (found["offsets"], found["lease_s"]) == ({"0": 120}, 60)
    [consumer] = consumers.load(log.disk, LogReader(log.disk).log_id).consumers
    assert (consumer.name, dict(consumer.offsets)) == ("spark-1", {0: 120})
    assert consumer.lease_until_ns - consumer.committed_ns == 60 * 10**9
    for payload in (
        '{"offsets": {"0": 301}}',
        '{"offsets": {"3": 1}}',
        '{"offsets": {"0": -1}}',
        '{"offsets": {"0": "1"}}',
        "[]",
        "[" * 100_000,
    ):
        assert told(session, "@elea/log/fleet/commit/c", payload)["error"] == "unknown"
    server.stop()


def test_more_queries_than_may_wait_are_refused(
    session: elea.Session, log: Log, tmp_path: Path
) -> None:
    limits = replace(DEFAULT_LIMITS, log_queries_count=1)
    server = LogServer(session, "fleet", tmp_path / "log", limits=limits)
    server._reading.acquire()  # its threads cannot go on
    handlers = [
        session.get(f"@elea/log/fleet/read/0?lo={n};hi=300", timeout=WAIT_S) for n in range(5)
    ]
    assert eventually(lambda: server.refused_count >= 3)
    server._reading.release()
    answers = [list(handler) for handler in handlers]
    refused = [one[0].err for one in answers if one[0].err is not None]
    assert len(refused) == server.refused_count
    assert all(json.loads(one.payload.to_string())["error"] == "busy" for one in refused)
    server.stop()


@pytest.mark.parametrize("hook", ["is_wanted", "wait_room"])
def test_a_range_that_nobody_waits_for_is_not_read_to_its_end(
    session: elea.Session, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    small = replace(DEFAULT_LIMITS, log_reply_len=1)  # a block in each reply
    server = LogServer(session, "fleet", tmp_path / "log", log, limits=small)
    looks = iter([True] * 2)
    monkeypatch.setattr(Query, hook, lambda *_: next(looks, False))
    places, _ = read(session, f"lo=0;hi={BLOCKS * BLOCK_ROWS}")
    monkeypatch.undo()
    assert len(places) == 2
    assert "last" not in places[-1]
    places, _ = read(session, f"lo=0;hi={BLOCKS * BLOCK_ROWS}")
    assert len(places) == BLOCKS
    server.stop()


def test_names_and_directories_that_are_none(session: elea.Session, tmp_path: Path) -> None:
    for name in ("", "a/b", "*", "x" * 200):
        with pytest.raises(InvalidValueError, match="name of a log"):
            LogServer(session, name, tmp_path)
    with pytest.raises(StoreError, match="no log there"):
        LogServer(session, "fleet", tmp_path / "nowhere")


def test_it_stops_after_its_session(log: Log, tmp_path: Path) -> None:
    config = elea.Config()
    for key, value in ALONE.items():
        config.insert_json5(key, json.dumps(value))
    session = elea.open(config)
    server = LogServer(session, "fleet", tmp_path / "log")
    session.close()
    server.stop()
    assert not [one for one in threading.enumerate() if one.name.startswith("log-fleet")]
    assert SCHEMA.names[0] == "key"


def test_whoever_asks_all_logs_is_answered_what_was_asked(session: elea.Session, log: Log) -> None:
    """A query on `@elea/log/*/density` was answered, in vain, with what `info` tells."""
    server = LogServer(session, "fleet", LogReader(log.disk), log)
    try:
        found = {}
        for kind in ("info", "density", "keys"):
            [reply] = session.get(f"@elea/log/*/{kind}", timeout=WAIT_S)
            assert reply.ok is not None, reply.err
            assert str(reply.ok.key_expr) == f"@elea/log/fleet/{kind}"
            found[kind] = json.loads(reply.ok.payload.to_bytes())
        assert found["info"]["name"] == "fleet"
        assert sum(found["density"]["rows"]) == 300
        assert sum(found["keys"]["keys"].values()) == 300
        assert len(list(session.get("@elea/log/*/*", timeout=WAIT_S))) == 3
        [few] = session.get("@elea/log/fleet/keys?max=1", timeout=WAIT_S)
        assert few.ok is not None
        assert len(json.loads(few.ok.payload.to_bytes())["keys"]) == 1
        for wrong in ("bins=0", "bins=x", "from=5;to=4", "from=-1", "to=never"):
            [refused] = session.get(f"@elea/log/fleet/density?{wrong}", timeout=WAIT_S)
            assert refused.err is not None
    finally:
        server.stop()
