"""Numbers are claims: whoever uses another publisher's number, or its own again, loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint
from tests.unit.store.recorder.test_recording import (
    ALONE,
    LOG,
    info,
    payloads,
    rows,
    rows_are,
    settings,
)

import elea
import elea.ext
from elea.encoding import Encoding
from elea.provenance import SourceInfo
from elea.store.log.schema import RowKind
from elea.store.recorder.marks import Mark, mark_of_row
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.rows import Row
from elea.store.recorder.settings import RecordingSettings
from elea.store.recorder.windows import Identity
from elea.timestamp import NTP64, Timestamp


@pytest.fixture(name="session")
def _session() -> Any:
    with elea.open(ALONE) as opened:
        yield opened


def claim(session: elea.Session, sample: elea.Sample, key: str, **more: Any) -> None:
    """Put the next numbers of somebody else."""
    found = sample.source_info
    assert found is not None
    for number in range(found.source_sn + 1, found.source_sn + 41):
        session.put(key, b"junk", source_info=SourceInfo(found.source_id, number), **more)


@pytest.mark.parametrize("key", ["k/mallory", "k/alice"])
@pytest.mark.parametrize("age_s", [-3_600, 0, 3_600])
def test_numbers_that_others_claim_take_nothing_from_acknowledged_puts(
    tmp_path: Path, key: str, age_s: int
) -> None:
    endpoint = free_endpoint()
    client = {**ALONE, "mode": "client", "connect": {"endpoints": [endpoint]}}
    with (
        elea.open({**ALONE, "listen": {"endpoints": [endpoint]}}) as node,
        Recorder(node, [settings(tmp_path)]),
        elea.open(client) as alice,
        elea.open(client) as mallory,
    ):
        seen: list[elea.Sample] = []
        mallory.declare_subscriber("k/alice", seen.append)
        alice.put("k/alice", b"first", ack="stored", timeout=WAIT_S)
        assert eventually(lambda: bool(seen))
        stamp = mallory.new_timestamp()
        moved = NTP64.from_value(stamp.time.value - (age_s << 32))
        claim(mallory, seen[0], key, timestamp=Timestamp(moved, stamp.id))
        assert eventually(lambda: payloads(tmp_path).count(b"junk") == 40)
        places = [
            alice.put("k/alice", b"%d" % number, ack="stored", timeout=WAIT_S)
            for number in range(20)
        ]
    found = payloads(tmp_path)
    assert [found[place.seq] for place in places] == [b"%d" % number for number in range(20)]
    assert len(found) == 61


@pytest.mark.parametrize("ahead_s", [1, 86_400])
def test_acknowledged_puts_of_a_clock_that_is_ahead_are_stored_once(
    tmp_path: Path, ahead_s: int
) -> None:
    """Routers stamp such samples anew, and the question has the timestamp of the publisher."""
    endpoint = free_endpoint()
    router = {**ALONE, "mode": "router", "listen": {"endpoints": [endpoint]}}
    client = {**ALONE, "mode": "client", "connect": {"endpoints": [endpoint]}}
    with (
        elea.open(router) as node,
        Recorder(node, [settings(tmp_path)]),
        elea.open(client) as robot,
    ):
        places = []
        for _ in range(5):
            stamp = robot.new_timestamp()
            ahead = Timestamp(NTP64.from_value(stamp.time.value + (ahead_s << 32)), stamp.id)
            place = robot.put("k/a", b"same", timestamp=ahead, ack="stored", timeout=WAIT_S)
            places.append(place.seq)
    assert places == [0, 1, 2, 3, 4]
    found = rows(tmp_path)
    assert len(found) == 5
    assert all(row["hlc_id"] != str(stamp.id) for row in found)


@pytest.mark.parametrize(
    ("own_s", "other_s", "is_known"),
    [
        (3_600, 0, True),
        (3_600, 3_600, True),  # the clock of the host was set back: the router goes on from there
        (3_600, -60, False),  # no router stamps into the past
        (0, 0, False),
        (0, 3_600, False),
    ],
)
def test_only_what_is_ahead_is_taken_for_a_row_with_the_time_of_another_clock(
    own_s: int, other_s: int, is_known: bool
) -> None:
    def mark(ahead_s: int, clock: str) -> Mark:
        stamp = Timestamp(NTP64(1_700_000_000 + ahead_s, 0), elea.ZenohId.parse(clock))
        text, number = str(Encoding.ZENOH_BYTES), Identity("ab", 1, 7)
        row = Row("k", RowKind.PUT, b"x", 1_700_000_000_000_000, None, text, stamp, number)
        found = mark_of_row(row)
        assert found is not None
        return found

    own = mark(own_s, "c0")
    assert own.may_be(mark(other_s, "d0"), 10**9, is_stamped=True) is is_known


def test_a_sample_that_others_put_first_with_a_time_of_their_own_is_stored(
    session: elea.Session, tmp_path: Path
) -> None:
    source = SourceInfo(session.declare_publisher("k/x").id, 1)
    with Recorder(session, [settings(tmp_path)]):
        for clock in ("bad", "900d"):
            stamp = Timestamp(session.new_timestamp().time, elea.ZenohId.parse(clock))
            session.put(
                "k/alice",
                b"on",
                source_info=source,
                timestamp=stamp,
                ack="stored",
                timeout=WAIT_S,
            )
    assert [row["hlc_id"] for row in rows(tmp_path)] == ["bad", "900d"]


def test_a_publisher_that_is_restarted_with_its_id_loses_nothing(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    robot = {**ALONE, "mode": "client", "id": "c0ffee", "connect": {"endpoints": [endpoint]}}

    def live(node: elea.Session) -> None:
        """Ten samples from a robot that has just been started."""
        numbering = elea.ext.MissDetectionConfig(heartbeat=0.05)
        with Recorder(node, [settings(tmp_path)]) as recorder, elea.open(robot) as session:
            publisher = elea.ext.declare_advanced_publisher(
                session, "k/a", sample_miss_detection=numbering
            )
            assert eventually(lambda: publisher.matching_status.matching)
            for _ in range(10):
                publisher.put("ok", timestamp=session.new_timestamp())
            assert eventually(lambda: recorder.counts().rows == 10)
            assert recorder.counts().gaps == 0

    with elea.open({**ALONE, "listen": {"endpoints": [endpoint]}}) as node:
        for life in range(3):
            live(node)
            assert rows_are(tmp_path, 10 * life + 10)


def test_a_program_that_does_not_count_keeps_all_rows(
    session: elea.Session, tmp_path: Path
) -> None:
    with Recorder(session, [settings(tmp_path)]):
        for number in range(10):
            stamp = session.new_timestamp() if number % 2 else None
            session.put("k/a", b"same", source_info=info(7, session), timestamp=stamp)
    assert rows_are(tmp_path, 10)


def test_a_source_of_several_keys_of_which_some_are_recorded_has_no_gaps(
    session: elea.Session, tmp_path: Path
) -> None:
    only = RecordingSettings(key_exprs=("k/a",), name="log", directory=tmp_path, log=LOG)
    with Recorder(session, [only]) as recorder:
        for number in range(100):
            session.put(f"k/{'ab'[number % 2]}", b"x", source_info=info(number, session))
        assert eventually(lambda: recorder.counts().rows == 50)
        [book] = recorder.recordings[0].books()
        assert eventually(lambda: not book.gaps(0))  # somebody was asked
    assert [row["kind"] for row in rows(tmp_path)] == [RowKind.PUT] * 50


def test_a_sample_that_others_repeat_with_another_encoding_keeps_its_own(
    session: elea.Session, tmp_path: Path
) -> None:
    """What was spooled is seen by subscribers before recorders have it: it can be forged first."""
    source = SourceInfo(session.declare_publisher("k/x").id, 1)
    stamp = session.new_timestamp()
    with Recorder(session, [settings(tmp_path)]):
        for encoding in ("zenoh/bytes", "application/json", "application/json"):
            session.put(
                "k/alice",
                b"{}",
                encoding=encoding,
                source_info=source,
                timestamp=stamp,
                ack="stored",
                timeout=WAIT_S,
            )
    assert [row["encoding"] for row in rows(tmp_path)] == ["zenoh/bytes", "application/json"]


@pytest.mark.parametrize(
    "encoding",
    [
        None,
        "zenoh/bytes",
        "text/plain",
        "text/plain;charset=utf-8",
        "own/kind;x=1",
        "zenoh/bytes;a",
    ],
)
def test_a_sample_is_known_by_whichever_way_it_comes(tmp_path: Path, encoding: str | None) -> None:
    """As a sample, with a question, through a spool: the encoding is one, spelt in three ways."""
    endpoint = free_endpoint()
    client = {**ALONE, "mode": "client", "connect": {"endpoints": [endpoint]}}
    with (
        elea.open({**ALONE, "listen": {"endpoints": [endpoint]}}) as node,
        elea.open(client) as alice,
    ):
        stamp, eid = alice.new_timestamp(), alice.declare_publisher("k/alice").id
        sample: dict[str, Any] = {
            "encoding": encoding,
            "timestamp": stamp,
            "source_info": SourceInfo(eid, 7),
        }
        with alice.declare_spool(tmp_path / "spool") as spool:
            for number in range(2):  # two go as a batch
                more = {**sample, "source_info": SourceInfo(eid, 7 + number)}
                assert alice.put("k/alice", b"x", ack="stored", **more).spooled
            with Recorder(node, [settings(tmp_path)]) as recorder:
                assert spool.drain(WAIT_S)
                alice.put("k/alice", b"x", **sample)
                alice.put("k/alice", b"x", ack="stored", timeout=WAIT_S, **sample)
                zid, number = eid.zid, eid.eid
                asked = f"zid={zid};eid={number};sn=7;ts={stamp};publish=false"
                replies = list(
                    alice.get(
                        f"@elea/log/*/put/k/alice?{asked}",
                        payload=b"x",
                        encoding=encoding,
                        timeout=WAIT_S,
                    )
                )
                assert replies[0].ok is not None
                assert recorder.counts().rows == 2
    assert len(rows(tmp_path)) == 2
