"""PUSH on its way: from a face and a key to the faces that want it, by one look-up.

A route is the list of destinations for a key and the region it comes from, each with the key in the
form that face understands. Routes are computed by `pubsub` when they are first needed and forgotten
when any table changes; a key that has a route has been validated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from elea.routing.effects import Output
from elea.wire.buffer import OCTETS, Writer
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push
from elea.wire.network.push import encode as encode_push

if TYPE_CHECKING:
    from mypy_extensions import i64

_EMPTY_BODY_LEN: Final = 2  # the header of a PUT and the length of no payload


class Destination:
    """One face of a route. `plain`: the key is its own text, and no router is named.

    `node_id` names the router that the message entered the network at; 0 where nobody asks.
    """

    __slots__ = ("_body_header", "_head", "_qos", "face_id", "key", "node_id", "plain")

    def __init__(self, face_id: int, key: WireExpr, node_id: int = 0) -> None:
        self.face_id = face_id
        self.key = key
        self.node_id = node_id
        self.plain = key.scope == 0 and node_id == 0
        self._head = b""
        self._qos: i64 = -1
        self._body_header: i64 = -1

    def head(self, qos: i64, body_header: i64) -> bytes:
        """What stands before such a sample's timestamp: a PUSH up to the header of its PUT."""
        if qos != self._qos or body_header != self._body_header:
            writer = Writer()
            encode_push(writer, Push(self.key, Put(b""), qos, None, self.node_id))
            self._head = writer.to_bytes()[:-_EMPTY_BODY_LEN] + OCTETS[body_header]
            self._qos = qos
            self._body_header = body_header
        return self._head


class RouteCache:
    """The routes of messages that come from one region, and entered the network at one router."""

    __slots__ = ("generation", "north", "queries", "region", "root", "samples")

    def __init__(self, region: str, root: bytes = b"") -> None:
        self.region = region
        self.root = root  # the router where they entered; of no matter to other nodes
        self.north = True  # whether they go to other routers
        self.generation = 0  # changes whenever routes may have
        self.samples: dict[str, list[Destination]] = {}
        self.queries: dict[tuple[str, int], list[Destination]] = {}

    def clear(self) -> None:
        """The tables changed."""
        self.generation += 1
        if len(self.samples) > 0:
            self.samples.clear()
        if len(self.queries) > 0:
            self.queries.clear()


class PushSource:
    """Where samples come from: a face, its aliases and the routes of its region."""

    __slots__ = ("cache", "face_id", "own", "peer", "routes")

    def __init__(
        self,
        face_id: int,
        cache: RouteCache,
        peer: dict[int, str],
        own: dict[int, str],
        routes: Callable[[int], RouteCache | None] | None = None,
    ) -> None:
        self.face_id = face_id
        self.cache = cache
        self.routes = routes  # of a router: what it means by a NodeId
        self.peer = peer  # the neighbour's aliases
        self.own = own  # ours towards it


class PushRouter:
    """Routes samples. `unknown_*` and `unwanted` count what went nowhere."""

    __slots__ = (
        "_compute",
        "_output",
        "refused",
        "sources",
        "stamp",
        "unknown_face",
        "unknown_node",
        "unknown_scope",
        "unwanted",
    )

    def __init__(
        self, output: Output, compute: Callable[[RouteCache, str], list[Destination] | None]
    ) -> None:
        self._output = output
        self._compute = compute
        self.sources: dict[int, PushSource] = {}
        self.stamp: Callable[[Push], Push | None] | None = None  # timestamps of what is forwarded
        self.refused = 0  # by that
        self.unknown_face = 0
        self.unknown_node = 0
        self.unknown_scope = 0
        self.unwanted = 0

    def push(self, face_id: int, key: str, push: Push, reliable: bool) -> int:
        """Route a sample whose key is `key`; the worst answer of the outputs it went to."""
        source = self.sources.get(face_id)
        if source is None:
            self.unknown_face += 1
            return 0
        return self._route(source, source.cache, key, push, reliable)

    def receive(self, face_id: int, push: Push, reliable: bool) -> int:
        """As `push`, for a sample whose key is as it stood on the wire."""
        source = self.sources.get(face_id)
        if source is None:
            self.unknown_face += 1
            return 0
        wire = push.key
        cache = source.cache
        if push.node_id != 0 and source.routes is not None:
            found = source.routes(push.node_id)
            if found is None:
                self.unknown_node += 1
                return 0
            cache = found
        if wire.scope == 0:
            return self._route(source, cache, wire.suffix, push, reliable)
        head = (source.peer if wire.sender else source.own).get(wire.scope)
        if head is None:
            self.unknown_scope += 1
            return 0
        # Without a suffix the text is the alias's own object, whose hash is known already.
        key = head + wire.suffix if wire.suffix else head
        return self._route(source, cache, key, push, reliable)

    def audience(self, face_id: int, key: str) -> list[int]:
        """The faces that a sample from `face_id` on `key` goes to."""
        source = self.sources.get(face_id)
        if source is None:
            return []
        route = source.cache.samples.get(key)
        if route is None:
            route = self._compute(source.cache, key)
        return [one.face_id for one in route or [] if one.face_id != face_id]

    def _route(
        self, source: PushSource, cache: RouteCache, key: str, push: Push, reliable: bool
    ) -> int:
        route = cache.samples.get(key)
        if route is None:
            route = self._compute(cache, key)
            if route is None:
                return 0
        if self.stamp is not None and len(route) > 0:
            stamped = self.stamp(push)
            if stamped is None:
                self.refused += 1
                return 0
            push = stamped
        # A sample whose own key is plain text can be shared by all who get plain text.
        plain: Push | None = push if push.key.scope == 0 and push.node_id == 0 else None
        worst = 0
        taken = False
        face_id = source.face_id
        for destination in route:
            if destination.face_id == face_id:
                continue
            taken = True
            if destination.plain and plain is not None:
                message = plain
            else:
                message = Push(
                    destination.key,
                    push.body,
                    push.qos,
                    push.timestamp,
                    destination.node_id,
                    push.ts_stack,
                    push.extras,
                )
                if destination.plain:
                    plain = message
            answer = self._output.send(destination.face_id, message, reliable)
            if answer > worst:
                worst = answer
        if not taken:
            self.unwanted += 1
        return worst
