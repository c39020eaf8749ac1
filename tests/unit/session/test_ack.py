"""Acknowledged puts in a simulated world: acknowledged is on disk, or an error says why."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.session.fake_node import World as OneNode
from tests.unit.session.small_recorder import CONNECT, Scene, SmallRecorder, stored

import elea
from elea.errors import (
    AckTimeoutError,
    ClosedError,
    InvalidValueError,
    LimitError,
    LocalProtocolError,
    NotRecordedError,
    NotStoredError,
    StoreError,
)
from elea.limits import DEFAULT_LIMITS
from elea.provenance import SourceInfo
from elea.qos import CongestionControl, Locality, Priority
from elea.sample import Reply, ReplyError
from elea.session.ack import (
    Acks,
    Attempt,
    Entry,
    StoredAck,
    _read_ack,
    acks_of,
)
from elea.session.query import Query
from elea.session.receipts import read_receipts, read_refusal
from elea.session.session import Session
from elea.sim.world import World
from elea.store.log.reader import LogReader
from elea.wire.data.put import Put
from elea.zbytes import ZBytes


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with World(1) as world:
        yield Scene(world, tmp_path / "log")


def told(scene: Scene) -> SmallRecorder:
    """A recorder that sends receipts, for which the key `fleet/1` needs no question any more."""
    recorder = scene.record()
    recorder.receipts = 100
    scene.session.put("fleet/1", "0", ack="stored")
    return recorder


def test_a_put_returns_where_the_sample_is(scene: Scene) -> None:
    recorder = scene.record()
    first = scene.session.put("fleet/1", "a", ack="stored")
    second = scene.session.put("fleet/1", "b", ack="stored")
    log = LogReader(scene.directory).log_id
    assert first == StoredAck(log, "fleet", 0, 0)
    assert second == StoredAck(log, "fleet", 0, 1)
    assert not first.spooled
    assert first.durable
    rows = stored(scene.directory)
    assert [(row.key, row.kind, row.payload) for row in rows] == [
        ("fleet/1", "put", "a"),
        ("fleet/1", "put", "b"),
    ]
    assert rows[0].time < rows[1].time
    # The payload travelled once: the recorder was asked for it, not given it.
    assert [one.partition(";")[0][:4] for one in recorder.questions] == ["zid=", "zid="]
    assert all("wait=0.5" in one for one in recorder.questions)


def test_a_deletion_and_a_publisher_are_acknowledged(scene: Scene) -> None:
    recorder = scene.record()
    publisher = scene.session.declare_publisher("fleet/2", encoding="text/plain")
    assert publisher.put("a", ack="stored").seq == 0
    assert publisher.put("b", attachment="x", encoding="text/json", ack="stored").seq == 1
    assert publisher.delete(ack="stored").seq == 2
    recorder.is_deaf = True  # now the questions bring the samples
    assert publisher.delete(ack="stored", attachment="y").seq == 3
    assert scene.session.delete("fleet/2", ack="stored", timeout=3).seq == 4
    assert publisher.put("", ack="stored").seq == 5
    assert publisher.stats.sent_count == 5
    rows = [row for batch in LogReader(scene.directory).read(0, 0) for row in batch.to_pylist()]
    assert [row["kind"] for row in rows] == [0, 0, 1, 1, 1, 0]
    assert [row["encoding"] for row in rows[:2]] == ["text/plain", "text/json"]
    assert rows[5]["encoding"] == "text/plain"
    assert [row["attachment"] for row in rows] == [None, b"x", None, b"y", None, None]
    assert [row["sn"] for row in rows] == list(range(6))


def test_without_ack_nothing_is_returned_and_nobody_asked(scene: Scene) -> None:
    recorder = scene.record()
    nothing: list[object] = [scene.session.put("fleet/1", "a"), scene.session.delete("fleet/1")]
    assert nothing == [None, None]
    scene.world.sleep(1)
    assert recorder.questions == []
    assert stored(scene.directory) == []  # this recorder takes what has an identity only


def test_subscribers_get_an_acknowledged_sample_once(scene: Scene) -> None:
    recorder = scene.record()
    recorder.is_deaf = True
    subscriber = scene.node.declare_subscriber("fleet/*")
    scene.world.sleep(0.2)
    scene.session.put("fleet/1", "a", ack="stored", priority=Priority.DATA_HIGH)
    [sample] = subscriber.drain()
    assert sample.congestion_control is CongestionControl.BLOCK
    assert sample.priority is Priority.DATA_HIGH
    assert sample.source_info is not None
    assert sample.timestamp is not None
    assert stored(scene.directory)[0].time == sample.timestamp.time.value


def test_a_recorder_that_missed_the_sample_is_given_it(scene: Scene) -> None:
    recorder = scene.record()
    recorder.is_deaf = True
    ack = scene.session.put("fleet/1", "a", ack="stored")
    assert (ack.seq, ack.duplicate) == (0, False)
    assert [one[0] for one in recorder.questions] == ["z", "+"]


def test_a_lost_answer_is_asked_for_again_and_nothing_stored_twice(scene: Scene) -> None:
    recorder = scene.record()
    recorder.lost_count = 1
    ack = scene.session.put("fleet/1", "a", ack="stored")
    assert (ack.seq, ack.duplicate) == (0, True)
    recorder.lost_count = 4
    assert scene.session.put("fleet/1", "b", ack="stored").seq == 1
    assert len(stored(scene.directory)) == 2


def test_the_identity_of_the_caller_makes_a_repetition_one(scene: Scene) -> None:
    scene.record()
    source = SourceInfo(scene.session.id, 77)
    stamp = scene.session.new_timestamp()
    first, again = (
        scene.session.put("fleet/1", "a", ack="stored", source_info=source, timestamp=stamp)
        for _ in range(2)
    )
    assert (first.seq, again.seq) == (0, 0)
    assert stored(scene.directory)[0].identity == (str(scene.session.zid()), 1, 77)


def test_nobody_records_it(scene: Scene) -> None:
    scene.record("fleet/**")
    with pytest.raises(NotRecordedError, match=r"nobody records 'ship/1'; start a recorder") as it:
        scene.session.put("ship/1", "a", ack="stored")
    assert it.value.key == "ship/1"
    with pytest.raises(StoreError):
        scene.session.put("ship/1", "a", ack="stored", allowed_destination=Locality.SESSION_LOCAL)


@pytest.mark.parametrize("reason", ["full", "closed", "invalid"])
def test_a_refusal_says_who_and_why(scene: Scene, reason: str) -> None:
    recorder = scene.record()
    recorder.refusal = reason
    with pytest.raises(NotStoredError) as caught:
        scene.session.put("fleet/1", "a", ack="stored")
    assert caught.value.reason == reason
    assert caught.value.detail == "as the test wants"
    assert caught.value.recorder == f"the recorder at {scene.node.zid()}"
    assert "'fleet/1'" in str(caught.value)


def test_a_busy_recorder_is_asked_again(scene: Scene) -> None:
    recorder = scene.record()
    recorder.refusal, recorder.refusals_count = "busy", 4
    assert scene.session.put("fleet/1", "a", ack="stored").seq == 0
    recorder.refusal, recorder.refusals_count = "busy", -1
    with pytest.raises(NotStoredError, match="busy"):
        scene.session.put("fleet/1", "b", ack="stored", timeout=3)


def test_an_answer_that_is_none_is_a_refusal_or_nothing(scene: Scene) -> None:
    with scene.node.declare_queryable("@elea/log/x/put/**", lambda q: q.reply_err("?")):
        scene.world.sleep(0.2)
        with pytest.raises(NotStoredError, match=r"unreadable: \?"):
            scene.session.put("a", "a", ack="stored")
    with scene.node.declare_queryable(
        "@elea/log/x/put/**", lambda q: q.reply("@elea/log/x/put/a", '{"seq": "x"}')
    ):
        scene.world.sleep(0.2)
        with pytest.raises(NotRecordedError):
            scene.session.put("a", "a", ack="stored")


def test_nobody_answers_in_time(scene: Scene) -> None:
    held: list[Query] = []
    scene.node.declare_queryable("@elea/log/x/put/**", held.append)
    scene.world.sleep(0.2)
    with pytest.raises(AckTimeoutError, match=r"within 2 s .* put it again") as caught:
        scene.session.put("a", "a", ack="stored", timeout=2)
    assert isinstance(caught.value, TimeoutError)
    assert held


def test_two_recorders_the_first_answer_counts(scene: Scene, tmp_path: Path) -> None:
    full = scene.record()
    full.refusal = "full"
    SmallRecorder(scene.node, tmp_path / "other", "fleet/*", "other")
    scene.world.sleep(0.2)
    assert scene.session.put("fleet/1", "a", ack="stored").name == "other"


def test_a_recorder_that_has_just_begun_is_found(scene: Scene) -> None:
    begun: list[SmallRecorder] = []

    def begin() -> None:
        begun.append(SmallRecorder(scene.node, scene.directory))

    scene.world.after(200_000_000, begin)
    assert scene.session.put("fleet/1", "a", ack="stored").seq == 0


def test_a_node_that_starts_again_takes_no_number_twice(scene: Scene) -> None:
    scene.record()
    config = {**CONNECT, "id": "abc123"}
    identities = set()
    for _ in range(3):
        with scene.world.process("truck"), elea.open(config) as session:
            assert not session.put("fleet/1", "a", ack="stored").duplicate
            identities.add(stored(scene.directory)[-1].identity)
    assert len(identities) == 3
    assert {zid for zid, _, _ in identities} == {"abc123"}


def test_the_session_is_closed_meanwhile(scene: Scene) -> None:
    held: list[Query] = []
    scene.node.declare_queryable("@elea/log/x/put/**", held.append)
    scene.world.sleep(0.2)
    session = scene.session
    scene.world.after(500_000_000, session.close)
    with pytest.raises(ClosedError):
        session.put("a", "a", ack="stored")
    with pytest.raises(ClosedError):
        session.put("a", "a", ack="stored")


def test_puts_that_waited_when_a_session_was_closed_recursed_one_into_the_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ended at once, and began the next: with a thousand of them that was too deep."""
    held: list[Query] = []
    scene.node.declare_queryable("@elea/log/x/put/**", held.append)
    scene.world.sleep(0.2)
    session, count = scene.session, DEFAULT_LIMITS.acks_count + 2_000
    acks = acks_of(session._context)
    entries = [Entry(f"a/{number}", Put(b""), 0) for number in range(count)]
    futures = [acks.put(entry, 10**10)[0] for entry in entries]
    closed = ClosedError("session closed")

    def refuse(self: Acks, entry: Entry) -> int:
        raise closed

    monkeypatch.setattr(Acks, "publish", refuse)
    next(iter(acks._active)).give_up(closed)
    assert sum(one.done() for one in futures) == 1 + 2_000
    session.close()
    for one in futures:
        with pytest.raises(ClosedError):
            one.result()


@pytest.fixture
def session() -> Session:
    return OneNode().open()


class TestArguments:
    def test_what_ack_may_be(self, session: Session) -> None:
        with pytest.raises(InvalidValueError, match=r"saw 'sent'; legal are None and 'stored'"):
            session.put("a", "b", ack="sent")  # type: ignore[call-overload]
        with pytest.raises(InvalidValueError, match="saw `timeout` without it"):
            session.put("a", "b", timeout=1)  # type: ignore[call-overload]
        with pytest.raises(InvalidValueError, match="'sent'"):
            session.declare_publisher("a").put("b", ack="sent")  # type: ignore[call-overload]
        with pytest.raises(InvalidValueError, match="without it"):
            session.declare_publisher("a").delete(timeout=1)  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="negative"):
            session.put("a", "b", ack="stored", timeout=-1)

    def test_a_key_has_no_wildcards_and_a_length(self, session: Session) -> None:
        with pytest.raises(InvalidValueError, match="without wildcards"):
            session.put("a/*", "b", ack="stored")
        with pytest.raises(LimitError):
            session.put("a" * 1_020, "b", ack="stored")
        with pytest.raises(TypeError):
            session.put("a", "b", ack="stored", allowed_destination=1)  # type: ignore[call-overload]

    def test_a_thread_that_is_the_loop_does_not_wait(self, session: Session) -> None:
        session.declare_queryable("@elea/log/x/put/**")
        with pytest.raises(LocalProtocolError, match=r"elea\.aio"):
            session.put("a", "b", ack="stored")

    def test_acknowledgements_are_values(self) -> None:
        log = uuid.uuid4()
        assert StoredAck(log, "a", 0, 1) == StoredAck(log, "a", 0, 1)
        assert len({StoredAck(log, "a", 0, 1), StoredAck(log, "a", 0, 1)}) == 1


class TestManyAtOnce:
    def test_coroutines_put_at_once_and_their_order_is_kept(self, scene: Scene) -> None:
        recorder = scene.record()
        count = 2 * DEFAULT_LIMITS.acks_count + 10
        acks: list[StoredAck] = []

        async def main() -> None:
            async with elea.aio.open(CONNECT) as session:
                publisher = session.declare_publisher("fleet/p")
                puts = [session.put("fleet/1", str(n), ack="stored") for n in range(count)]
                acks.extend(await asyncio.gather(*puts))
                acks.append(await publisher.put("p", ack="stored", timeout=5))
                acks.append(await publisher.delete(ack="stored"))
                acks.append(await session.delete("fleet/1", ack="stored"))
                with pytest.raises(NotRecordedError):
                    await session.put("ship", "", ack="stored")

        scene.world.start("robot", main)
        scene.world.run()
        assert [ack.seq for ack in acks] == list(range(count + 3))
        rows = stored(scene.directory)
        assert [row.payload for row in rows[:count]] == [str(n) for n in range(count)]
        assert not any(one.startswith("+") for one in recorder.questions[:count])

    def test_those_that_wait_for_a_turn_end_in_time(self, scene: Scene) -> None:
        held: list[Query] = []
        scene.node.declare_queryable("@elea/log/x/put/**", held.append)
        scene.world.sleep(0.2)
        count = DEFAULT_LIMITS.acks_count + 20

        async def main() -> None:
            async with elea.aio.open(CONNECT) as session:
                puts = [session.put("a", "b", ack="stored", timeout=2) for _ in range(count)]
                outcomes = await asyncio.gather(*puts, return_exceptions=True)
                assert {type(one) for one in outcomes} == {AckTimeoutError}

        scene.world.start("robot", main)
        scene.world.run(limit_s=10)
        assert len(held) == DEFAULT_LIMITS.acks_count


def test_where_receipts_come_only_the_first_put_of_a_key_asks(scene: Scene) -> None:
    recorder = scene.record()
    recorder.receipts = 100
    acks = [scene.session.put("fleet/1", str(number), ack="stored") for number in range(5)]
    assert [ack.seq for ack in acks] == [0, 1, 2, 3, 4]
    assert acks[4] == StoredAck(LogReader(scene.directory).log_id, "fleet", 0, 4)
    assert len(recorder.questions) == 1
    assert "receipts=true" in recorder.questions[0]
    scene.session.put("fleet/2", "other", ack="stored")
    assert len(recorder.questions) == 2
    scene.session.delete("fleet/2", ack="stored")
    assert len(recorder.questions) == 2


def test_a_receipt_that_does_not_come_is_asked_for(scene: Scene) -> None:
    recorder = scene.record()
    recorder.receipts = 2
    for number in range(4):
        assert scene.session.put("fleet/1", str(number), ack="stored").seq == number
    # The first asks, the second need not, the third waits in vain, and then the key asks again.
    assert len(recorder.questions) == 3
    assert not any(one.startswith("+") for one in recorder.questions)
    assert [row.payload for row in stored(scene.directory)] == ["0", "1", "2", "3"]


def test_a_sample_that_was_lost_on_its_way_is_in_the_question(scene: Scene) -> None:
    recorder = told(scene)
    recorder.is_deaf = True
    assert scene.session.put("fleet/1", "1", ack="stored").seq == 1
    assert [one.startswith("+") for one in recorder.questions] == [False, False, True]


def test_who_is_refused_by_a_receipt_asks_why(scene: Scene) -> None:
    recorder = told(scene)
    recorder.refusal = "full"
    before_ns = scene.world.now_ns
    with pytest.raises(NotStoredError, match="full"):
        scene.session.put("fleet/1", "1", ack="stored")
    assert scene.world.now_ns - before_ns < 200_000_000


def test_a_receipt_may_come_before_it_is_expected(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = told(scene)
    expect = Attempt.await_receipt

    def late(attempt: Attempt) -> None:
        scene.world.sleep(0.1)
        assert len(stored(scene.directory)) == 2
        expect(attempt)

    monkeypatch.setattr(Attempt, "await_receipt", late)
    before_ns = scene.world.now_ns
    assert scene.session.put("fleet/1", "1", ack="stored").seq == 1
    assert scene.world.now_ns - before_ns < 150_000_000
    assert len(recorder.questions) == 1


def test_a_session_that_is_closed_while_a_sample_is_sent_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(scene)
    publish = Acks.publish

    def last(acks: Acks, entry: Entry) -> int:
        result = publish(acks, entry)
        acks.close()
        return result

    monkeypatch.setattr(Acks, "publish", last)
    with pytest.raises(ClosedError):
        scene.session.put("fleet/1", "1", ack="stored")


@pytest.mark.parametrize("octets", [b"", b"{", b"[]", b'{"log": 1}', b'{"stored": [[1]]}'])
def test_what_is_no_receipt_is_none(octets: bytes) -> None:
    assert list(read_receipts(octets)) == []


@pytest.mark.parametrize("member", ["log", "name", "proof"])
def test_a_receipt_that_nobody_awaits_is_kept_only_if_it_is_short(member: str) -> None:
    told = {"log": "1c9a3b0e-0000-0000-0000-000000000000", "name": "x", "proof": "0" * 24}

    def read(**other: str) -> int:
        said = {**told, **other}
        row = [1, 2, 0, 3, said.pop("proof")]
        return len(list(read_receipts(json.dumps({**said, "stored": [row]}).encode())))

    assert read() == 1
    assert read(**{member: "0" * 1_000_000}) == 0


DEEP = b"[" * 100_000


@pytest.mark.parametrize("number", [b"Infinity", b"9" * 5_000, DEEP])
def test_json_of_strangers_that_cannot_be_read_raises_nothing(number: bytes) -> None:
    head = b'{"log": "1c9a3b0e-0000-0000-0000-000000000000", "name": "x", "shard": 0, '
    assert list(read_receipts(head + b'"stored": [[%b, 0, 0, 0, "00"]]}' % number)) == []
    assert _read_ack(head + b'"seq": %b}' % number) is None
    refusal = Reply(result=ReplyError(payload=ZBytes(head + b'"error": %b}' % number)))
    if number is DEEP:
        assert read_refusal("fleet/1", refusal).reason == "unreadable"


def test_a_receipt_of_a_log_without_a_name_is_none(scene: Scene) -> None:
    scene.record()
    key = f"@elea/log/x/stored/{scene.session.zid()}"
    scene.session.put("fleet/1", "0", ack="stored")
    scene.node.put(key, '{"log": "no uuid", "name": "x", "stored": [[1, 2, 0, 3, "00"]]}')
    assert scene.session.put("fleet/1", "1", ack="stored").name == "fleet"


def forge(scene: Scene, eid: int, sns: range, *, proof: object = None) -> None:
    """Somebody says that samples are stored which nobody has."""
    log = "1c9a3b0e-0000-0000-0000-000000000000"
    rows = [[eid, sn, 0, sn] if proof is None else [eid, sn, 0, sn, proof] for sn in sns]
    key = f"@elea/log/fleet/stored/{scene.session.zid()}"
    scene.node.put(key, json.dumps({"log": log, "name": "fleet", "stored": rows}))
    scene.world.sleep(0.05)


@pytest.mark.parametrize("proof", [None, "", "00" * 12, 5])
def test_a_receipt_without_proof_is_not_believed_even_in_advance(
    scene: Scene, proof: object
) -> None:
    recorder = told(scene)
    eid = int(recorder.questions[0].partition("eid=")[2].partition(";")[0])
    forge(scene, eid, range(50), proof=proof)
    recorder.is_deaf, recorder.refusal = True, "full"
    with pytest.raises(NotStoredError, match="full"):
        scene.session.put("fleet/1", "1", ack="stored")
    recorder.is_deaf, recorder.refusal = False, None
    ack = scene.session.put("fleet/1", "2", ack="stored")
    assert ack.log == LogReader(scene.directory).log_id
    assert [row.payload for row in stored(scene.directory)] == ["0", "2"]


def test_a_receipt_of_another_sample_is_not_believed(scene: Scene) -> None:
    """The proof of one sample is no proof of the next."""
    heard: list[str] = []
    key = f"@elea/log/*/stored/{scene.session.zid()}"
    scene.node.declare_subscriber(key, lambda sample: heard.append(sample.payload.to_string()))
    recorder = told(scene)
    scene.session.put("fleet/1", "1", ack="stored")
    said = json.loads(heard[-1])
    said["stored"] = [[row[0], row[1] + 1, *row[2:]] for row in said["stored"]]
    recorder.is_deaf, recorder.refusal = True, "full"
    scene.node.put(key.replace("*", "fleet"), json.dumps(said))
    scene.world.sleep(0.05)
    with pytest.raises(NotStoredError, match="full"):
        scene.session.put("fleet/1", "2", ack="stored")
