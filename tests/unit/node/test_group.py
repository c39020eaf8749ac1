"""Multicast groups of nodes, without sockets (behaviour.md 1.20)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.pairs import seeded
from tests.unit.node.worlds import settings

from elea.config.config import Config
from elea.limits import Limits
from elea.locator import Locator
from elea.node.node import Node
from elea.node.ports import (
    CloseLink,
    Connect,
    LinkInfo,
    NeighbourDown,
    NeighbourUp,
    Teller,
    Told,
)
from elea.node.settings import AutoconnectSettings
from elea.policy.policy import Policy
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push

SECOND = 1_000_000_000
GROUP = Locator("udp/224.0.0.225:7447")
LINK = 7


class Member:
    """A node in the group, with one session that writes down what it gets."""

    def __init__(self, zid: int, **more: object) -> None:
        self.node = Node(settings(zid, **more), rng=seeded(zid))  # type: ignore[arg-type]
        self.address = Locator(f"udp/10.0.0.{zid}:7447")
        self.samples: list[tuple[str, bytes]] = []
        self.events: list[NeighbourUp | NeighbourDown] = []
        self.node.start(0)
        self.face_id = self.node.attach(self)
        self.node.groups.open(LINK, self.info(), 0)

    def info(self) -> LinkInfo:
        return LinkInfo(
            scheme="udp",
            local=self.address,
            remote=GROUP,
            group=GROUP,
            stream=False,
            reliable=False,
            batch_len_max=65_000,
        )

    def push(self, key: str, push: Push, reliable: bool) -> None:
        assert isinstance(push.body, Put)
        self.samples.append((key, push.body.payload))

    def receive(self, message: NetworkMessage, reliable: bool) -> None:
        pass

    def neighbour(self, event: NeighbourUp | NeighbourDown) -> None:
        self.events.append(event)

    def next_timer_ns(self) -> int | None:
        return None

    def handle_timer(self, now_ns: int) -> None:
        pass

    def deliver(self) -> None:
        pass

    def subscribe(self, key: str) -> None:
        declare = Declare(DeclareSubscriber(1, WireExpr(0, key)), qos=QOS_DECLARE)
        self.node.local_send(self.face_id, declare, True, 0)

    def put(self, key: str, payload: bytes, qos: int = 0x0D) -> int:
        push = Push(WireExpr(0, key), Put(payload), qos)
        return self.node.local_push(self.face_id, key, push, True, 0)


@dataclass
class World:
    members: list[Member]
    now_ns: int = 0

    def deliver(self) -> list[bytes]:
        """Bring what is dirty to everybody else; what was sent."""
        sent = []
        for member in self.members:
            if LINK in member.node.dirty_links():
                sent += self.flush(member)
        return sent

    def flush(self, member: Member) -> list[bytes]:
        sent = []
        while (data := member.node.pull(LINK, self.now_ns)) is not None:
            sent.append(data)
            for other in self.members:
                if other is not member:
                    other.node.groups.receive(LINK, member.address, data, self.now_ns)
        return sent

    def run(self, seconds: float) -> None:
        """Let time pass, in the steps that the nodes ask for."""
        end_ns = self.now_ns + int(seconds * SECOND)
        while True:
            times = [member.node.next_timer_ns() for member in self.members]
            due_ns = min((time for time in times if time is not None), default=end_ns)
            self.now_ns = min(due_ns, end_ns)
            for member in self.members:
                member.node.handle_timer(self.now_ns)
            self.deliver()
            if self.now_ns >= end_ns:
                return


def world(*zids: int, **more: object) -> World:
    made = World([Member(zid, **more) for zid in zids])
    made.run(0.2)
    return made


def up(member: Member) -> set[bytes]:
    return {one.zid for one in member.node.neighbours()}


def test_members_hear_each_other_and_sessions_are_told() -> None:
    made = world(1, 2, 3)
    one, two, three = made.members
    assert [up(member) for member in made.members] == [
        {b"\x02", b"\x03"},
        {b"\x01", b"\x03"},
        {b"\x01", b"\x02"},
    ]
    told = {(event.zid, str(event.info.remote)) for event in one.events}  # type: ignore[union-attr]
    assert told == {(b"\x02", str(two.address)), (b"\x03", str(three.address))}
    two.subscribe("a/**")
    made.deliver()
    assert one.put("a/b", b"x") == 0
    three.put("c", b"nobody wants it here, and it is sent all the same")
    assert len(made.deliver()) == 2
    assert two.samples == [("a/b", b"x")]
    assert one.samples == three.samples == []


def test_groups_are_guarded_as_somebody_without_a_name() -> None:
    rules = {
        "enabled": True,
        "rules": [
            {"id": "r", "permission": "allow", "messages": ["put"], "key_exprs": ["open/**"]},
            {"id": "named", "permission": "allow", "messages": ["put"], "key_exprs": ["**"]},
        ],
        "subjects": [{"id": "udp", "link_protocols": ["udp"]}, {"id": "us", "zids": ["1", "2"]}],
        "policies": [
            {"rules": ["r"], "subjects": ["udp"]},
            {"rules": ["named"], "subjects": ["us"]},
        ],
    }
    policy = Policy.from_config(Config.from_mapping({"access_control": rules}))
    made = world(1, 2, policy=policy)
    one, two = made.members
    for key in ("open/a", "shut/a"):
        one.put(key, b"x")
        assert len(made.deliver()) == (key == "open/a")
    assert one.node.guards.refused.total() == 1
    assert two.node.guards.refused.total() == 0


def test_a_member_that_leaves_or_falls_silent_is_lost() -> None:
    made = world(1, 2, 3)
    one, two, three = made.members
    three.node.close(made.now_ns)
    assert any(
        isinstance(effect, CloseLink) and effect.link_id == LINK for effect in three.node.effects()
    )
    made.flush(three)
    made.members.remove(three)
    three.node.link_closed(LINK, "closed here", made.now_ns)
    three.node.detach(three.face_id, made.now_ns)
    three.node.effects()
    assert three.node.is_empty()
    assert up(one) == {b"\x02"}
    made.members.remove(two)  # without a word
    made.run(5)
    assert up(one) == {b"\x02"}
    made.run(6)
    assert up(one) == set()
    gone = [event for event in one.events if isinstance(event, NeighbourDown)]
    assert [(event.zid, event.group) for event in gone] == [(b"\x03", GROUP), (b"\x02", GROUP)]
    assert "lease" in gone[1].reason


def test_a_member_is_not_dialled_because_it_was_told_of() -> None:
    """Samples would reach it twice."""
    made = world(1, 2, by_scouting=AutoconnectSettings(roles=0b111))
    one = made.members[0].node
    for zid in (b"\x02", b"\x03"):
        one.heard_of(Told(zid, 1, ("tcp/10.0.0.9:1",), Teller()), made.now_ns)
    [dialled] = [effect for effect in one.effects() if isinstance(effect, Connect)]
    assert [connector.expected_zid for connector in one._dialling] == [b"\x03"]
    assert dialled.connector_id == 1


def test_members_stay_while_they_say_join() -> None:
    made = world(1, 2)
    made.run(120)
    assert up(made.members[0]) == {b"\x02"}
    assert not any(isinstance(event, NeighbourDown) for event in made.members[0].events)


def test_a_group_that_is_lost_takes_its_members_with_it() -> None:
    made = world(1, 2)
    one = made.members[0]
    one.node.link_closed(LINK, "the interface went down", made.now_ns)
    assert up(one) == set()
    assert len(one.node.groups) == 0
    assert one.put("a", b"x") == 0
    one.node.groups.receive(LINK, made.members[1].address, b"late", made.now_ns)
    assert one.node.pull(LINK, made.now_ns) is None
    assert one.node.routing.tables.faces.keys() == {one.face_id}


def test_how_many_members_are_heard_is_bounded_by_the_settings() -> None:
    made = world(1, 2, 3, 4, group_members_max=2)
    assert len(up(made.members[0])) == 2


def test_blocking_messages_wait_for_room_in_a_group_too() -> None:
    made = world(1, 2)
    one, two = made.members
    two.subscribe("a")
    made.deliver()
    payload = bytes(8_000)
    answers = [one.put("a", payload) for _ in range(Limits().tx_queue_len // 8_000 + 10)]
    assert answers[0] == 0
    assert answers[-1] == 2
    assert one.node.is_congested()
    made.deliver()
    assert not one.node.is_congested()
    assert len(two.samples) == len(answers)


def test_priorities_if_the_settings_say_so() -> None:
    made = world(1, 2, group_qos=True)
    one, two = made.members
    two.subscribe("a")
    made.deliver()
    for qos in (0x0D, 0x09):
        one.put("a", bytes((qos,)), qos=qos)
    made.deliver()
    assert two.samples == [("a", b"\x09"), ("a", b"\x0d")]
