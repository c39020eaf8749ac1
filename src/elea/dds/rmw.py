"""Keys of rmw_zenoh beside those of the bridge: ROS nodes on Zenoh hear and are heard (D-671).

`<domain>/<name>/<type>/<hash>`, with the attachment of that RMW. The gid of a sample from DDS is
the GUID of its writer, as is the id of its stamp: bridges know by that that a sample on such a key
is a copy, which they have from the key of its topic already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from elea.dds.counts import RouteCounts
from elea.dds.line import ADDED_FIRST, FULL, Item, Line
from elea.dds.ros import topic_key, type_hash_text
from elea.dds.routes import Plan
from elea.dds.stamps import nanos_of, ntp64_of
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SampleKind
from elea.qos import CongestionControl
from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.ros.formats.keys import NO_HASH
from elea.sample import Sample
from elea.session.handlers import Callback
from elea.session.matching import MatchingStatus
from elea.timestamp import NTP64, Timestamp

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.dds.inlet import Inlet

_SOURCES_COUNT_MAX: Final = 1_024  # writers of one route whose samples are numbered


def rmw_key(bridge: Bridge, plan: Plan, *, any_hash: bool = False) -> str | None:
    """Return the key of a topic at rmw_zenoh; None if it is none of ROS, or that is not wanted."""
    settings = bridge.settings
    if not settings.rmw_zenoh or plan.id.partition or "*" in plan.id.key:
        return None
    name = topic_key(plan.id.topic, settings.namespace)
    if name is None or "::dds_::" not in plan.id.type_name:
        return None
    hashes = (type_hash_text(one.qos.user_data) for one in plan.endpoints)
    hash_ = "*" if any_hash else next(filter(None, hashes), NO_HASH)
    return f"{settings.domain}/{name}/{plan.id.type_name}/{hash_}"


class RmwPublisher:
    """Puts the samples of a route from DDS on the key of rmw_zenoh."""

    def __init__(self, bridge: Bridge, key: str, on_matching: Callable[[int], None]) -> None:
        self._bridge = bridge
        self._numbers: dict[bytes, int] = {}  # of the last sample, by writer
        self._publisher = bridge.session.declare_publisher(
            KeyExpr(key), congestion_control=CongestionControl.DROP
        )
        told = Callback[MatchingStatus](lambda _status: bridge.post(on_matching), indirect=False)
        self._listener = self._publisher.declare_matching_listener(told)

    @property
    def is_matched(self) -> bool:
        """Whether a subscriber of the key is known."""
        return self._publisher.matching_status.matching

    def put(self, payload: bytes, guid: bytes, time: int, counts: RouteCounts) -> None:
        """Put a sample; its time is NTP64, or 0 for now. What finds no room is lost, counted."""
        if not self.is_matched:
            return
        number = self._numbers.pop(guid, 0) + 1
        self._numbers[guid] = number
        if len(self._numbers) > _SOURCES_COUNT_MAX:
            del self._numbers[next(iter(self._numbers))]
        source_ns = nanos_of(time) if time else self._bridge.wall_ns()
        stamp = time or ntp64_of(source_ns)
        if not self._publisher.try_put(
            payload,
            attachment=Attachment(number, source_ns, guid).to_bytes(),
            timestamp=Timestamp(NTP64.from_value(stamp), guid),
        ):
            counts.lose("no room at rmw_zenoh")

    def close(self) -> None:
        """Undeclare it."""
        self._bridge.undeclare(self._listener, self._publisher)


class RmwSubscriber:
    """Takes messages of ROS nodes on Zenoh for a route to DDS, of any hash of the type.

    They wait in a line of their own: one thread at a time adds to a line.
    """

    def __init__(self, inlet: Inlet, bridge: Bridge, key: str, topic_key: str) -> None:
        self.line = Line(bridge.limits)
        self._inlet = inlet
        self._topic_key = topic_key
        self._bridge = bridge
        self._len_max = bridge.limits.dds_sample_len
        self._subscriber = bridge.session.declare_subscriber(KeyExpr(key), Callback(self._receive))

    def close(self) -> None:
        """Undeclare it."""
        self.line.close()
        self._bridge.undeclare(self._subscriber)

    def _receive(self, sample: Sample) -> None:
        inlet = self._inlet
        attached = None if sample.attachment is None else sample.attachment.to_bytes()
        told = None if attached is None else parse_attachment(attached)
        if told is None or sample.kind is not SampleKind.PUT:
            inlet.refuse("attachment" if told is None else "deletes")
            return
        stamp = sample.raw_stamp
        if stamp is not None and stamp.id == told.gid:
            inlet.refuse("D-671")  # a bridge put it, on the key of its topic as well
            return
        payload = sample.payload.to_bytes()
        if len(payload) > self._len_max:
            inlet.refuse("too large")
            return
        time = ntp64_of(max(0, told.source_time_ns))
        result = self.line.try_add(
            Item(self._topic_key, payload, time, told.gid, None), len(payload)
        )
        if result == FULL:
            inlet.refuse("line full")
        elif result == ADDED_FIRST:
            inlet.wake()
