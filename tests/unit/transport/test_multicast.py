"""GroupTransport: members back to back, captured JOINs, forged ones, virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from tests.pairs import Collector, seeded
from tests.unit.transport.messages import BLOCK, DATA, declare, put
from tests.vectors.loader import load

from elea.answers import DROPPED, REFUSED, SENT
from elea.errors import InvalidValueError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.transport.events import JoinDue, MemberJoined, MemberLost
from elea.transport.multicast import GroupOffer, GroupTransport
from elea.wire import compression
from elea.wire.batches import decode_batch, encode_batch
from elea.wire.codec import NetworkMessage, encode_one
from elea.wire.network.push import Push
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame
from elea.wire.transport.join import Join, NextSn

SECOND = 1_000_000_000


@dataclass
class Member:
    """One node of a group, and what it got from whom."""

    group: GroupTransport
    sinks: dict[str, Collector]
    events: list[object] = field(default_factory=list)

    @classmethod
    def make(
        cls, zid: bytes, *, limits: Limits = DEFAULT_LIMITS, now_ns: int = 0, **changes: object
    ) -> Member:
        sinks: dict[str, Collector] = {}
        offer = GroupOffer(**{"zid": zid, "whatami": 1, **changes})  # type: ignore[arg-type]
        group = GroupTransport(
            offer,
            seeded(zid[0]),
            lambda source: sinks.setdefault(source, Collector()),
            now_ns,
            limits=limits,
        )
        return cls(group, sinks)

    def pull_all(self, now_ns: int = 0) -> list[bytes]:
        return list(iter(lambda: self.group.pull(now_ns), None))

    def take(self, source: str, batch: bytes, now_ns: int = 0) -> None:
        self.events += self.group.receive_batch(source, batch, now_ns)

    def got(self) -> list[object]:
        return [message for sink in self.sinks.values() for message in sink.messages]


def deliver(members: dict[str, Member], now_ns: int = 0) -> None:
    """Bring everybody's datagrams to everybody else."""
    for source, sender in members.items():
        for batch in sender.pull_all(now_ns):
            for address, receiver in members.items():
                if address != source:
                    receiver.take(source, batch, now_ns)


def three(*, qos: bool = False, compressed: bool = False) -> dict[str, Member]:
    return {
        f"10.0.0.{n}:7447": Member.make(bytes([n]), qos=qos, compression=compressed)
        for n in (1, 2, 3)
    }


def join(zid: bytes = b"\x09", **changes: object) -> bytes:
    fields: dict[str, object] = {"lease": 10, "next_sn": NextSn(5, 6), "patch": 1, **changes}
    return encode_one(Join(zid, 1, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("qos", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_everybody_hears_everybody(qos: bool, compressed: bool) -> None:
    members = three(qos=qos, compressed=compressed)
    deliver(members)
    for address, member in members.items():
        joined = [event for event in member.events if isinstance(event, MemberJoined)]
        assert [event.source for event in joined] == [a for a in members if a != address]
    sender = members["10.0.0.1:7447"]
    messages: list[NetworkMessage] = [put(b"small"), put(bytes(50_000), qos=1), declare()]
    for message in messages:
        assert sender.group.send(message, True, 0) == SENT
    for batch in (datagrams := sender.pull_all()):
        assert len(batch) <= 8_192
        for address in ("10.0.0.2:7447", "10.0.0.3:7447"):
            members[address].take("10.0.0.1:7447", batch)
    assert len(datagrams) > 1 or compressed
    for address in ("10.0.0.2:7447", "10.0.0.3:7447"):
        got = members[address].got()
        assert len(got) == 3
        assert all(message in got for message in messages)


def test_a_join_is_as_the_captured_one() -> None:
    [first, *_] = [record for record in load("multicast_join.jsonl") if record.conn == "mc#0"]
    [captured] = decode_batch(first.octets)
    member = Member.make(bytes.fromhex("010e"))
    [batch] = member.pull_all()
    [mine] = decode_batch(batch)
    assert isinstance(mine, Join)
    assert isinstance(captured, Join)
    assert replace(mine, next_sn=captured.next_sn) == captured
    assert mine.next_sn.reliable == mine.next_sn.best_effort


def test_a_captured_group_is_followed() -> None:
    member = Member.make(b"\x01")
    for record in load("multicast_join.jsonl"):
        member.take(record.conn, record.octets)
    joined = [event for event in member.events if isinstance(event, MemberJoined)]
    lost = [event for event in member.events if isinstance(event, MemberLost)]
    assert [event.source for event in joined] == ["mc#0", "mc#1"]
    assert [(event.source, event.by_peer) for event in lost] == [("mc#1", True), ("mc#0", True)]
    assert [type(message) for message in member.sinks["mc#1"].messages] == [Push, Push]
    assert len(member.sinks["mc#0"].messages) == 1


# Who may join


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 8},
        {"resolution": 0x05},
        {"batch_len": 4_096},
        {"qos": tuple(NextSn(0, 0) for _ in range(8))},
        {"zid": b"\x01"},
    ],
    ids=["version", "resolution", "batch", "qos", "myself"],
)
def test_whoever_differs_is_not_a_member(changes: dict[str, object]) -> None:
    member = Member.make(b"\x01")
    member.take("x", join(**changes))  # type: ignore[arg-type]
    assert member.events == []
    assert member.group.members == {}


def test_nothing_counts_before_the_first_join() -> None:
    member = Member.make(b"\x01")
    member.take("x", encode_batch([Frame(5), put()]))
    member.take("x", b"\xff")
    assert member.got() == []
    member.take("x", join())
    member.take("x", encode_batch([Frame(5), put(b"1"), Frame(6, False), put(b"2")]))
    assert member.got() == [put(b"1"), put(b"2")]


def test_numbers_start_where_the_join_says() -> None:
    member = Member.make(b"\x01")
    member.take("x", join())
    member.take("x", encode_batch([Frame(4), put(b"old"), Frame(5), put(b"new")]))
    assert member.got() == [put(b"new")]


def test_an_announced_number_above_the_modulus_is_masked() -> None:
    member = Member.make(b"\x01")
    member.take("x", join(next_sn=NextSn(0x1000_0000, 0)))
    member.take("x", encode_batch([Frame(0), put()]))
    assert member.got() == [put()]


def test_join_and_data_in_one_datagram() -> None:
    member = Member.make(b"\x01")
    member.take("x", join() + encode_batch([Frame(5), put()]))
    assert member.got() == [put()]
    assert member.events == [MemberJoined("x", b"\x09", 1)]


def test_a_later_join_changes_nothing() -> None:
    member = Member.make(b"\x01")
    member.take("x", join())
    member.take("x", encode_batch([Frame(5), put()]))
    member.take("x", join(next_sn=NextSn(5, 6)))
    member.take("x", encode_batch([Frame(5), put(b"again")]))
    assert member.got() == [put()]
    member.take("x", join(b"\x08"))  # somebody else at the same address
    assert member.group.members == {"x": b"\x09"}
    assert member.group.stats.undecodable_batches == 1


def test_members_are_bounded() -> None:
    member = Member.make(b"\x01", limits=replace(DEFAULT_LIMITS, group_members_count=3))
    for n in range(10):
        member.take(f"source {n}", join(bytes([n + 20])))
    assert list(member.group.members) == ["source 0", "source 1", "source 2"]


def test_what_a_member_does_wrong_costs_the_datagram() -> None:
    member = Member.make(b"\x01")
    member.take("x", join())
    for batch in (b"\xff", encode_one(Frame(2**28)), encode_one(Frame(5, priority=1)), b"\x07"):
        member.take("x", batch)
    assert member.group.stats.undecodable_batches == 4
    member.take("x", encode_batch([Frame(5), put()]))
    assert member.got() == [put()]
    assert member.group.members == {"x": b"\x09"}


def test_garbage_behind_a_join_does_not_hide_the_member() -> None:
    member = Member.make(b"\x01")
    member.take("x", join() + b"\xff")
    assert member.events == [MemberJoined("x", b"\x09", 1)]


def test_a_compressed_group_takes_nothing_else() -> None:
    member = Member.make(b"\x01", compression=True)
    member.take("x", join())
    member.take("y", b"")
    assert member.group.members == {}
    member.take("x", compression.pack(join()))
    assert member.group.members == {"x": b"\x09"}


# Unfinished messages of all members together


def test_forged_senders_share_one_bound_and_the_slowest_gives_up() -> None:
    limits = replace(DEFAULT_LIMITS, fragments_len=1_000, message_len=1_000)
    member = Member.make(b"\x01", limits=limits)
    piece = encode_one(Fragment(5, bytes(300), more=True, first=True))
    for n in range(50):
        member.take(f"source {n}", join(bytes([n + 20])), now_ns=n)
        member.take(f"source {n}", piece, now_ns=n)
        held = [one.rx.reassembly.pending_len for one in member.group._members.values()]
        assert sum(held) == member.group._fragments_len <= 1_000
    assert [n for n, length in enumerate(held) if length] == [47, 48, 49]
    assert sum(member.group.stats.lost_fragments.values()) == 47


def test_unfinished_messages_die_of_age_and_with_their_member() -> None:
    member = Member.make(b"\x01")
    for source in ("x", "y"):
        member.take(source, join(source.encode(), lease=60))
        member.take(source, encode_one(Fragment(5, bytes(300), more=True, first=True)))
    assert member.group._fragments_len == 600
    member.take("y", encode_one(Close(0)))
    assert member.group._fragments_len == 300
    member.group.handle_timer(DEFAULT_LIMITS.fragment_idle_ns)
    assert member.group._fragments_len == 0
    assert list(member.group.members) == ["x"]


# Time


def test_a_newcomer_hears_of_everybody_soon_and_a_crowd_costs_no_more() -> None:
    """It could take nothing from a member before its next JOIN, which was up to 2.5 s away."""
    member = Member.make(b"\xff")
    member.pull_all()
    now_ns = SECOND
    for number in range(50):
        member.take(f"10.0.0.{number}:7447", join(bytes([number + 1])), now_ns)
    welcome_ns = member.group.next_timer_ns()
    assert welcome_ns is not None
    assert now_ns < welcome_ns <= now_ns + 5_000_000
    assert member.group.handle_timer(welcome_ns) == (JoinDue(),)
    [batch] = member.pull_all(welcome_ns)
    assert isinstance(decode_batch(batch)[0], Join)
    member.take("10.0.1.1:7447", join(b"\x77"), welcome_ns)
    next_ns = member.group.next_timer_ns()
    assert next_ns is not None
    assert next_ns - welcome_ns >= 100_000_000


def test_a_join_every_interval_and_members_stay() -> None:
    members = three()
    deliver(members)
    now_ns = 0
    while now_ns < 60 * SECOND:
        timers = [member.group.next_timer_ns() for member in members.values()]
        now_ns = min(timer for timer in timers if timer is not None)
        for member in members.values():
            member.events += member.group.handle_timer(now_ns)
        deliver(members, now_ns)
    for member in members.values():
        assert len(member.group.members) == 2
        assert member.events.count(JoinDue()) == 25  # one more, for the newcomers of the start
        assert MemberLost not in map(type, member.events)


def test_a_silent_member_is_lost_after_its_lease() -> None:
    member = Member.make(b"\x01")
    member.take("x", join(lease=3))
    member.take("x", encode_batch([Frame(5), put()]), now_ns=2 * SECOND)
    assert MemberLost not in map(type, member.group.handle_timer(4 * SECOND))
    lost = MemberLost("x", b"\x09", "nothing arrived for its lease", by_peer=False)
    assert lost in member.group.handle_timer(5 * SECOND)
    assert member.group.members == {}


def test_nothing_happens_before_it_is_due() -> None:
    member = Member.make(b"\x01", join_interval_ms=1_000)
    assert member.group.next_timer_ns() == SECOND
    assert member.group.handle_timer(SECOND - 1) == ()
    assert member.group.handle_timer(SECOND) == (JoinDue(),)


def test_a_join_announces_what_comes_next_and_goes_first() -> None:
    member = Member.make(b"\x01", qos=True, lease_ms=1_500)
    member.pull_all()
    for _ in range(3):
        member.group.send(put(qos=2), True, 0)
        member.pull_all()
    member.group.send(put(qos=2), True, 0)
    member.group.handle_timer(2_500_000_000)
    [announced] = decode_batch(member.pull_all()[0])
    assert isinstance(announced, Join)
    assert announced.qos is not None
    assert announced.lease_ms == 1_500
    first = announced.qos[0].reliable
    assert announced.qos[2] == NextSn(first + 4, first)
    assert announced.next_sn == NextSn(0, 0)


# Leaving


def test_close_comes_last_and_everybody_forgets() -> None:
    members = three()
    deliver(members)
    leaver = members["10.0.0.3:7447"]
    leaver.group.send(put(b"goodbye"), True, 0)
    leaver.group.close(CloseReason.GENERIC)
    leaver.group.close(CloseReason.INVALID)
    assert leaver.group.send(put(), True, 0) == DROPPED
    assert leaver.group.stats.dropped_closed == 1
    assert leaver.group.next_timer_ns() is None
    assert leaver.group.handle_timer(100 * SECOND) == ()
    deliver(members)
    assert leaver.group.pending_len == 0
    for address in ("10.0.0.1:7447", "10.0.0.2:7447"):
        member = members[address]
        assert put(b"goodbye") in member.got()
        assert member.events[-1] == MemberLost("10.0.0.3:7447", b"\x03", "it left: generic", True)


def test_a_stalled_group_is_congested_like_any_link() -> None:
    member = Member.make(b"\x01", limits=replace(DEFAULT_LIMITS, tx_queue_len=1_000))
    results = {member.group.send(put(), True, 0) for _ in range(100)}
    assert results == {SENT, DROPPED}
    assert member.group.send(put(qos=DATA | BLOCK), True, 0) == REFUSED
    assert member.group.pending_len > 0
    assert not member.group.express_pending


@pytest.mark.parametrize(
    "changes",
    [{"batch_len": 63}, {"batch_len": 8_193}, {"lease_ms": 0}, {"join_interval_ms": 0}],
)
def test_an_impossible_offer_is_refused_here(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError, match="no offer"):
        Member.make(b"\x01", **changes)  # type: ignore[arg-type]


def test_compression_without_its_library_is_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "lz4_block", None)
    with pytest.raises(InvalidValueError, match="compression"):
        Member.make(b"\x01", compression=True)
