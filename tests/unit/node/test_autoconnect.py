"""Whom a node connects to of those that others told of (behaviour.md 1.13, 1.15)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.pairs import seeded
from tests.unit.node.worlds import settings

from elea.config.config import Config
from elea.ids import WhatAmI
from elea.limits import Limits
from elea.locator import Locator
from elea.node.node import Node
from elea.node.ports import CloseLink, Connect, LinkInfo, Teller, Told
from elea.node.settings import AutoconnectSettings, NodeSettings, role_bits

SECOND = 1_000_000_000
EVERYBODY = AutoconnectSettings(roles=0b111)
ROUTER, PEER, CLIENT = 0, 1, 2
HERE = Teller(loopback=True)


def told(zid: int, *locators: str, whatami: int = PEER, by_gossip: bool = False) -> Told:
    return Told(bytes((zid,)), whatami, locators or (f"tcp/h{zid}:1",), HERE, by_gossip)


def info(remote: str) -> LinkInfo:
    return LinkInfo(
        scheme="tcp",
        local=Locator("tcp/127.0.0.1:9"),
        remote=Locator(remote),
        stream=True,
        reliable=True,
        batch_len_max=65_535,
    )


@dataclass
class Driven:
    """A node, its clock, and links to other nodes that are driven with it."""

    node: Node
    now_ns: int = SECOND
    links_count: int = 0
    pipes: dict[int, tuple[Node, int]] = field(default_factory=dict)
    connects: list[Connect] = field(default_factory=list)

    @classmethod
    def make(cls, chosen: NodeSettings, limits: Limits | None = None) -> Driven:
        made = cls(Node(chosen, rng=seeded(chosen.zid[0]), limits=limits or Limits()))
        made.node.start(made.now_ns)
        made.turn()
        return made

    def hear(self, *others: Told) -> list[tuple[str, ...]]:
        """Tell it of nodes; where it dials."""
        for one in others:
            self.node.heard_of(one, self.now_ns)
        return self.dialled()

    def dialled(self) -> list[tuple[str, ...]]:
        self.turn()
        taken, self.connects = self.connects, []
        return [tuple(map(str, one.endpoints)) for one in taken]

    def link(self, connector_id: int, remote: str, other: Node) -> int:
        """A connection to `other` was made."""
        self.links_count += 1
        link_id = self.links_count
        self.node.link_opened(
            link_id, info(remote), self.now_ns, connector_id=connector_id, opened=True
        )
        other.link_opened(link_id, info("tcp/127.0.0.1:9"), self.now_ns)
        self.pipes[link_id] = (other, link_id)
        self.turn()
        return link_id

    def lose(self, link_id: int) -> None:
        other, its_id = self.pipes.pop(link_id)
        other.link_closed(its_id, "lost", self.now_ns)
        self.node.link_closed(link_id, "lost", self.now_ns)

    def later(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)
        self.node.handle_timer(self.now_ns)

    def turn(self) -> None:
        """Let both ends of all links say what they have to say."""
        for _ in range(10):
            for link_id, (other, its_id) in list(self.pipes.items()):
                while (data := self.node.pull(link_id, self.now_ns)) is not None:
                    other.link_data(its_id, data, self.now_ns)
                while (data := other.pull(its_id, self.now_ns)) is not None:
                    self.node.link_data(link_id, data, self.now_ns)
            other_effects = [one.effects() for one, _ in self.pipes.values()]
            for effect in self.node.effects():
                if isinstance(effect, Connect):
                    self.connects.append(effect)
                elif isinstance(effect, CloseLink):
                    self.lose(effect.link_id)
            assert all(not isinstance(one, Connect) for made in other_effects for one in made)


def peer(zid: int = 0x50, **more: object) -> Driven:
    values = {"by_scouting": EVERYBODY, "by_gossip": EVERYBODY, **more}
    return Driven.make(settings(zid, **values))  # type: ignore[arg-type]


def other(zid: int, whatami: WhatAmI = WhatAmI.PEER) -> Node:
    return Node(settings(zid, whatami), rng=seeded(zid))


def test_a_node_is_dialled_once_at_all_its_places() -> None:
    driven = peer()
    assert driven.hear(told(1, "tcp/a:1", "tcp/b:1", "tcp/a:1")) == [("tcp/a:1", "tcp/b:1")]
    assert driven.hear(told(1, "tcp/c:1")) == []  # an attempt goes on


@pytest.mark.parametrize(
    "one",
    [
        told(0x50),  # this node
        told(1, "no locator"),
        Told(b"\x01", PEER, (), HERE),
        told(1, "tcp/configured:1"),
    ],
)
def test_what_is_not_dialled(one: Told) -> None:
    driven = peer(connect=("tcp/configured:1",))
    driven.dialled()
    assert driven.hear(one) == []


def test_a_place_that_is_dialled_anyway_is_left_out() -> None:
    driven = peer(connect=("tcp/configured:1",))
    driven.dialled()
    assert driven.hear(told(1, "tcp/configured:1", "tcp/a:1")) == [("tcp/a:1",)]


def test_only_chosen_roles_are_dialled() -> None:
    driven = peer(by_scouting=AutoconnectSettings(roles=0b001))
    assert driven.hear(told(1), told(2, whatami=CLIENT)) == []
    assert driven.hear(told(3, whatami=ROUTER)) == [("tcp/h3:1",)]
    assert driven.hear(told(4, by_gossip=True)) == [("tcp/h4:1",)]  # which has its own settings


def test_the_greater_id_connects() -> None:
    driven = peer(by_scouting=AutoconnectSettings(roles=0b111, greater_zid=0b010))
    assert driven.hear(told(0x51), told(0x4F), told(0x60, whatami=ROUTER)) == [
        ("tcp/h79:1",),
        ("tcp/h96:1",),
    ]


def test_how_many_are_dialled_at_once_is_bounded() -> None:
    driven = Driven.make(settings(0x50, by_scouting=EVERYBODY), Limits(learned_count=3))
    assert len(driven.hear(*(told(zid) for zid in range(1, 10)))) == 3
    for connector_id in [one.id for one in driven.node._dialling]:
        driven.node.connect_failed(connector_id, "refused", driven.now_ns)
    assert len(driven.hear(*(told(zid) for zid in range(1, 10)))) == 3
    assert len(driven.node._dialling) == 3


def test_those_that_are_connected_do_not_count() -> None:
    driven = Driven.make(settings(0x50, by_scouting=EVERYBODY), Limits(learned_count=1))
    for zid in range(1, 5):
        connect(driven, zid)
    assert len(driven.node.neighbours()) == 4


def test_the_lesser_id_leaves_it_to_the_other_for_a_moment() -> None:
    """Gossip reaches both sides at the same time, and both would dial."""
    driven = peer()
    assert driven.hear(told(0x60, by_gossip=True)) == []
    driven.later(0.05)
    assert driven.dialled() == [("tcp/h96:1",)]
    driven = peer()
    assert driven.hear(told(0x60, by_gossip=True)) == []
    there = other(0x60)
    driven.link(0, "tcp/127.0.0.1:1", there)  # it was faster; who opened it does not matter here
    assert [one.zid for one in driven.node.neighbours()] == [b"\x60"]
    driven.later(0.05)
    assert driven.dialled() == []


def connect(driven: Driven, zid: int) -> tuple[Node, int]:
    """Let a node that was told of be reached."""
    driven.node.heard_of(told(zid), driven.now_ns)
    driven.turn()
    [effect] = driven.connects
    driven.connects.clear()
    there = other(zid)
    return there, driven.link(effect.connector_id, f"tcp/h{zid}:1", there)


def test_a_lost_node_is_tried_for_a_while_and_then_forgotten() -> None:
    driven = peer()
    _, link_id = connect(driven, 1)
    assert [one.zid for one in driven.node.neighbours()] == [b"\x01"]
    assert driven.hear(told(1)) == []
    driven.lose(link_id)
    attempts = 0
    for _ in range(100):
        driven.later(0.5)
        for effect in driven.dialled():
            assert effect == ("tcp/h1:1",)
            attempts += 1
            [connector_id] = [one.id for one in driven.node._dialling]
            driven.node.connect_failed(connector_id, "refused", driven.now_ns)
    assert 5 < attempts < 20
    assert len(driven.node._dialling) == 0
    assert driven.hear(told(1)) == [("tcp/h1:1",)]  # until somebody tells of it again


def test_somebody_else_at_one_place_does_not_hide_the_node_at_another() -> None:
    driven = peer()
    assert driven.hear(told(1, "tcp/10.0.0.1:1", "tcp/10.0.0.2:1")) != []
    [connector_id] = [one.id for one in driven.node._dialling]
    driven.link(connector_id, "tcp/10.0.0.1:1", other(9))
    assert driven.node.neighbours() == []
    driven.later(0)
    assert driven.dialled() == [("tcp/10.0.0.2:1",)]
    driven.link(connector_id, "tcp/10.0.0.2:1", other(8))
    assert driven.node.neighbours() == []
    assert len(driven.node._dialling) == 0  # there is no place left
    assert driven.dialled() == []


def client() -> Driven:
    chosen = settings(0x50, WhatAmI.CLIENT, by_scouting=EVERYBODY)
    return Driven.make(chosen)


def test_a_client_connects_to_one_and_to_no_client() -> None:
    driven = client()
    assert driven.hear(told(9, whatami=CLIENT)) == []
    _, link_id = connect(driven, 1)
    assert driven.hear(told(2)) == []
    driven.lose(link_id)
    assert driven.hear(told(2)) == [("tcp/h1:1",), ("tcp/h2:1",)]


def test_a_client_that_reached_two_keeps_one() -> None:
    driven = client()
    assert len(driven.hear(told(1), told(2))) == 2
    first, second = [one.id for one in driven.node._dialling]
    driven.link(first, "tcp/h1:1", other(1))
    driven.link(second, "tcp/h2:1", other(2))
    assert [one.zid for one in driven.node.neighbours()] == [b"\x01"]
    driven.lose(1)
    driven.later(0)
    assert driven.dialled() == [("tcp/h1:1",), ("tcp/h2:1",)]  # whoever was there may be the next


def test_a_client_with_two_endpoints_keeps_one() -> None:
    chosen = settings(0x50, WhatAmI.CLIENT, connect=("tcp/a:1", "tcp/b:1"))
    driven = Driven.make(chosen)
    assert driven.dialled() == [("tcp/a:1",)]  # the first that is listed goes first
    first, second = [one.id for one in driven.node._dialling]
    driven.node.connect_failed(first, "refused", 0)
    driven.later(2)
    assert driven.dialled() == [("tcp/a:1",), ("tcp/b:1",)]  # now both, each at its own pace
    driven.link(second, "tcp/b:1", other(2))
    driven.link(first, "tcp/a:1", other(1))
    assert [one.zid for one in driven.node.neighbours()] == [b"\x02"]


def test_settings_of_a_configuration() -> None:
    config = Config.from_json5(
        """{mode: "peer", scouting: {
            multicast: {autoconnect: ["router"], autoconnect_strategy: "greater-zid"},
            gossip: {target: ["peer"], autoconnect: {peer: ["peer", "client"]},
                     autoconnect_strategy: {peer: {to_router: "greater-zid"}}}},
            listen: {endpoints: ["tcp/[::]:0", "udp/224.0.0.225:7447#iface=lo"]},
            connect: {endpoints: ["udp/224.0.0.225:7447#iface=lo", "tcp/h:1"]}}"""
    )
    made = NodeSettings.from_config(config, seeded(1))
    assert made.by_scouting == AutoconnectSettings(roles=0b001, greater_zid=0b111)
    assert made.by_gossip == AutoconnectSettings(roles=0b110, greater_zid=0b001)
    assert made.routing.gossip_target == 0b010
    assert [str(one) for one in made.groups] == ["udp/224.0.0.225:7447#iface=lo"]
    assert [[str(one) for one in group] for group in made.connect] == [["tcp/h:1"]]
    assert made.awaits_scouted
    config.insert_json5("open/return_conditions/connect_scouted", "false")
    assert not NodeSettings.from_config(config, seeded(1)).awaits_scouted
    assert role_bits(None) == 0


@pytest.mark.parametrize(
    ("remote", "teller"),
    [
        ("tcp/127.0.0.1:1", Teller(loopback=True)),
        ("tcp/[::ffff:127.0.0.1]:1", Teller(loopback=True)),
        ("tcp/10.0.0.1:1", Teller()),
        ("tcp/[fe80::1%lo]:1", Teller(link_local=True)),
        ("unixsock-stream//run/x", Teller(loopback=True)),
        ("tcp/name:1", Teller()),
    ],
)
def test_where_a_teller_is(remote: str, teller: Teller) -> None:
    assert Teller.behind(info(remote)) == teller


def test_a_router_listens_on_its_own_machine_unless_it_is_told_where() -> None:
    config = Config.from_json5('{mode: "router"}')
    [[endpoint]] = NodeSettings.from_config(config, seeded(1)).listen
    assert str(endpoint) == "tcp/127.0.0.1:7447"
    config.insert_json5("listen/endpoints", '["tcp/[::]:7447"]')
    [[endpoint]] = NodeSettings.from_config(config, seeded(1)).listen
    assert str(endpoint) == "tcp/[::]:7447"
    weights = '[{dst_zid: "102", weight: 7}]'
    config.insert_json5("routing/router/linkstate/transport_weights", weights)
    made = NodeSettings.from_config(config, seeded(1))
    assert made.routing.weights == {b"\x02\x01": 7}
    assert made.timestamping


def test_strangers_cannot_make_it_dial_without_end() -> None:
    """T49: nodes that are not there cost no time, so their number at once is no bound."""
    limits = Limits(learned_dials_count=3, learned_dial_ns=SECOND)
    one = Driven.make(settings(1, by_scouting=EVERYBODY), limits)
    dialled = 0
    for zid in range(2, 12):
        dialled += len(one.hear(told(zid)))
    assert dialled == 3
    assert one.node.stats.refused() == {"learned": 7}
    one.now_ns += 2 * SECOND
    assert len(one.hear(*(told(zid) for zid in range(20, 30)))) == 2
