"""Recordings on sessions: samples, tokens, gaps, names, acknowledgements, and the end."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chaos.disk import FaultDisk, MemoryPlatter
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint

import elea
import elea.ext
from elea.errors import NotRecordedError, NotStoredError, StoreError
from elea.ids import EntityGlobalId, EntityId
from elea.limits import DEFAULT_LIMITS
from elea.provenance import SourceInfo
from elea.session.handlers import Callback
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.settings import LogSettings
from elea.store.log.single import Rows
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.recording import Recording
from elea.store.recorder.settings import RecordingSettings

LOG = LogSettings(low_water_percent=0)
ALONE = {
    "mode": "router",
    "listen": {"endpoints": []},
    "scouting": {"multicast": {"enabled": False}},
}


@pytest.fixture
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


def settings(directory: Path, *key_exprs: str, name: str = "log", **more: Any) -> RecordingSettings:
    return RecordingSettings(
        key_exprs=key_exprs or ("k/**",), name=name, directory=directory, log=LOG, **more
    )


def rows(directory: Path) -> list[dict[str, Any]]:
    return [row for batch in LogReader(directory).read(0, 0) for row in batch.to_pylist()]


def payloads(directory: Path) -> list[bytes]:
    return [row["payload"] for row in rows(directory) if row["kind"] == RowKind.PUT]


def info(number: int, session: elea.Session, eid: int = 9) -> SourceInfo:
    return SourceInfo(EntityGlobalId(session.zid(), EntityId(eid)), number)


def asked(session: elea.Session, selector: str, **more: Any) -> tuple[dict[str, Any], bool]:
    """The one answer, and whether it is a place."""
    [reply] = session.get(selector, timeout=WAIT_S, **more)
    answer = reply.ok or reply.err
    assert answer is not None
    assert str(answer.encoding) == "application/json"
    return json.loads(answer.payload.to_string()), reply.ok is not None


def test_samples_are_recorded_whole(session: elea.Session, tmp_path: Path) -> None:
    stamp = session.new_timestamp()
    with Recorder(session, [settings(tmp_path)]) as recorder:
        session.put(
            *("k/a", b"1"),
            encoding="application/json",
            attachment=b"more",
            timestamp=stamp,
            priority=elea.Priority.REAL_TIME,
            source_info=info(4, session),
        )
        session.delete("k/a")
        session.put("other", b"2")
    put, delete = rows(tmp_path)
    assert (put["key"], put["kind"], put["payload"]) == ("k/a", RowKind.PUT, b"1")
    assert (put["encoding"], put["attachment"]) == ("application/json", b"more")
    assert (put["hlc"], put["hlc_id"]) == (stamp.time.value, str(stamp.id))
    assert (put["zid"], put["eid"], put["sn"]) == (str(session.zid()), 9, 4)
    assert put["qos"] & 7 == elea.Priority.REAL_TIME.value
    assert delete["kind"] == RowKind.DELETE
    assert recorder.counts().rows == 2
    assert recorder.status()["log"]["logs"]["log"]["state"] == "Closed"  # type: ignore[index, call-overload]


def test_repetitions_are_recorded_once_and_the_others_stay(
    session: elea.Session, tmp_path: Path
) -> None:
    stamps = [session.new_timestamp() for _ in range(5)]

    def put(number: int) -> None:
        source = info(number, session)
        session.put("k/a", str(number), source_info=source, timestamp=stamps[number])

    with Recorder(session, [settings(tmp_path)]) as recorder:
        for number in (1, 2, 1, 3, 2):
            put(number)
        for _ in range(2):
            session.put("k/a", "same")
    assert payloads(tmp_path) == [b"1", b"2", b"3", b"same", b"same"]
    assert recorder.counts().duplicates == 2
    with Recorder(session, [settings(tmp_path)]):  # the end of the log is remembered
        for number in (2, 4):
            put(number)
    assert payloads(tmp_path)[5:] == [b"4"]


def test_tokens_are_recorded_if_asked(session: elea.Session, tmp_path: Path) -> None:
    with session.liveliness().declare_token("k/there"):
        recorder = Recorder(session, [settings(tmp_path, liveliness=True)])
        assert eventually(lambda: recorder.counts().rows == 1)
    assert eventually(lambda: recorder.counts().rows == 2)
    recorder.stop()
    assert [(row["key"], row["kind"]) for row in rows(tmp_path)] == [
        ("k/there", RowKind.TOKEN_PUT),
        ("k/there", RowKind.TOKEN_DELETE),
    ]


def test_each_robot_has_a_log(session: elea.Session, tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, record_logs_count=2)
    fleet = settings(tmp_path, "fleet/{robot}/**", name="of-{robot}")
    with Recorder(session, [fleet], limits=limits) as recorder:
        for number in range(30):
            session.put(f"fleet/r{number % 3}/pose", str(number))
        assert eventually(lambda: recorder.counts().rows == 20)
        place, is_there = asked(session, "@elea/log/*/put/fleet/r1/x", payload=b"x")
        assert is_there
        assert (place["name"], place["seq"]) == ("of-r1", 10)
        refusal, is_there = asked(session, "@elea/log/*/put/fleet/r2/x", payload=b"x")
        assert (refusal["error"], is_there) == ("full", False)
        assert not list(session.get("@elea/log/of-r0/put/fleet/r1/x", payload=b"x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["of-r0", "of-r1"]
    assert payloads(tmp_path / "of-r0") == [str(n).encode() for n in range(0, 30, 3)]
    assert recorder.counts().dropped == 10  # of the third robot


def test_an_acknowledged_put_is_stored_then_published(
    session: elea.Session, tmp_path: Path
) -> None:
    with (
        Recorder(session, [settings(tmp_path)]) as recorder,
        session.declare_subscriber("k/**") as subscriber,
    ):
        session.put("k/a", b"before")
        assert subscriber.recv(WAIT_S).payload.to_bytes() == b"before"
        place, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"1", attachment=b"2")
        assert is_there
        assert place["seq"] == 1
        assert not place["duplicate"]
        assert place["log"] == str(LogReader(tmp_path).log_id)
        sample = subscriber.recv(WAIT_S)
        assert sample.payload.to_bytes() == b"1"
        assert sample.attachment is not None
        assert sample.attachment.to_bytes() == b"2"
        silent = "@elea/log/log/put/k/a?kind=delete;publish=false;ts=7386690599959157260/33"
        assert asked(session, silent)[0]["seq"] == 2
        assert subscriber.try_recv() is None
        assert eventually(lambda: recorder.counts().duplicates == 1)  # its own publication
    before, put, delete = rows(tmp_path)
    assert (before["payload"], put["payload"], put["hlc"] is None) == (b"before", b"1", False)
    assert (delete["kind"], delete["hlc"]) == (RowKind.DELETE, 7386690599959157260)


def test_an_ordinary_put_is_acknowledged_to_who_asks(session: elea.Session, tmp_path: Path) -> None:
    with Recorder(session, [settings(tmp_path)]):
        for number in range(20):
            identity = f"zid={session.zid()};eid=9;sn={number};wait=10"
            session.put("k/a", str(number), source_info=info(number, session))
            place, is_there = asked(session, f"@elea/log/*/put/k/a?{identity}")
            assert is_there
            assert place["seq"] == number
        again = f"@elea/log/log/put/k/a?zid={session.zid()};eid=9;sn=5"
        place, _ = asked(session, again, payload=b"5")
        assert (place["seq"], place["duplicate"]) == (5, True)
        refusal, is_there = asked(session, f"@elea/log/*/put/k/a?zid={session.zid()};eid=9;sn=77")
        assert (refusal["error"], is_there) == ("unknown", False)
    assert payloads(tmp_path) == [str(number).encode() for number in range(20)]


@pytest.mark.parametrize(
    ("selector", "complaint"),
    [
        ("@elea/log/log/put/k/*", "without wildcards"),
        ("@elea/log/log/put/k/a", "no payload"),
        ("@elea/log/log/put/k/a?zid=1;sn=2", "go together"),
        ("@elea/log/log/put/k/a?zid=1;eid=x;sn=2", "32 bits"),
        ("@elea/log/log/put/k/a?zid=1;eid=1;sn=4294967296", "32 bits"),
        ("@elea/log/log/put/k/a?zid=0;eid=1;sn=1", "hexadecimal"),
        ("@elea/log/log/put/k/a?kind=patch", "put and delete"),
        ("@elea/log/log/put/k/a?kind=put;publish=1", "true and false"),
        ("@elea/log/log/put/k/a?kind=put;ts=now", "ntp64"),
        ("@elea/log/log/put/k/a?zid=1;eid=1;sn=1;wait=nan", "seconds are legal"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    session: elea.Session, tmp_path: Path, selector: str, complaint: str
) -> None:
    with Recorder(session, [settings(tmp_path)]):
        refusal, is_there = asked(session, selector)
        assert not is_there
        assert refusal["error"] == "invalid"
        assert complaint in refusal["detail"].lower()


def test_too_many_who_wait_are_told_so(session: elea.Session, tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, record_waiting_count=1)
    question = f"@elea/log/log/put/k/a?zid={session.zid()};eid=9;sn=1;wait=30"
    with Recorder(session, [settings(tmp_path)], limits=limits) as recorder:
        waiting = session.get(question, timeout=WAIT_S)
        refusal, _ = asked(session, question)
        assert refusal["error"] == "busy"
        session.put("k/a", b"1", source_info=info(1, session))
        [reply] = waiting
        assert reply.ok is not None
        assert recorder.counts().acknowledged == 1


def test_a_full_disk_refuses_and_the_drops_are_told_later(
    session: elea.Session, tmp_path: Path
) -> None:
    small = replace(settings(tmp_path), log=replace(LOG, quota_len=4_000))
    with Recorder(session, [small]) as recorder:
        session.put("k/a", bytes(100_000))
        assert eventually(lambda: recorder.counts().dropped == 1)
        refusal, is_there = asked(session, "@elea/log/log/put/k/a", payload=bytes(100_000))
        assert (refusal["error"], is_there) == ("full", False)
        assert "quota" in refusal["detail"]
        assert eventually(lambda: len(rows(tmp_path)) == 1)
        assert recorder.counts().rows == 0  # samples count, and what is noted of losses does not
    [told] = rows(tmp_path)
    assert (told["kind"], told["payload"]) == (RowKind.DROP, b"1")


def test_a_log_has_one_recorder(session: elea.Session, tmp_path: Path) -> None:
    with (
        Recorder(session, [settings(tmp_path)]),
        pytest.raises(StoreError, match="another process"),
    ):
        Recorder(session, [settings(tmp_path / "free", name="free"), settings(tmp_path)])
    with Recorder(session, [settings(tmp_path / "free", name="free"), settings(tmp_path)]):
        pass  # both were let go


def test_caches_and_storages_fill_the_beginning(session: elea.Session, tmp_path: Path) -> None:
    stamp = session.new_timestamp()
    storage = session.declare_queryable(
        "k/stored", lambda query: query.reply("k/stored", b"s", timestamp=stamp)
    )
    with elea.ext.declare_advanced_publisher(
        session,
        "k/cached",
        cache=elea.ext.CacheConfig(5),
        sample_miss_detection=elea.ext.MissDetectionConfig(),
    ) as publisher:
        for number in range(8):
            publisher.put(str(number))
        for _ in range(2):  # the second one finds all of it
            with Recorder(session, [settings(tmp_path, history=True, storages=True)]) as recorder:
                assert eventually(lambda: recorder.counts().filled == 6 or rows_are(tmp_path, 6))
    storage.undeclare()
    assert sorted(payloads(tmp_path)) == [b"3", b"4", b"5", b"6", b"7", b"s"]


def test_a_cache_answers_for_the_key_of_its_publisher_alone(
    session: elea.Session, tmp_path: Path
) -> None:
    stamp = session.new_timestamp()
    with Recorder(session, [settings(tmp_path, history=True)]) as recorder:
        cache = f"k/own/@adv/pub/{session.zid()}/9/_"

        def answer(query: elea.Query) -> None:
            query.reply("k/other", b"forged", timestamp=stamp, source_info=info(0, session))
            query.reply("k/own", b"own", timestamp=stamp, source_info=info(1, session))

        with (
            session.declare_queryable(cache, answer),
            session.liveliness().declare_token(cache),
        ):
            assert eventually(lambda: recorder.counts().filled == 1)
    assert [(row["key"], row["payload"]) for row in rows(tmp_path)] == [("k/own", b"own")]


def rows_are(directory: Path, count: int) -> bool:
    return len(rows(directory)) == count


@pytest.mark.parametrize("recovery", [True, False])
def test_gaps_are_filled_from_caches_and_told_if_they_cannot_be(
    tmp_path: Path, recovery: bool
) -> None:
    endpoint = free_endpoint()
    listening = {**ALONE, "listen": {"endpoints": [endpoint]}}
    connecting = {**ALONE, "mode": "peer", "connect": {"endpoints": [endpoint]}}
    with elea.open(listening) as ours, elea.open(connecting) as theirs:
        publisher = elea.ext.declare_advanced_publisher(
            theirs,
            "k/a",
            cache=elea.ext.CacheConfig(2),
            sample_miss_detection=elea.ext.MissDetectionConfig(heartbeat=0.05),
        )
        with Recorder(ours, [settings(tmp_path, recovery=recovery)]) as recorder:
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put("0")
            assert eventually(lambda: recorder.counts().rows == 1)
        assert eventually(lambda: not publisher.matching_status.matching)
        for number in range(1, 5):  # nobody records
            publisher.put(str(number))
        with Recorder(ours, [settings(tmp_path, recovery=recovery)]) as recorder:
            if not recovery:  # nobody listens to its heartbeat then
                assert eventually(lambda: publisher.matching_status.matching)
                publisher.put("5")
            gaps_count = 2 if recovery else 4
            assert eventually(lambda: recorder.counts().gaps == gaps_count)
            assert eventually(lambda: recorder.counts().rows == (2 if recovery else 1))
            assert eventually(lambda: len(rows(tmp_path)) == (4 if recovery else 3))
    expected = [b"0", b"3", b"4"] if recovery else [b"0", b"5"]
    assert payloads(tmp_path) == expected
    [told] = [row for row in rows(tmp_path) if row["kind"] == RowKind.GAP]
    assert (told["key"], told["sn"], told["payload"]) == ("k/a", 1, str(gaps_count).encode())


def test_a_log_that_broke_is_opened_and_served_again(session: elea.Session, tmp_path: Path) -> None:
    disk = FaultDisk(MemoryPlatter(), random.Random(1))
    recording = Recording(session, settings(tmp_path), open_log=lambda _, chosen: Log(disk, chosen))
    disk.sync_errors = 1
    for number in range(20):
        place, is_there = asked(session, "@elea/log/log/put/k/a", payload=str(number))
        assert is_there
        assert place["seq"] == number
    assert recording.counts().reopened == 1

    def ends() -> list[int]:
        told, _ = asked(session, "@elea/log/log/info")
        assert told["key_exprs"] == ["k/**"]
        assert told["recording"]
        return [one["end"] for one in told["shards"]]

    assert eventually(lambda: ends() == [20])
    offsets = json.dumps({"offsets": {"0": 5}})
    told, is_kept = asked(session, "@elea/log/log/commit/me", payload=offsets)
    assert is_kept  # by the writer that is there now
    assert told["offsets"] == {"0": 5}
    recording.stop()
    assert not list(session.get("@elea/log/log/info"))
    found = [row for batch in LogReader(disk).read(0, 0) for row in batch.to_pylist()]
    assert [row["payload"] for row in found] == [str(number).encode() for number in range(20)]


CONNECTED = {"mode": "client", "scouting": {"multicast": {"enabled": False}}}


@pytest.fixture
def robot() -> Iterator[tuple[elea.Session, elea.Session]]:
    """A router that may record, and a client of it."""
    endpoint = free_endpoint()
    with (
        elea.open({**ALONE, "listen": {"endpoints": [endpoint]}}) as node,
        elea.open({**CONNECTED, "connect": {"endpoints": [endpoint]}}) as client,
    ):
        yield node, client


def questions(session: elea.Session) -> list[str]:
    """The questions that recorders are asked from now on."""
    seen: list[str] = []

    def heard(query: elea.Query) -> None:
        seen.append(str(query.parameters))
        query.drop()

    session.declare_queryable("@elea/log/other/put/**", Callback(heard, indirect=False))
    return seen


def test_only_the_first_put_of_a_key_asks(
    robot: tuple[elea.Session, elea.Session], tmp_path: Path
) -> None:
    node, client = robot
    with Recorder(node, [settings(tmp_path)]) as recorder:
        seen = questions(node)
        client.put("k/a", "0", ack="stored")
        assert len(seen) == 1
        assert "receipts=true" in seen.pop()
        acks = [client.put("k/a", str(number), ack="stored") for number in range(1, 20)]
        assert len(seen) < 10  # a disk that is slow now and then is asked, too
        seen.clear()
        assert [(ack.shard, ack.seq, ack.name) for ack in acks] == [
            (0, number, "log") for number in range(1, 20)
        ]
        assert not any(ack.duplicate or ack.spooled for ack in acks)
        client.delete("k/b", ack="stored")
        assert len(seen) == 1
        assert recorder.counts().acknowledged == 21
    assert payloads(tmp_path) == [str(number).encode() for number in range(20)]


@pytest.mark.parametrize("shares_session", [False, True])
def test_a_row_that_is_waited_for_is_landed_by_who_receives_it_if_the_disk_is_quick(
    shares_session: bool,
    robot: tuple[elea.Session, elea.Session],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, client = robot
    threads: list[str] = []
    land = Recording._land

    def noted(self: Recording, batch: Rows) -> None:
        threads.append(threading.current_thread().name)
        land(self, batch)

    monkeypatch.setattr(Recording, "_land", noted)

    def set_disk(*, is_quick: bool) -> None:
        """How long a disk takes does not matter: every one is quick, or none."""
        quick_ns = 10**18 if is_quick else 0
        monkeypatch.setattr("elea.store.recorder.recording._QUICK_NS", quick_ns)

    def landed(count: int) -> set[str]:
        """Which threads land so many puts."""
        threads.clear()
        for _ in range(count):
            client.put("k/a", b"x", ack="stored", timeout=WAIT_S)
        return set(threads)

    set_disk(is_quick=True)
    recording = Recording(node, settings(tmp_path), shares_session=shares_session)
    try:
        landed(2)  # the first one asks
        quick = landed(20)
        if shares_session:
            assert quick == {"record k/**"}
        else:
            assert any("elea-io" in name for name in quick)
            set_disk(is_quick=False)
            landed(2)
            assert landed(5) == {"record k/**"}, "a slow disk holds up nobody else"
            set_disk(is_quick=True)
            landed(70)  # a slow moment is forgotten
            assert any("elea-io" in name for name in landed(20))
    finally:
        recording.stop()
    assert len(payloads(tmp_path)) == recording.counts().rows


def test_rows_keep_their_order_whoever_lands_them(
    robot: tuple[elea.Session, elea.Session], tmp_path: Path
) -> None:
    node, client = robot
    with Recorder(node, [settings(tmp_path)]):
        for number in range(297):
            if number % 7 < 3:  # these are alone, or follow some that are not waited for
                client.put("k/a", str(number), ack="stored", timeout=WAIT_S)
            else:
                client.put("k/a", str(number), congestion_control=elea.CongestionControl.BLOCK)
    assert payloads(tmp_path) == [str(number).encode() for number in range(297)]


def test_a_receipt_that_does_not_come_is_asked_for(
    robot: tuple[elea.Session, elea.Session], tmp_path: Path
) -> None:
    node, client = robot
    with Recorder(node, [settings(tmp_path)]):
        client.put("k/a", "0", ack="stored")
    seen = questions(node)
    with Recorder(node, [settings(tmp_path)]):  # it knows nobody who wants receipts
        assert client.put("k/a", "1", ack="stored", timeout=WAIT_S).seq == 1
        assert seen
        assert client.put("k/a", "2", ack="stored", timeout=WAIT_S).seq == 2
    with pytest.raises(NotRecordedError):
        client.put("k/a", "3", ack="stored", timeout=WAIT_S)


def test_a_put_that_is_refused_is_told_why_at_once(
    robot: tuple[elea.Session, elea.Session], tmp_path: Path
) -> None:
    node, client = robot
    small = replace(settings(tmp_path), log=LogSettings(low_water_percent=0, quota_len=20_000))
    with Recorder(node, [small]):
        client.put("k/a", "0", ack="stored")
        for _ in range(6):
            client.put("k/a", bytes(900), ack="stored", timeout=WAIT_S)
        with pytest.raises(NotStoredError, match="quota is 20000"):
            client.put("k/a", bytes(9_000), ack="stored", timeout=WAIT_S)


def test_a_log_that_was_renamed_under_its_recorder_is_acknowledged_when_it_is_back(
    session: elea.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    with Recorder(session, [settings(path)]) as recorder:
        place, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"1")
        assert (place["seq"], is_there) == (0, True)
        path.rename(tmp_path / "away")
        for _ in range(3):
            refusal, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"2")
            assert (refusal["error"], is_there) == ("closed", False)
            assert "restore it under this name" in refusal["detail"]
        assert not path.exists()  # it is not in the way
        assert caplog.text.count("nothing is recorded") == 1
        (tmp_path / "away").rename(path)
        assert eventually(lambda: asked(session, "@elea/log/log/put/k/a", payload=b"3")[1])
        assert recorder.counts().reopened == 1
    assert payloads(path)[0] == b"1"
    assert payloads(path)[-1] == b"3"


@pytest.mark.parametrize("what", ["directory", "lock"])
def test_a_log_that_was_deleted_under_its_recorder_is_acknowledged_no_more(
    session: elea.Session, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    with Recorder(session, [settings(path)]) as recorder:
        place, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"1")
        assert is_there
        if what == "lock":
            (path / "lock").unlink()
            place, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"2")
            assert (place["seq"], is_there) == (1, True)  # opened again, with a lock of its own
            assert recorder.counts().reopened == 1
        else:
            shutil.rmtree(path)
            refusal, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"2")
            assert (refusal["error"], is_there) == ("closed", False)
            refusal, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"3")
            assert (refusal["error"], is_there) == ("closed", False)
            assert "restore" in caplog.text


def test_what_waits_for_the_disk_is_bounded_by_bytes_and_tokens(
    session: elea.Session, tmp_path: Path
) -> None:
    limits = replace(DEFAULT_LIMITS, record_waiting_len=1_000, record_tokens_count=3)
    recording = Recording(session, settings(tmp_path, liveliness=True), limits=limits)
    go_on = threading.Event()

    def hold() -> None:
        go_on.wait(WAIT_S)

    try:
        recording.call(hold)
        refusal, is_there = asked(session, "@elea/log/log/put/k/a", payload=bytes(2_000))
        assert (refusal["error"], is_there) == ("busy", False)
        tokens = [session.liveliness().declare_token(f"k/token/{n}") for n in range(10)]
        assert eventually(lambda: recording.counts().dropped == len(tokens) - 3)
        go_on.set()
        _, is_there = asked(session, "@elea/log/log/put/k/a", payload=bytes(500))
        assert is_there  # room again
    finally:
        go_on.set()
        recording.stop()


def test_questions_for_samples_that_never_come_keep_nobody_out(
    session: elea.Session, tmp_path: Path
) -> None:
    limits = replace(DEFAULT_LIMITS, record_waiting_count=20)
    recording = Recording(session, settings(tmp_path), limits=limits)
    refused: list[str] = []

    def heard(reply: elea.Reply) -> None:
        assert reply.err is not None
        refused.append(json.loads(reply.err.payload.to_string())["error"])

    try:
        for number in range(100):  # some with one number, some with others
            identity = f"zid=ab;eid=1;sn={number // 3};wait=60"
            session.get(f"@elea/log/log/put/k/a?{identity}", heard, timeout=60)
        assert eventually(lambda: refused == ["busy"] * 90)  # the oldest
        ack = session.put("k/b", b"1", ack="stored", timeout=WAIT_S)
        assert ack.seq == 0
        place, is_there = asked(session, "@elea/log/log/put/k/a", payload=b"2")
        assert (place["seq"], is_there) == (1, True)
    finally:
        recording.stop()
