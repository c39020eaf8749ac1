"""The ROS graph of a domain: nodes as they tell of themselves, and the bridge as one of them.

Every ROS 2 process writes which nodes it has, and their endpoints, to `ros_discovery_info`
(D-669). Owned by the DDS thread.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea.dds.port import DdsError, Endpoint, Mirror, Tier, TopicType
from elea.dds.qos import (
    CDR1,
    Durability,
    MirrorLimits,
    Ownership,
    Qos,
    ReaderClass,
    Reliability,
    mirror_reader,
    mirror_writer,
)
from elea.dds.representation import padded
from elea.dds.ros import DISCOVERY_TOPIC
from elea.dds.routes import Direction, Plan, RouteId
from elea.dds.state import StateCell

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge

TYPE: Final = "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_"
NODE: Final = "elea_bridge"
PERIOD_NS: Final = 100_000_000
GID_LEN: Final = 16
OLD_GID_LEN: Final = 24  # before ROS 2 Iron
_FIRST_NEW: Final = "i"  # of Iron: distributions are named in the order of the alphabet
_NODES_COUNT_MAX: Final = 4_096
_GIDS_COUNT_MAX: Final = 65_536
_TAKE_COUNT: Final = 64
_CLASS: Final = ReaderClass(Reliability.RELIABLE, Durability.TRANSIENT_LOCAL, Ownership.SHARED)
_ASKED: Final = Qos(reliability=Reliability.RELIABLE, durability=Durability.TRANSIENT_LOCAL)
_WRITERS: Final = (0x02, 0x03)  # last bytes of the GUIDs of writers


@dataclass(frozen=True, slots=True)
class Node:
    """A ROS node, with the GUIDs of its endpoints."""

    namespace: str
    name: str
    readers: tuple[bytes, ...] = ()
    writers: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ParticipantNodes:
    """The nodes of one participant: a message of `ros_discovery_info`."""

    guid: bytes
    nodes: tuple[Node, ...]

    def to_bytes(self, gid_len: int = GID_LEN) -> bytes:
        """Return the message in CDR 1, little endian."""
        out = bytearray(self.guid.ljust(gid_len, b"\0"))
        out += struct.pack("<I", len(self.nodes))
        for node in self.nodes:
            for text in (node.namespace, node.name):
                octets = text.encode() + b"\0"
                out += bytes(-len(out) % 4) + struct.pack("<I", len(octets)) + octets
            for gids in (node.readers, node.writers):
                out += bytes(-len(out) % 4) + struct.pack("<I", len(gids))
                for gid in gids:
                    out += gid.ljust(gid_len, b"\0")
        return b"\0\1\0\0" + padded(bytes(out))

    @classmethod
    def read(cls, message: bytes, gid_len: int | None = None) -> tuple[ParticipantNodes, int]:
        """Return a message and the length of its GIDs; told from its length if not given.

        Raises:
            ValueError: The message is malformed.
        """
        for length in (GID_LEN, OLD_GID_LEN) if gid_len is None else (gid_len,):
            try:
                return _Reader(message, length).participant(), length
            except (ValueError, struct.error):
                continue
        raise ValueError(f"no message of {DISCOVERY_TOPIC}")


class _Reader:
    """Reads one message with GIDs of a length; what is left over is an error."""

    def __init__(self, message: bytes, gid_len: int) -> None:
        if len(message) < 4 or message[:2] not in (b"\0\0", b"\0\1"):
            raise ValueError("not CDR 1")
        self._data = message[4:]
        self._order = "<" if message[1] else ">"
        self._at = 0
        self._gid_len = gid_len

    def participant(self) -> ParticipantNodes:
        guid = self._gid()
        count = self._count(_NODES_COUNT_MAX)
        nodes = tuple(self._node() for _ in range(count))
        if len(self._data) - self._at >= 4:
            raise ValueError("bytes after the last node")
        return ParticipantNodes(guid, nodes)

    def _node(self) -> Node:
        texts = self._text(), self._text()
        gids = [tuple(self._gid() for _ in range(self._count(_GIDS_COUNT_MAX))) for _ in range(2)]
        return Node(*texts, *gids)

    def _gid(self) -> bytes:
        return self._take(self._gid_len)[:GID_LEN]

    def _count(self, most: int) -> int:
        self._at += -self._at % 4
        [count] = struct.unpack_from(self._order + "I", self._take(4))
        if count > most:
            raise ValueError("too many entries")
        return int(count)

    def _text(self) -> str:
        octets = self._take(self._count(len(self._data)))
        if not octets.endswith(b"\0"):
            raise ValueError("a text does not end")
        return octets[:-1].decode("utf-8", "replace")

    def _take(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise ValueError("the message ends early")
        self._at += length
        return self._data[self._at - length : self._at]


def gid_len_of(distro: str) -> int | None:
    """Return the length of GIDs in a distribution of ROS 2; None if none is named."""
    name = distro or os.environ.get("ROS_DISTRO", "")
    if not name:
        return None
    return OLD_GID_LEN if name[0].lower() < _FIRST_NEW else GID_LEN


class RosGraph:
    """Reads the nodes of the domain, and tells of the bridge's mirrors as those of a node."""

    def __init__(self, bridge: Bridge) -> None:
        self.id = RouteId(Direction.FROM_DDS, DISCOVERY_TOPIC, DISCOVERY_TOPIC, "", TYPE)
        self.state = StateCell(self.id)
        self.endpoints: dict[bytes, Endpoint] = {}
        self.participants: dict[bytes, ParticipantNodes] = {}  # by the prefix of the GUID
        self.malformed_count = 0
        self._bridge = bridge
        self._dds = bridge.dds
        self._gid_len = gid_len_of(bridge.settings.ros_distro)
        self._type: TopicType | None = None
        self._reader: Mirror | None = None
        self._writer: Mirror | None = None
        self._is_dirty = True
        self._written_ns = -PERIOD_NS
        self._told: ParticipantNodes | None = None

    def add(self, endpoint: Endpoint) -> bool:
        """Take an endpoint of the graph; False if it is none."""
        if not self._bridge.settings.ros or endpoint.topic != DISCOVERY_TOPIC:
            return False
        self.endpoints[endpoint.guid] = endpoint
        self._is_dirty = True
        return True

    def remove(self, guid: bytes) -> bool:
        """Forget an endpoint; its participant's nodes go with it."""
        endpoint = self.endpoints.pop(guid, None)
        if endpoint is not None and endpoint.is_writer:
            self.participants.pop(guid[:12], None)
        return endpoint is not None

    def changed(self) -> None:
        """Mirrors came or went."""
        self._is_dirty = True

    def due_ns(self) -> int | None:
        """When `turn` has something to do; None: nothing waits."""
        waits = self._bridge.settings.ros and self._is_dirty
        return self._written_ns + PERIOD_NS if waits else None

    def turn(self, now_ns: int) -> None:
        """Tell of the mirrors, at most ten times a second."""
        due_ns = self.due_ns()
        if due_ns is None or now_ns < due_ns:
            return
        self._written_ns = now_ns
        try:
            ready = self._make(now_ns)
        except DdsError as error:
            self._bridge.log_once(f"the ROS graph cannot be read: {error}")
            self._is_dirty = False
            return
        if ready:
            self._is_dirty = False
            self._tell()

    def _make(self, now_ns: int) -> bool:
        """Create the mirrors, with the type that peers send if they send one."""
        known = [one for one in self.endpoints.values() if one.type_hash]
        type_: TopicType | None = TopicType(TYPE, Tier.OPAQUE)
        if known:
            id_ = RouteId(
                Direction.FROM_DDS, DISCOVERY_TOPIC, DISCOVERY_TOPIC, "", TYPE, known[0].type_hash
            )
            type_ = self._bridge.type_of(Plan(id_, tuple(known)), now_ns)
        if type_ is None or type_ == self._type:
            return type_ is not None
        limits = MirrorLimits()
        reader = self._dds.make_reader(DISCOVERY_TOPIC, type_, mirror_reader(_CLASS, "", limits))
        writer = self._dds.make_writer(
            DISCOVERY_TOPIC, type_, mirror_writer([_ASKED], "", CDR1, limits)
        )
        self._drop()
        self._type, self._reader, self._writer, self._told = type_, reader, writer, None
        self._bridge.routes_by_reader[reader.handle] = self
        return True

    def _tell(self) -> None:
        bridge = self._bridge
        guids = sorted({one.guid for route in bridge.routes.values() for one in route.mirrors})
        node = Node(
            "/",
            NODE,
            tuple(one for one in guids if one[15] not in _WRITERS),
            tuple(one for one in guids if one[15] in _WRITERS),
        )
        message = ParticipantNodes(bridge.dds.guid, (node,))
        if message == self._told or self._writer is None:
            return
        self._told = message
        octets = message.to_bytes(self._gid_len or GID_LEN)
        self._dds.write(self._writer.handle, octets, bridge.wall_ns())
        self._dds.flush(self._writer.handle)

    def take(self, reader: int, _now_ns: int) -> None:
        """Read what participants tell of their nodes."""
        for payload, info in self._dds.take(reader, _TAKE_COUNT):
            if not info.valid_data:
                continue
            try:
                found, length = ParticipantNodes.read(payload, self._gid_len)
            except ValueError:
                self.malformed_count += 1
                continue
            if self._gid_len is None and found.nodes:
                self._gid_len = length
            limit = self._bridge.limits.dds_participants_count
            if found.guid[:12] in self.participants or len(self.participants) < limit:
                self.participants[found.guid[:12]] = found

    def nodes(self) -> Iterable[tuple[bytes, Node]]:
        """Yield the nodes with the GUID of their participant."""
        for participant in list(self.participants.values()):
            for node in participant.nodes:
                yield participant.guid, node

    def _drop(self) -> None:
        for mirror in (self._reader, self._writer):
            if mirror is not None:
                self._bridge.routes_by_reader.pop(mirror.handle, None)
                self._dds.delete(mirror)
        self._reader = self._writer = self._type = None

    def stop(self) -> None:
        """Leave the graph."""
        self._drop()
