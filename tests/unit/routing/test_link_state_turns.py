"""Link state of large networks, and floods of it: computed in bounded turns, now and then."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

import pytest
from tests.unit.routing.mesh import Mesh, Node

from elea.routing.linkstate import paths, routers, subtrees
from elea.routing.linkstate.network import Network, NetworkNode
from elea.routing.linkstate.routers import Routers
from elea.routing.linkstate.subtrees import Subtrees
from elea.routing.linkstate.trees import grow
from elea.routing.regions import CLIENT, ROUTER
from elea.routing.tables import Kind
from elea.routing.timers import Timers
from elea.wire.codec import NetworkMessage
from elea.wire.fields import QOS_DECLARE
from elea.wire.network import linkstate
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam

T = TypeVar("T")


def network_of(count: int, sn: int, own: bytes, seed: int) -> Oam:
    """Link state of `count` made-up routers with twenty links each, told by router `n`."""
    rng = random.Random(seed)
    links: dict[int, set[int]] = {number: set() for number in range(count + 1)}
    for number in links:
        for step in range(1, 11):
            other = (number + step * rng.choice((1, 1, 1, 7))) % (count + 1)
            if other != number:
                links[number].add(other)
                links[other].add(number)
    states = [LinkState(0, sn, b"n", 1, None, [count + 1, *sorted(links[0])])]
    states.append(LinkState(count + 1, 1, own))
    for number in range(1, count + 1):
        zid = number.to_bytes(4, "big") + b"zid"
        states.append(LinkState(number, sn, zid, 1, None, sorted(links[number])))
    return Oam(ID_LINKSTATE, LinkStateList(states), QOS_DECLARE)


def steps_of_turns(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each turn of the computations does that are due, until none is."""
    turns: list[int] = []

    def counted(steps: Callable[..., Generator[int, None, T]]) -> Callable[..., Any]:
        def work(*args: Any) -> Generator[int, None, T]:
            going = steps(*args)
            while True:
                try:
                    cost = next(going)
                except StopIteration as done:
                    found: T = done.value
                    return found
                turns[-1] += cost
                yield cost

        return work

    monkeypatch.setattr(routers, "survey", counted(paths.survey))
    monkeypatch.setattr(subtrees, "below", counted(subtrees.below))
    fire = node.routing.handle_timer

    def handle_timer() -> None:
        due_ns = node.routing.next_timer_ns()
        assert due_ns is not None
        node.mesh.now_ns = max(node.mesh.now_ns, due_ns)
        turns.append(0)
        fire(node.mesh.now_ns)

    while node.routing.next_timer_ns() is not None:
        handle_timer()
    return turns


def test_a_large_network_is_computed_in_bounded_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message of 16 kB cost seconds in one turn."""
    node = Mesh().node("r", "router")
    teller, _ = node.neighbour(ROUTER, zid=b"n"), node.neighbour(ROUTER, zid=b"o")
    node.mesh.pump()
    teller.say(network_of(300, 2, node.zid, seed=1))
    turns = steps_of_turns(node, monkeypatch)
    assert len(turns) > 10
    assert max(turns) < 2_500  # the last step may be one more
    network = node.routing.network
    assert network is not None
    tree = grow(network._paths.edges, b"n", network.own.zid)
    assert network.parent(b"n") is node.routing.tables.faces[teller.face_id]
    assert [face.spec.zid for face in network.children(b"n")] == tree.children


def test_a_flood_of_link_state_is_computed_now_and_then() -> None:
    node = Mesh().node("r", "router")
    teller, _ = node.neighbour(ROUTER, zid=b"n"), node.neighbour(ROUTER, zid=b"o")
    node.mesh.pump()
    network = node.routing.network
    assert network is not None
    began: list[int] = []
    begin = network.on_trees
    assert begin is not None

    def regrown(now_ns: int) -> None:
        began.append(now_ns)
        begin(now_ns)

    network.on_trees = regrown
    for sn in range(2, 60):
        teller.say(network_of(100, sn, node.zid, seed=sn))
        assert node.routing.debts.pop(teller.face_id) >= 5_000_000  # and it is read again later
        node.mesh.now_ns += 10_000_000
        while (due_ns := node.routing.next_timer_ns()) is not None and due_ns <= node.mesh.now_ns:
            node.routing.handle_timer(node.mesh.now_ns)
            node.mesh.now_ns += 1
    assert 1 <= len(began) <= 6  # 58 messages in 0.58 seconds


def test_what_one_router_tells_is_made_once_for_all_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of twenty routers was told by records of its own: 119 ms in one turn."""
    node = Mesh().node("r", "router")
    teller = node.neighbour(ROUTER, zid=b"n")
    others = [node.neighbour(ROUTER, zid=b"o%d" % number) for number in range(20)]
    node.mesh.pump()
    for one in others:
        one.heard()
    made: list[bytes] = []
    packed: list[int] = []
    record, pack = Network._record, linkstate._packed

    def counted(network: Network, one: NetworkNode, *, zid: bool) -> LinkState:
        made.append(one.zid)
        return record(network, one, zid=zid)

    def counted_pack(states: Iterable[LinkState]) -> bytes:
        packed.append(1)
        return pack(states)

    monkeypatch.setattr(Network, "_record", counted)
    monkeypatch.setattr(linkstate, "_packed", counted_pack)
    output = node.routing._context.output
    said: list[LinkStateList] = []
    send = output.send

    def sent(face_id: int, message: NetworkMessage, reliable: bool) -> int:
        if isinstance(message, Oam) and isinstance(message.body, LinkStateList):
            said.append(message.body)
            linkstate.to_bytes(message.body)
        return send(face_id, message, reliable)

    monkeypatch.setattr(output, "send", sent)
    teller.say(network_of(100, 2, node.zid, seed=1))
    assert len(made) < 110
    assert len(said) >= 20
    assert len(packed) <= 3


def test_a_new_router_is_told_everything_in_bounded_turns() -> None:
    """Whoever connected as a router was told of all declarations in one turn."""
    node = Mesh().node("r", "router")
    client = node.neighbour(CLIENT, zid=b"c")
    for number in range(1_000):
        client.subscriber(f"key/{number}")
    router = node.neighbour(ROUTER, zid=b"n")
    router.say(
        Oam(
            ID_LINKSTATE,
            LinkStateList([LinkState(0, 2, b"n", 1, None, [1]), LinkState(1, 1, node.zid)]),
            QOS_DECLARE,
        )
    )
    router.heard()
    told: list[str] = []
    turns: list[int] = []
    while (due_ns := node.routing.next_timer_ns()) is not None:
        node.mesh.now_ns = max(node.mesh.now_ns, due_ns)
        node.routing.handle_timer(node.mesh.now_ns)
        words = [word for word in router.heard() if word.startswith("D_SUBSCRIBER")]
        turns.append(len(words))
        told += words
        if len(turns) == 2:  # what changes meanwhile is told as it is
            client.subscriber("late")
            told += [word for word in router.heard() if word.startswith("D_SUBSCRIBER")]
    assert len(told) == len(set(told)) == 1_001
    assert max(turns) <= 256
    router.close()
    assert node.routing.flooding is not None
    assert not node.routing.flooding._telling


def test_what_is_taken_back_while_a_router_is_told_is_not_told() -> None:
    node = Mesh().node("r", "router")
    client = node.neighbour(CLIENT, zid=b"c")
    numbers = [client.subscriber(f"key/{number}") for number in range(600)]
    far = node.mesh.node("f", "router")
    node.mesh.connect(node, far)
    for number in numbers[:-1]:
        client.no_subscriber(number)
    node.mesh.wait(5)
    assert node.routing.flooding is not None
    assert list(node.routing.flooding.told(_face_id(node, b"f"), node.zid)) == [
        (Kind.SUBSCRIBER, "key/599")
    ]
    assert [entry.key for entry in far.routing.tables.intersecting(Kind.SUBSCRIBER, None)] == [
        "key/599"
    ]


def _face_id(node: Node, zid: bytes) -> int:
    [face] = [one for one in node.routing.tables.faces.values() if one.spec.zid == zid]
    return face.id


def test_a_few_links_cost_no_rest() -> None:
    node = Mesh().node("r", "router")
    teller = node.neighbour(ROUTER, zid=b"n")
    teller.say(network_of(20, 2, node.zid, seed=1))
    assert node.routing.debts == {}


def between(count: int) -> tuple[Node, Routers, list[bytes]]:
    """A router between a large network and router `far`, behind `o`; with the made-up routers."""
    node = Mesh().node("r", "router")
    teller, other = node.neighbour(ROUTER, zid=b"n"), node.neighbour(ROUTER, zid=b"o")
    node.mesh.pump()
    teller.say(network_of(count, 2, node.zid, seed=1))
    states = [LinkState(0, 2, b"o", 1, None, [1, 2]), LinkState(1, 1, node.zid)]
    states.append(LinkState(2, 1, b"far", 1, None, [0]))
    other.say(Oam(ID_LINKSTATE, LinkStateList(states), QOS_DECLARE))
    node.mesh.wait(30)
    network = node.routing.network
    assert network is not None
    return node, network, [zid for zid in network.nodes if zid.endswith(b"zid")]


def test_the_trees_of_a_large_network_are_searched_in_bounded_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One message of each of 2,048 made-up routers cost 8 to 29 ms in one turn."""
    node, network, sources = between(300)
    for source in sources[:5]:
        face = network.hop(source, b"far")
        assert face is not None  # at once, whatever a search will tell
        assert face.spec.zid == b"o"
        assert not network.is_certain(source, b"far")
    turns = steps_of_turns(node, monkeypatch)
    assert sum(turns) > 5 * 300 * 20
    assert max(turns) < 2_500  # the links of one router may be one step more
    for source in sources[:5]:
        tree = grow(network.edges, source, network.own.zid)
        assert network.is_certain(source, b"far")
        for target in (b"far", b"n", *sources):
            face = network.hop(source, target)
            assert (None if face is None else face.spec.zid) == tree.hops.get(target)


def test_a_search_that_is_done_makes_routes_exact() -> None:
    node, network, sources = between(300)
    cache = node.routing.tables.root_cache("north", sources[0])
    cache.samples["a"] = []
    network.hop(sources[0], b"far")
    node.mesh.wait(5)
    assert network.is_certain(sources[0], b"far")
    assert cache.samples == {}


def test_the_tree_of_a_small_network_is_known_at_once() -> None:
    _, network, sources = between(20)
    assert network.is_certain(sources[0], b"far")


def test_trees_are_searched_at_once_for_one_turn_in_all() -> None:
    """Many sources of a network that is not large cost no more than one large one."""
    _, network, sources = between(60)
    certain = [network.is_certain(source, b"far") for source in sources]
    assert 0 < certain.count(True) < len(sources)


def test_a_tree_takes_a_bit_for_each_router() -> None:
    """2,048 sources with 1,024 routers below each would be two million entries."""
    edges: dict[bytes, dict[bytes, float]] = {
        bytes([a, b]): {} for a in range(8) for b in range(256)
    }
    assert len(edges) == 2_048
    zids = list(edges)
    for one, other in itertools.pairwise(zids):
        edges[one][other] = edges[other][one] = 1.0
    timers = Timers()
    trees = Subtrees(zids[1_024], timers, lambda _root: None)
    trees.reset(edges)
    for root in zids[:16]:
        assert trees.contains(root, zids[-1], 0) is None
    while (due_ns := timers.next_ns()) is not None:
        timers.fire(due_ns)
    for root in zids[:16]:
        assert trees.contains(root, zids[-1], 0) is True
        assert trees.contains(root, zids[0], 0) is False
    assert sum(map(sys.getsizeof, trees._found.values())) < 16 * 400


@pytest.mark.parametrize("seed", range(30))
def test_nobody_gets_a_sample_twice_or_misses_it_while_trees_are_searched(seed: int) -> None:
    """Every router forwards as `hop` does while it does not know who lies below its children."""
    rng = random.Random(seed)
    zids = [rng.randbytes(4) for _ in range(rng.choice((3, 6, 12, 25)))]
    links: dict[bytes, dict[bytes, int]] = {zid: {} for zid in zids}
    for a, b in itertools.combinations(zids, 2):
        if rng.random() < 0.3:
            links[a][b] = links[b][a] = rng.choice((0, 10, 300))
    seen = {zid: surveyed(links, zid) for zid in zids}
    root = zids[0]
    wanting = [zid for zid in seen[root].hops if rng.random() < 0.4]
    got: Counter[bytes] = Counter()
    going = [root]
    while going:
        own = going.pop()
        got[own] += 1
        found = seen[own]
        hops = {found.hops[target] for target in wanting if target != own}
        going += [one for one in hops if own == root or root in found.through[one]]
    assert max(got.values()) == 1
    assert set(wanting) <= set(got)


def surveyed(links: dict[bytes, dict[bytes, int]], own: bytes) -> paths.Paths:
    steps = paths.survey(links, own, paths.Paths())
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: paths.Paths = done.value
            return found
