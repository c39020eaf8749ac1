"""Laws over a world at rest: what must be true some time after the last fault.

The oracle here knows sessions and the graph of neighbours, and nothing of routing: a flat list of
who declared what, compared with every key. It is slow and easy to believe.
"""

from __future__ import annotations

from collections.abc import Sequence

from elea.answers import SENT
from elea.ids import WhatAmI
from elea.keyexpr.match import intersects
from elea.node.node import Node
from elea.routing.core import Routing
from elea.routing.face import Face
from elea.routing.regions import ROUTERS
from elea.routing.tables import ABSENT, Entry, Kind, distance_of, is_complete, merge_info
from elea.sim.campaign.workload import KEYS, AnyActor
from elea.sim.world import World
from elea.wire.codec import NetworkMessage
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import OPTION_AGGREGATE, Interest, InterestMode

Told = dict[tuple[Kind, int], tuple[str, int]]


class Graph:
    """Who is connected to whom, and how far samples go (behaviour.md 5.4)."""

    def __init__(self, world: World) -> None:
        self._names = {driver.node.zid: name for name, driver in world.nodes.items()}
        self._near = {
            name: {self._names.get(one.zid, "?") for one in driver.node.neighbours()}
            for name, driver in world.nodes.items()
        }
        roles = {name: driver.node.whatami for name, driver in world.nodes.items()}
        self._clients = {name for name, role in roles.items() if role is WhatAmI.CLIENT}
        self._routers = {name for name, role in roles.items() if role is WhatAmI.ROUTER}
        settings = {name: driver.node.settings for name, driver in world.nodes.items()}
        self._regions = {name: one.offered.region_name for name, one in settings.items()}
        if self._routers:
            self._networks = {name: self._network(name) for name in self._routers}

    def reaches(self, one: str, other: str) -> bool:
        """Whether what a session at `one` declares or publishes is for sessions at `other`.

        Clients are where their peers are; peers hand nothing from one peer to another.
        """
        if self._routers:
            return self._routed(one, other)
        return any(
            here == there or there in self._near.get(here, ())
            for here in self._homes(one)
            for there in self._homes(other)
        )

    def _routed(self, one: str, other: str) -> bool:
        """Between routers samples go everywhere; peers of one region of one are not bridged."""
        if one == other:
            return True
        here, there = (
            {name} if name in self._routers else self._near[name] for name in (one, other)
        )
        both_peers = not {one, other} & (self._clients | self._routers)
        both_peers = both_peers and self._regions[one] == self._regions[other]
        return any(
            far in self._networks.get(near, ()) and not (both_peers and near == far)
            for near in here
            for far in there
        )

    def _network(self, name: str) -> set[str]:
        """The routers that a router is connected to, over any number of links."""
        found, waiting = {name}, [name]
        while waiting:
            for near in self._near[waiting.pop()] & self._routers - found:
                found.add(near)
                waiting.append(near)
        return found

    def _homes(self, name: str) -> set[str]:
        """A peer is at home with itself; a client with its peer, or alone without one."""
        if name not in self._clients:
            return {name}
        return self._near[name] or {name}


def all_are_connected(world: World) -> list[str]:
    """Every configured link is there, from both ends, and none to a node that is not."""
    broken = []
    zids = {driver.node.zid for driver in world.nodes.values()}
    for driver in world.nodes.values():
        for neighbour in driver.node.neighbours():
            if neighbour.zid not in zids:
                broken.append(f"{driver.name} is connected to {neighbour.zid.hex()}, a dead node")
        for group in driver.node.settings.connect:
            for far in world.nodes.values():
                if far.listens_on(group[0]):
                    if driver.node.face_of(far.node.zid) is None:
                        broken.append(f"{driver.name} is not connected to {far.name}")
                    if far.node.face_of(driver.node.zid) is None:
                        broken.append(f"{far.name} is not connected to {driver.name}")
    return broken


def nothing_is_under_way(world: World) -> list[str]:
    """Every process runs and every dead link is known to be dead; no message waits for room, no
    query is open, every neighbour has told its first state.
    """
    broken = [f"{one.name} stands still" for one in world.nodes.values() if not one.running]
    broken += [
        f"{end.node} believes in a dead link"
        for pipe in world.network.pipes
        for end in pipe.ends
        if end.open and (pipe.dead or not pipe.other(end).open)
    ]
    broken += [
        f"{end.node} does not read"
        for pipe in world.network.pipes
        for end in pipe.ends
        if end.open and (end.held or end.unread)
    ]
    for driver in world.nodes.values():
        node = driver.node
        if node.is_congested():
            broken.append(f"{driver.name}: messages wait for room")
        if not node.routing.is_quiet():
            broken.append(f"{driver.name}: queries or interests are open")
        for neighbour in node.neighbours():
            face_id = node.face_of(neighbour.zid)
            assert face_id is not None
            mutual = node.routing.tables.faces[face_id].is_mutual  # no other says that it has
            if mutual and not node.routing.is_ready(face_id):
                broken.append(f"{driver.name}: {neighbour.zid.hex()} has not told its first state")
    return broken


def no_number_is_missing(world: World) -> list[str]:
    """I5: a stream brings every sequence number, as long as it lives."""
    return [
        f"{driver.name}: {stats.missed_numbers} numbers of {neighbour.zid.hex()} never came"
        for driver in world.nodes.values()
        for neighbour in driver.node.neighbours()
        if neighbour.info.stream
        for stats in [driver.node.transport_stats()[neighbour.zid]]
        if stats.missed_numbers
    ]


def neighbours_agree(world: World) -> list[str]:
    """I6: what a node told its neighbour is what that neighbour remembers of it, aliases too."""
    broken = []
    nodes = {driver.node.zid: driver.node for driver in world.nodes.values()}
    for driver in world.nodes.values():
        for neighbour in driver.node.neighbours():
            far = nodes.get(neighbour.zid)
            if far is not None and far.face_of(driver.node.zid) is not None:
                broken += [f"{driver.name}: {one}" for one in _compare(driver.node, far)]
            else:
                broken.append(f"{driver.name}: neighbour {neighbour.zid.hex()} is not there")
    return broken


def _compare(near: Node, far: Node) -> list[str]:
    near_face = _face(near, far.zid)
    far_face = _face(far, near.zid)
    told = _told(near.routing, near_face)
    remembered = _remembered(far.routing, far_face)
    if far_face.spec.gateway:
        # Who asked may have forgotten what it was told, with its interest; nobody says so to the
        # other, and asked again for the future alone, the other does not repeat it.
        told = {
            name: one
            for name, one in told.items()
            if name in remembered or far.routing.has_asked(far_face.id, name[0], one[0])
        }
    broken = []
    if told != remembered:
        broken.append(f"told {near_face.spec.zid.hex()} {told}, which remembers {remembered}")
    floods, hears = near.routing.flooding, far.routing.flooding
    if floods is not None and hears is not None and near.routing.network is not None:
        for root in near.routing.network.nodes:
            said, heard = floods.told(near_face.id, root), hears.heard(far_face.id, root)
            if said != heard and root != far.zid:
                broken.append(f"told of {root.hex()} {said}, which remembers {heard}")
    if near_face.aliases.own != far_face.aliases.peer:
        broken.append(f"aliases {near_face.aliases.own}, understood {far_face.aliases.peer}")
    return broken


def _face(node: Node, zid: bytes) -> Face:
    face_id = node.face_of(zid)
    assert face_id is not None
    return node.routing.tables.faces[face_id]


def _told(routing: Routing, face: Face) -> Told:
    found: Told = {}
    for kind in Kind:
        for key in face.told[kind]:
            entry = routing.tables.get(kind, key)
            assert entry is not None
            one = entry.told[face.id]
            found[kind, one.id] = (key, one.info)
    return found


def _remembered(routing: Routing, face: Face) -> Told:
    found: Told = {}
    for kind in Kind:
        for name, key in face.remote[kind].items():
            entry = routing.tables.get(kind, key)
            assert entry is not None
            assert isinstance(name, int)
            owner = entry.owner(face)
            assert owner is not None
            found[kind, name] = (key, owner.infos[name])
    return found


class _Recorder:
    """The output of a node that is computed from scratch: it only remembers what it asked for."""

    def __init__(self) -> None:
        self.interests: list[tuple[int, int]] = []

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        if isinstance(message, Interest) and message.mode & InterestMode.CURRENT:
            self.interests.append((face_id, message.id))
        return SENT


def tables_equal_fresh_ones(world: World) -> list[str]:
    """I6: each node's tables, routes and cached routes equal those of a fresh node.

    The fresh node has the same faces and is told the same declarations and interests, at once.
    """
    broken = []
    for driver in world.nodes.values():
        routing = driver.node.routing
        if routing.network is not None:
            continue  # see `routers_agree`
        fresh = _fresh(routing)
        for face in routing.tables.faces.values():
            twin = fresh.tables.faces[face.id]
            for key in KEYS:
                real, ideal = (one.destinations(face.id, key) for one in (routing, fresh))
                if real != ideal:
                    broken.append(
                        f"{driver.name}: {key} from {face.id} goes to {real}, not {ideal}"
                    )
            known = {(name[0], *one) for name, one in _told(routing, face).items()}
            ideal_known = {(name[0], *one) for name, one in _told(fresh, twin).items()}
            # Others than north faces are told what they asked for, which may be the future alone,
            # and what they were told stays told while it is true.
            missing = ideal_known - known if face.is_north else set()
            stale = {
                one
                for one in known - ideal_known
                if face.is_north or not _is_true(routing, one, face)
            }
            if missing or stale:
                broken.append(f"{driver.name}: face {face.id} lacks {missing}, has {stale}")
        for name, cache in routing.tables.caches.items():
            for key, route in cache.samples.items():
                probe = next(
                    (one for one in routing.tables.faces.values() if one.region.name == name), None
                )
                if probe is None:
                    continue
                ids = [one.face_id for one in route if one.face_id != probe.id]
                if ids != routing.destinations(probe.id, key):
                    broken.append(f"{driver.name}: the cached route of {key} from {name} is old")
    return broken


def routers_agree(world: World) -> list[str]:
    """I6: every router knows all routers it is linked to, and exactly what each of them has."""
    graph = Graph(world)
    routers = {
        name: driver.node.routing
        for name, driver in world.nodes.items()
        if driver.node.routing.network is not None
    }
    owned = {name: _owned(routing) for name, routing in routers.items()}
    broken = []
    for name, routing in routers.items():
        there = {other for other in routers if other != name and graph.reaches(name, other)}
        network = routing.network
        assert network is not None
        ideal = {routing.zid, *(routers[other].zid for other in there)}
        if set(network.nodes) != ideal:
            broken.append(f"{name} knows routers {sorted(network.nodes)}, not {sorted(ideal)}")
        learnt = _learnt(routing)
        for other in sorted(there):
            real = learnt.pop(routers[other].zid, {})
            if real != owned[other]:
                broken.append(f"{name} knows of {other} {real}, which has {owned[other]}")
        if learnt:
            broken.append(f"{name} remembers routers that are gone: {learnt}")
    return broken


def _owned(routing: Routing) -> dict[tuple[Kind, str], int]:
    """What a router has, of its own and of what is below it."""
    found: dict[tuple[Kind, str], int] = {}
    for kind in Kind:
        for entry in routing.tables.intersecting(kind, None):
            info = ABSENT
            for region, group in entry.owners.items():
                if region != ROUTERS.name:
                    for owner in group.values():
                        info = merge_info(info, owner.info)
            if info != ABSENT:
                found[kind, entry.key] = info
    return found


def _learnt(routing: Routing) -> dict[bytes, dict[tuple[Kind, str], int]]:
    """What a router believes that others have."""
    found: dict[bytes, dict[tuple[Kind, str], int]] = {}
    for kind in Kind:
        for entry in routing.tables.intersecting(kind, None):
            for owner in entry.owners.get(ROUTERS.name, {}).values():
                found.setdefault(owner.face.spec.zid, {})[kind, entry.key] = owner.info
    return found


def _is_true(routing: Routing, one: tuple[Kind, str, int], face: Face) -> bool:
    entry = routing.tables.get(one[0], one[1])
    return entry is not None and routing.tables.view(entry, face) == one[2]


def _fresh(routing: Routing) -> Routing:
    """A routing core that never saw anything but the present."""
    output = _Recorder()
    fresh = Routing(routing.zid, routing.role, output)
    faces = list(routing.tables.faces.values())
    for face in sorted(faces, key=lambda one: one.is_north):
        fresh.open_face(face.id, face.spec, 0)
        for registered in routing.registered(face.id):
            demand = registered.demand
            options = demand.options | (OPTION_AGGREGATE if registered.aggregates else 0)
            wire = None if demand.key is None else WireExpr(0, demand.key)
            fresh.receive(
                face.id,
                Interest(registered.id, InterestMode.CURRENT_FUTURE, options, wire),
                True,
                0,
            )
        for kind in Kind:
            for name, key in face.remote[kind].items():
                entry = routing.tables.get(kind, key)
                assert entry is not None
                assert isinstance(name, int)
                fresh.receive(face.id, Declare(_declaration(entry, face, name)), True, 0)
        if face.is_mutual:
            fresh.receive(face.id, Declare(DeclareFinal(), 0), True, 0)
    for face_id, interest_id in output.interests:
        fresh.receive(face_id, Declare(DeclareFinal(), interest_id), True, 0)
    return fresh


def _declaration(entry: Entry, face: Face, name: int) -> Declaration:
    wire = WireExpr(0, entry.key)
    if entry.kind is Kind.SUBSCRIBER:
        return DeclareSubscriber(name, wire)
    if entry.kind is Kind.TOKEN:
        return DeclareToken(name, wire)
    owner = entry.owner(face)
    assert owner is not None
    info = owner.infos[name]
    return DeclareQueryable(name, wire, is_complete(info), distance_of(info))


def sessions_know_the_truth(world: World, actors: Sequence[AnyActor]) -> list[str]:
    """I6, I11: what sessions are told of others is what others have: no more, and all they asked.

    A token is alive for whoever watches if and only if somebody within reach has it; a publisher
    or querier of a session matches if and only if somebody within reach listens.
    """
    graph = Graph(world)
    broken = []
    for actor in actors:
        for kind in Kind:
            truth = {
                key
                for other in actors
                if (other is not actor or kind is Kind.TOKEN)
                and graph.reaches(other.driver.name, actor.driver.name)
                for (of, _), key in other.entities.items()
                if of is kind
            }
            broken += [f"session {actor.number}: {one}" for one in actor.mistakes(kind, truth)]
    return broken


def expected_at(
    actors: Sequence[AnyActor], graph: Graph, source: AnyActor, kind: Kind, key: str
) -> set[int]:
    """The sessions that a sample, or a query to all, from `source` on `key` must come to."""
    return {
        actor.number
        for actor in actors
        if actor is not source
        and graph.reaches(source.driver.name, actor.driver.name)
        and any(of is kind and intersects(key, has) for (of, _), has in actor.entities.items())
    }


def all_is_forgotten(world: World) -> list[str]:
    """I8: when all sessions have left and all nodes are closed, nothing is left anywhere."""
    broken = [
        f"{driver.name} still holds something: {_leftovers(driver.node)}"
        for driver in world.nodes.values()
        if not driver.node.is_empty() or driver.links_count
    ]
    if any(pipe.stream for pipe in world.network.pipes):
        broken.append(f"{len(world.network.pipes)} links are left")
    return broken


def _leftovers(node: Node) -> str:
    routing = node.routing
    return (
        f"neighbours {len(node.neighbours())}, faces {len(routing.tables.faces)}, entries"
        f" {routing.tables.count()}, timer {node.next_timer_ns()}, quiet {routing.is_quiet()}"
    )
