"""Routes of ROS services: queries become requests in DDS, requests become queries (D-666 to D-668).

Used by the DDS thread; queries and replies are brought there by `Bridge.post`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea.dds import ros_request
from elea.dds.port import (
    NO_ROOM,
    REFUSED,
    WRITTEN,
    DdsError,
    Endpoint,
    Mirror,
    Taken,
    Tier,
    TopicType,
)
from elea.dds.qos import (
    CDR1,
    CDR2,
    KEEP_ALL,
    Durability,
    MirrorLimits,
    Ownership,
    Qos,
    ReaderClass,
    Reliability,
    accepts_representation,
    mirror_reader,
    mirror_writer,
)
from elea.dds.representation import padded
from elea.dds.ros import service_topics, service_types
from elea.dds.ros_request import RequestId
from elea.dds.routes import Direction, Plan, RouteId
from elea.dds.state import State, StateCell
from elea.errors import EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.sample import Reply
from elea.session.cancellation import CancellationToken
from elea.session.handlers import Callback
from elea.session.matching import MatchingStatus
from elea.session.query import Query

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared

TAKE_COUNT: Final = 256
BACK_OFF_NS: Final = 1_000_000
BACK_OFF_NS_MAX: Final = 20_000_000
MATCH_NS: Final = 20_000_000  # between two looks whether the server has matched
REPLY_NS: Final = 5_000_000_000  # a reply waits so long for the reader of its client
LOOKUP_NS: Final = 100_000_000
_CYCLONE: Final = b"\x01\x10"  # what GUIDs of Cyclone DDS begin with
_CLASS: Final = ReaderClass(Reliability.RELIABLE, Durability.VOLATILE, Ownership.SHARED)
_READER: Final = Qos(reliability=Reliability.RELIABLE, depth=KEEP_ALL)


@dataclass(slots=True)
class _Pair:
    """The mirrors of a service: one reads, one writes."""

    reader: Mirror
    writer: Mirror
    reads: TopicType
    writes: TopicType
    version: int


class ServiceRoute(ABC):
    """What servers and clients of a service have in common: two mirrors and a line of samples.

    Args:
        bridge: Whose thread calls.
        key: On Zenoh.
        name: Of the service, without the first `/`.
        label: Its type, as ROS 2 writes it.
        direction: SERVICE_SRV faces servers of the domain, SERVICE_CLI clients.
    """

    def __init__(
        self, bridge: Bridge, key: str, name: str, label: str, direction: Direction
    ) -> None:
        faces_servers = direction is Direction.SERVICE_SRV
        topics, types = service_topics(name), service_types(label)
        self.name = name
        self.id = RouteId(direction, key, topics[0], "", label)
        self.plan = Plan(self.id, ())
        self.counts = bridge.new_counts()
        self.state = StateCell(self.id)
        self.end_ns: int | None = None
        self.made_ns = bridge.now_ns()
        self.announced: set[str] = set()  # tokens of other bridges
        self._bridge = bridge
        self._dds = bridge.dds
        self._writes = topics[not faces_servers], types[not faces_servers]
        self._reads = topics[faces_servers], types[faces_servers]
        self._pair: _Pair | None = None
        self._line: deque[tuple[bytes, RequestId]] = deque()
        self._back_off_ns = BACK_OFF_NS
        self._attempts = 0
        role = "clientid" if faces_servers else "serviceid"
        id_ = ros_request.service_id(bridge.dds.guid, bridge.next_service_id())
        self._user_data = f"{role}={id_};".encode()

    @property
    def mirrors(self) -> list[Mirror]:
        """The mirror reader and writer."""
        return [] if self._pair is None else [self._pair.reader, self._pair.writer]

    @property
    def tier(self) -> Tier | None:
        """How well the type of requests or replies is known."""
        return None if self._pair is None else self._pair.reads.tier

    @property
    @abstractmethod
    def pending_count(self) -> int:
        """Requests that wait for their reply."""

    @property
    def is_local(self) -> bool:
        """Whether a complete server or client is in the domain: it reads and writes."""
        return len({one.is_writer for one in self.plan.endpoints}) == 2

    @property
    def is_used(self) -> bool:
        """Whether there is a reason for the route."""
        return bool(self.plan.endpoints or self.announced)

    def update(self, plan: Plan) -> None:
        """Follow endpoints that came and went."""
        self.plan = plan

    def reconfigure(self) -> None:
        """Follow changed settings."""
        self._bridge.upkeep.touch(self)

    @abstractmethod
    def is_wanted(self) -> bool:
        """Whether there should be mirrors."""

    def maintain(self, now_ns: int) -> None:
        """Create, replace or delete the mirrors."""
        if self._bridge.is_standby or not self.is_wanted():
            self._drop_pair()
            standby = self._bridge.is_standby
            self.state.set(State.STANDBY if standby else State.WAITING, now_ns)
            return
        foreign = [one for one in self.plan.endpoints if one.guid[:2] != _CYCLONE]
        if foreign and len(foreign) == len(self.plan.endpoints):
            self._drop_pair()
            self.state.set(State.FAILED, now_ns, "request ids not visible")
            return
        reads = self._type(*self._reads, now_ns, is_writer=True)
        writes = self._type(*self._writes, now_ns, is_writer=False)
        if reads is None or writes is None:
            self.state.set(State.NO_TYPE, now_ns, "its type did not come yet")
            self._bridge.upkeep.touch_at(self, now_ns + LOOKUP_NS)
            return
        version = self._version()
        pair = self._pair
        if pair is None or (pair.reads, pair.writes, pair.version) != (reads, writes, version):
            try:
                self._make(reads, writes, version)
            except DdsError as error:
                self._attempts += 1
                next_ns = self._bridge.upkeep.retry_at(self, self._attempts, now_ns)
                self.state.set(State.FAILED, now_ns, str(error), next_ns)
                return
        self._attempts = 0
        self.state.set(State.ACTIVE, now_ns)
        self._bridge.upkeep.touch_at(self, now_ns)

    def _facing(self, *, is_writer: bool) -> tuple[Endpoint, ...]:
        return tuple(one for one in self.plan.endpoints if one.is_writer is is_writer)

    def _type(
        self, topic: str, type_name: str, now_ns: int, *, is_writer: bool
    ) -> TopicType | None:
        facing = self._facing(is_writer=is_writer)
        known = next((one for one in facing if one.type_hash), None)
        names = [one.type_name for one in facing] or [type_name]
        type_hash = b"" if known is None else known.type_hash
        name = names[0] if known is None else known.type_name
        id_ = RouteId(self.id.direction, self.id.key, topic, "", name, type_hash)
        return self._bridge.type_of(Plan(id_, facing), now_ns)

    def _version(self) -> int:
        readers = self._facing(is_writer=False)
        return CDR1 if all(accepts_representation(one.qos, CDR1) for one in readers) else CDR2

    def _make(self, reads: TopicType, writes: TopicType, version: int) -> None:
        bridge = self._bridge
        limits = MirrorLimits(bridge.limits.dds_reader_count, bridge.limits.dds_writer_count)
        reader_qos = mirror_reader(_CLASS, "", limits, user_data=self._user_data)
        facing = [one.qos for one in self._facing(is_writer=False)]
        writer_qos = mirror_writer(
            [_READER, *facing], "", version, limits, user_data=self._user_data
        )
        writer = self._dds.make_writer(self._writes[0], writes, writer_qos)
        try:
            reader = self._dds.make_reader(self._reads[0], reads, reader_qos)
        except DdsError:
            self._dds.delete(writer)
            raise
        self._drop_pair()
        self._pair = _Pair(reader, writer, reads, writes, version)
        bridge.mirror_qos[reader.handle] = reader_qos, reads
        bridge.mirror_qos[writer.handle] = writer_qos, writes
        bridge.routes_by_reader[reader.handle] = self
        bridge.mirrors_changed()

    def _drop_pair(self) -> None:
        pair, self._pair = self._pair, None
        if pair is None:
            return
        self._bridge.routes_by_reader.pop(pair.reader.handle, None)
        for mirror in (pair.reader, pair.writer):
            self._bridge.mirror_qos.pop(mirror.handle, None)
            self._dds.delete(mirror)
        self._bridge.mirrors_changed()

    def _is_matched(self) -> bool:
        """Whether both mirrors have matched an endpoint of the domain."""
        pair = self._pair
        return pair is not None and all(
            self._dds.unmatched(mirror, is_writer=is_writer).matched
            for mirror, is_writer in ((pair.reader, False), (pair.writer, True))
        )

    def close(self) -> None:
        """End the route."""
        self._drop_pair()
        self._line.clear()

    # Samples.

    def take(self, reader: int, now_ns: int) -> None:
        """Take one list of the mirror reader."""
        for taken in self._dds.take(reader, TAKE_COUNT):
            if not taken[1].valid_data:
                continue
            found = ros_request.from_dds(taken[0])
            if found is None:
                self.counts.lose("refused representation")
                continue
            self.counts.last_ns = now_ns
            self._took(*found, taken, now_ns)

    @abstractmethod
    def _took(self, id_: RequestId, payload: bytes, taken: Taken, now_ns: int) -> None:
        """A request or reply was taken."""

    @abstractmethod
    def _refused(self, id_: RequestId) -> None:
        """What was written is no value of the type."""

    def _send(self, sample: bytes, id_: RequestId) -> None:
        self._line.append((padded(sample), id_))
        self._bridge.upkeep.wake(self)

    def poll(self, now_ns: int) -> int | None:
        """Write what waits; returns when to call again."""
        pair = self._pair
        if pair is None:
            return None
        wall_ns = self._bridge.wall_ns()
        written = False
        while self._line:
            sample, id_ = self._line[0]
            is_safe = self._bridge.answers.schemas.is_safe(pair.writes, sample)
            code = self._dds.write(pair.writer.handle, sample, wall_ns) if is_safe else REFUSED
            if code == NO_ROOM:
                self._bridge.counts.no_room += 1
                break
            self._line.popleft()
            if code == WRITTEN:
                written = True
                self.counts.samples += 1
                self.counts.octets += len(sample)
            else:
                self.counts.lose("refused value")
                self._refused(id_)
        self._dds.flush(pair.writer.handle)
        if not self._line:
            self._back_off_ns = BACK_OFF_NS
            return None
        self._back_off_ns = BACK_OFF_NS if written else self._back_off_ns
        due_ns = now_ns + self._back_off_ns
        self._back_off_ns = min(2 * self._back_off_ns, BACK_OFF_NS_MAX)
        return due_ns


@dataclass(slots=True)
class _Asked:
    query: Query
    end_ns: int


class ServiceServer(ServiceRoute):
    """Serves Zenoh's queries by a server of the domain: a queryable on the key."""

    def __init__(self, bridge: Bridge, key: str, name: str, label: str) -> None:
        super().__init__(bridge, key, name, label, Direction.SERVICE_SRV)
        self._queryable: Declared | None = None
        self._asked: dict[bytes, _Asked] = {}
        self._number = 0
        self._timeout_ns = round(bridge.settings.service_timeout_s(f"/{name}") * 1e9)

    @property
    def pending_count(self) -> int:
        """Queries that wait for the server."""
        return len(self._asked)

    def is_wanted(self) -> bool:
        """Whether there is a server, or a client elsewhere."""
        return self.is_local or bool(self.announced)

    def update(self, plan: Plan) -> None:
        """Follow endpoints; queries of a server that went end with an error (D-668)."""
        super().update(plan)
        if not self.is_local:
            self._retire("the server is gone")

    def maintain(self, now_ns: int) -> None:
        """Keep the mirrors, and the queryable while there is a server."""
        super().maintain(now_ns)
        if self._pair is None:
            self._retire("the bridge has no mirror of the server")

    def poll(self, now_ns: int) -> int | None:
        """Write requests, end queries that took too long, and look for the server."""
        due_ns = super().poll(now_ns)
        while self._asked:
            id_, asked = next(iter(self._asked.items()))
            if now_ns < asked.end_ns:
                due_ns = min(due_ns or asked.end_ns, asked.end_ns)
                break
            del self._asked[id_]
            _fail(asked.query, "the server did not reply in time")
            self.counts.lose("no reply")
        if self._queryable is None and self.is_local and self._pair is not None:
            if not self._is_matched():
                return now_ns + MATCH_NS
            post = self._bridge.post
            handler = Callback[Query](
                lambda query: post(lambda now: self._ask(query, now)), indirect=False
            )
            self._queryable = self._bridge.session.declare_queryable(KeyExpr(self.id.key), handler)
        return due_ns

    def _ask(self, query: Query, now_ns: int) -> None:
        if self._queryable is None:
            _fail(query, "the server is gone")
            return
        if len(self._asked) >= self._bridge.limits.dds_queries_waiting_count:
            self.counts.lose("line full")
            _fail(query, "too many requests wait for the server")
            return
        payload = b"" if query.payload is None else query.payload.to_bytes()
        beside = None if query.attachment is None else query.attachment.to_bytes()
        id_ = None if beside is None else RequestId.read(beside)
        if id_ is None:
            self._number += 1
            handle = 0 if self._pair is None else self._dds.instance_of(self._pair.writer)
            id_ = RequestId.make(handle, self._number, is_little=ros_request.is_little(payload))
        sample = ros_request.to_dds(payload, id_)
        if sample is None or id_.data in self._asked:
            self.counts.lose("refused representation")
            _fail(query, "the request is not CDR 1, or its id is in use")
            return
        self._asked[id_.data] = _Asked(query, now_ns + self._timeout_ns)
        self._bridge.upkeep.touch_at(self, now_ns + self._timeout_ns)
        self._send(sample, id_)

    def _took(self, id_: RequestId, payload: bytes, _taken: Taken, _now_ns: int) -> None:
        asked = self._asked.pop(id_.data, None)
        if asked is None:
            return  # to another client of the server
        with asked.query:
            asked.query.reply(self.id.key, payload)
        self._bridge.counts.replies += 1

    def _refused(self, id_: RequestId) -> None:
        asked = self._asked.pop(id_.data, None)
        if asked is not None:
            _fail(asked.query, "the request is not a value of the service's type")

    def _retire(self, reason: str) -> None:
        queryable, self._queryable = self._queryable, None
        self._bridge.undeclare(queryable)
        asked = list(self._asked.values())
        self._asked.clear()
        self._line.clear()
        for one in asked:
            _fail(one.query, reason)

    def close(self) -> None:
        """End the route; queries that wait get an error."""
        self._retire("the bridge stops")
        super().close()


def _fail(query: Query, reason: str) -> None:
    with query:
        query.reply_err(reason)


@dataclass(slots=True)
class _Called:
    token: CancellationToken
    writer: int  # the client's, as samples name it


class ServiceClient(ServiceRoute):
    """Asks Zenoh's queryables for clients of the domain."""

    def __init__(self, bridge: Bridge, key: str, name: str, label: str) -> None:
        super().__init__(bridge, key, name, label, Direction.SERVICE_CLI)
        self._called: dict[bytes, _Called] = {}
        timeout_s = bridge.settings.service_timeout_s(f"/{name}")
        self._querier = bridge.session.declare_querier(KeyExpr(key), timeout=timeout_s)
        listener = Callback[MatchingStatus](lambda _status: bridge.post(self._look), indirect=False)
        self._matching = self._querier.declare_matching_listener(listener)
        self._is_served = self._querier.matching_status.matching
        self._held_ns: int | None = None  # since when replies wait for readers

    @property
    def pending_count(self) -> int:
        """Requests that wait for a reply from Zenoh."""
        return len(self._called)

    def is_wanted(self) -> bool:
        """Whether a server is elsewhere; one of the own domain serves its clients itself."""
        if self._bridge.services.has_server(self.id.key, self.id.type_name):
            return False
        return self._is_served or bool(self.announced)

    def _look(self, _now_ns: int) -> None:
        self._is_served = self._querier.matching_status.matching
        self._bridge.upkeep.touch(self)

    def poll(self, now_ns: int) -> int | None:
        """Write replies, once the clients can read them."""
        if self._line and not self._is_read(now_ns):
            return now_ns + MATCH_NS
        return super().poll(now_ns)

    def _is_read(self, now_ns: int) -> bool:
        """Whether the mirror knows a reader of each client, or had time to.

        A client asks when it knows the mirrors. These may know its writer, and not yet its reader.
        """
        pair = self._pair
        if pair is None:
            return True
        matched = self._dds.unmatched(pair.writer, is_writer=True).matched
        if len(matched) >= len(self._facing(is_writer=True)):
            self._held_ns = None
            return True
        if self._held_ns is None:
            self._held_ns = now_ns
        return now_ns - self._held_ns >= REPLY_NS

    def update(self, plan: Plan) -> None:
        """Follow endpoints; a client that went cancels its queries (D-668)."""
        super().update(plan)
        handles = {one.handle for one in plan.endpoints}
        for id_, called in list(self._called.items()):
            if called.writer not in handles:
                del self._called[id_]
                called.token.cancel()

    def _took(self, id_: RequestId, payload: bytes, taken: Taken, _now_ns: int) -> None:
        if len(self._called) >= self._bridge.limits.dds_queries_waiting_count:
            self.counts.lose("line full")
            return
        token = CancellationToken()
        self._called[id_.data] = _Called(token, taken[1].publication_handle)
        post = self._bridge.post
        replies: list[bytes] = []

        def receive(reply: Reply) -> None:
            if reply.ok is not None and not replies:
                replies.append(reply.ok.payload.to_bytes())
                post(lambda _now: self._reply(id_, replies[0]))

        def end() -> None:
            if not replies:
                post(lambda _now: self._unanswered(id_))

        self._bridge.counts.queries += 1
        try:
            self._querier.get(
                Callback(receive, end, indirect=False),
                payload=payload,
                attachment=id_.to_attachment(),
                cancellation_token=token,
            )
        except EleaError:
            self._unanswered(id_)

    def _reply(self, id_: RequestId, payload: bytes) -> None:
        if self._called.pop(id_.data, None) is None:
            return
        sample = ros_request.to_dds(payload, id_)
        if sample is None:
            self.counts.lose("refused representation")
        else:
            self._send(sample, id_)

    def _unanswered(self, id_: RequestId) -> None:
        """A client of ROS cannot be told of an error; its own timeout ends its wait."""
        if self._called.pop(id_.data, None) is not None:
            self.counts.lose("no reply")

    def _refused(self, id_: RequestId) -> None:
        """The reply is no value of its type: counted by `poll`."""

    def close(self) -> None:
        """End the route; queries are cancelled."""
        called = list(self._called.values())
        self._called.clear()
        for one in called:
            one.token.cancel()
        self._bridge.undeclare(self._matching, self._querier)
        super().close()
