"""What Eclipse Zenoh publishes, recorded by Elea; and its clients, told that it is on disk."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import zenoh
import zenoh.ext
from tests.interop.ends import ECLIPSE, ELEA, WAIT_S, eventually, free_endpoint, matched, session

from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.settings import LogSettings
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings

line = pytest.mark.line
LOG = LogSettings(low_water_percent=0)


def recording(directory: Path, **more: Any) -> RecordingSettings:
    return RecordingSettings(key_exprs=("k/**",), name="log", directory=directory, log=LOG, **more)


def rows(directory: Path) -> list[dict[str, Any]]:
    return [row for batch in LogReader(directory).read(0, 0) for row in batch.to_pylist()]


def asked(theirs: Any, selector: str, **more: Any) -> Any:
    """The first answer; an Eclipse client may not notice the end of its query."""
    found: list[Any] = []
    ended = threading.Event()
    theirs.get(selector, zenoh.handlers.Callback(found.append, ended.set), timeout=WAIT_S, **more)
    assert eventually(lambda: found or ended.is_set())
    [reply] = found
    return reply


@line("R220")
def test_what_eclipse_publishes_is_recorded_whole(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        session(ECLIPSE, "peer", connect=endpoint) as theirs,
    ):
        with Recorder(ours, [recording(tmp_path, liveliness=True)]) as recorder:
            publisher = theirs.declare_publisher(
                "k/a", congestion_control=zenoh.CongestionControl.BLOCK
            )
            assert matched(publisher)
            stamp = theirs.new_timestamp()
            encoding = zenoh.Encoding("application/json;schema")
            publisher.put(b"1", encoding=encoding, attachment=b"more", timestamp=stamp)
            publisher.delete()
            for number in range(2_000):
                publisher.put(str(number))
            token = theirs.liveliness().declare_token("k/token")
            assert eventually(lambda: recorder.counts().rows == 2_003)
            token.undeclare()
            assert eventually(lambda: recorder.counts().rows == 2_004)
        assert recorder.counts().dropped == 0
    found = rows(tmp_path)
    put, delete = [row for row in found if row["kind"] < RowKind.GAP][:2]
    assert (put["key"], put["payload"], put["attachment"]) == ("k/a", b"1", b"more")
    assert put["encoding"] == "application/json;schema"
    assert f"{put['hlc']}/{put['hlc_id']}" == str(stamp)
    assert delete["kind"] == RowKind.DELETE
    samples = [row["payload"] for row in found if row["kind"] == RowKind.PUT]
    assert samples[1:] == [str(number).encode() for number in range(2_000)]
    tokens = [row["kind"] for row in found if row["key"] == "k/token"]
    assert tokens == [RowKind.TOKEN_PUT, RowKind.TOKEN_DELETE]


@line("R221")
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_an_eclipse_client_is_told_the_place(tmp_path: Path, mode: str) -> None:
    endpoint = free_endpoint()
    role = "router" if mode == "client" else "peer"
    with (
        session(ELEA, role, listen=endpoint) as ours,
        session(ECLIPSE, mode, connect=endpoint) as theirs,
        Recorder(ours, [recording(tmp_path)]),
        ours.declare_subscriber("k/**") as subscriber,
    ):
        querier = theirs.declare_querier("@elea/log/log/put/k/a")
        assert matched(querier)
        reply = asked(theirs, "@elea/log/*/put/k/a", payload=b"1", encoding="text/plain")
        assert str(reply.ok.key_expr) == "@elea/log/log/put/k/a"
        place = json.loads(reply.ok.payload.to_bytes())
        assert (place["name"], place["shard"], place["seq"]) == ("log", 0, 0)
        assert subscriber.recv(WAIT_S).payload.to_bytes() == b"1"
        identity = f"zid={theirs.info.zid()};eid=7;sn=3;publish=false"
        for is_repeated in (False, True):
            reply = asked(theirs, f"@elea/log/log/put/k/b?{identity}", payload=b"2")
            place = json.loads(reply.ok.payload.to_bytes())
            assert (place["seq"], place["duplicate"]) == (1, is_repeated)
        reply = asked(theirs, "@elea/log/log/put/k/a?kind=rename")
        refusal = json.loads(reply.err.payload.to_bytes())
        assert refusal["error"] == "invalid"
        [first, second] = rows(tmp_path)
        assert (first["payload"], first["encoding"]) == (b"1", "text/plain")
        assert (second["payload"], second["zid"], second["sn"]) == (b"2", str(theirs.info.zid()), 3)


@line("R222")
def test_the_cache_of_an_eclipse_publisher_fills_history_and_gaps(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        session(ECLIPSE, "peer", connect=endpoint) as theirs,
    ):
        publisher = zenoh.ext.declare_advanced_publisher(
            theirs,
            "k/a",
            congestion_control=zenoh.CongestionControl.BLOCK,
            cache=zenoh.ext.CacheConfig(3),
            sample_miss_detection=zenoh.ext.MissDetectionConfig(
                heartbeat=0.05, sporadic_heartbeat=None
            ),
            publisher_detection=True,
        )
        for number in range(5):  # nobody records; the last three are kept
            publisher.put(str(number))
        with Recorder(ours, [recording(tmp_path, history=True)]) as recorder:
            assert eventually(lambda: recorder.counts().filled == 3)
            publisher.put("5")
            assert eventually(lambda: recorder.counts().rows == 4)
        assert matched(theirs.declare_publisher("k/a"), by_somebody=False)
        for number in range(6, 11):
            publisher.put(str(number))
        with Recorder(ours, [recording(tmp_path)]) as recorder:  # its heartbeat tells
            assert eventually(lambda: recorder.counts().rows == 3)
            assert (recorder.counts().filled, recorder.counts().gaps) == (3, 2)
    found = rows(tmp_path)
    samples = [row["payload"] for row in found if row["kind"] == RowKind.PUT]
    assert samples == [str(number).encode() for number in (2, 3, 4, 5, 8, 9, 10)]
    [gap] = [row for row in found if row["kind"] == RowKind.GAP]
    assert (gap["key"], gap["sn"], gap["payload"]) == ("k/a", 6, b"2")
