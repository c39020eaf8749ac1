"""MirrorWriters: the mirror writers of one route to DDS, from their creation to their deletion.

A mirror writer that is replaced is deleted when its readers have acknowledged what it wrote, or
have had time for it; its successor writes nothing before, so that the order stays (D-309). Owned by
the DDS thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from elea.dds.cache import Written
from elea.dds.port import Mirror, TopicType
from elea.dds.qos import INFINITE, KEEP_ALL, Durability, Liveliness, Ownership, Qos

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.dds.to_dds import ToDds

MATCH_NS: Final = 5_000_000_000  # a new mirror writer waits so long for the readers there are
ACKNOWLEDGE_NS: Final = 5_000_000_000  # a replaced one waits so long for acknowledgements
LOOK_NS: Final = 5_000_000  # between two looks at a replaced one

WriterId = tuple[str, Ownership, int]  # partition, ownership, data representation


@dataclass(slots=True)
class MirrorWriter:
    """A mirror writer, and what was written by it."""

    mirror: Mirror
    type_: TopicType
    qos: Qos
    ready_ns: int  # before it, readers that should match may not have matched
    is_ready: bool = False
    is_dirty: bool = False  # something waits for a flush
    asserted_ns: int = 0
    unacknowledged_count: int = 0  # at most
    written: Written = field(default_factory=Written)  # of a durable one (D-566)

    @property
    def is_durable(self) -> bool:
        """Whether it keeps samples for late readers."""
        return self.qos.durability > Durability.VOLATILE

    def lost_count(self) -> int:
        """Return how many samples may be lost if it is deleted now."""
        kept = self.qos.samples_max if self.qos.depth == KEEP_ALL else self.qos.depth
        bounded = kept > 0 and not self.type_.has_key
        return min(self.unacknowledged_count, kept) if bounded else self.unacknowledged_count


@dataclass(slots=True)
class _Retiring:
    writer: MirrorWriter
    end_ns: int


class MirrorWriters:
    """Makes, replaces and deletes mirror writers.

    Args:
        bridge: Whose domain they are in.
        route: Whose they are; samples that no reader acknowledged are counted there.
    """

    def __init__(self, bridge: Bridge, route: ToDds) -> None:
        self._bridge = bridge
        self._dds = bridge.dds
        self._route = route
        self._current: dict[WriterId, MirrorWriter] = {}
        self._retiring: list[_Retiring] = []
        self._owned: tuple[int, bytes] | None = None  # representation and instance written last

    def __len__(self) -> int:
        return len(self._current)

    @property
    def ids(self) -> set[WriterId]:
        """What there are mirror writers for."""
        return set(self._current)

    @property
    def is_settled(self) -> bool:
        """Whether no replaced mirror writer waits for acknowledgements."""
        return not self._retiring

    def get(self, id_: WriterId) -> MirrorWriter | None:
        """Return the mirror writer of an id, if there is one."""
        return self._current.get(id_)

    def items(self) -> list[tuple[WriterId, MirrorWriter]]:
        """Return all of them by their ids."""
        return list(self._current.items())

    def all(self) -> list[MirrorWriter]:
        """Return all of them."""
        return list(self._current.values())

    def make(
        self, id_: WriterId, topic: str, type_: TopicType, qos: Qos, now_ns: int
    ) -> MirrorWriter:
        """Make a mirror writer; one of the same id is replaced. Raises DdsError."""
        made = self._dds.make_writer(topic, type_, qos)
        self._retire(self._current.pop(id_, None), now_ns)
        self._bridge.mirror_qos[made.handle] = qos, type_
        found = self._current[id_] = MirrorWriter(made, type_, qos, now_ns + MATCH_NS)
        self._bridge.upkeep.touch_at(self._route, found.ready_ns)
        self._bridge.mirrors_changed()
        return found

    def adopt(self, other: MirrorWriters, now_ns: int) -> None:
        """Retire the mirror writers of a route that this one takes the place of."""
        self._retiring += other._retiring
        other._retiring.clear()
        for id_ in other.ids:
            self._retire(other._current.pop(id_), now_ns)

    def retire_all(self, now_ns: int) -> None:
        """Delete all, after what was written has arrived."""
        for id_ in self.ids:
            self._retire(self._current.pop(id_), now_ns)
        self.poll(now_ns)

    def poll(self, now_ns: int) -> None:
        """Delete replaced mirror writers whose readers have everything, or had time for it."""
        for one in list(self._retiring):
            if self._is_acknowledged(one.writer) or now_ns >= one.end_ns:
                self._retiring.remove(one)
                self._delete(one.writer)
        if self._retiring:
            self._bridge.upkeep.touch_at(self._route, now_ns + LOOK_NS)
        for writer in self._current.values():
            self._is_acknowledged(writer)

    def lose_instances(self, source: bytes) -> None:
        """Have the instances of a remote writer that is gone unregistered (D-509).

        Late readers do not get them any more: its bridge may bring them again (D-566).
        """
        for one in self.all():
            one.written.forget_writer(source)
        self._bridge.upkeep.wake(self._route)

    def flush(self) -> None:
        """Send what batching holds back."""
        for writer in self._current.values():
            if writer.is_dirty:
                writer.is_dirty = False
                self._dds.flush(writer.mirror.handle)

    def close(self) -> None:
        """Delete all; a bridge that stops gives readers a moment to acknowledge."""
        every = [*(one.writer for one in self._retiring), *self._current.values()]
        self._retiring.clear()
        self._current.clear()
        for writer in every:
            self._dds.flush(writer.mirror.handle)
            self._is_acknowledged(writer, self._bridge.stop_wait_ns())
            self._delete(writer)

    def _retire(self, writer: MirrorWriter | None, now_ns: int) -> None:
        if writer is not None:
            self._dds.flush(writer.mirror.handle)
            self._retiring.append(_Retiring(writer, now_ns + ACKNOWLEDGE_NS))
            self._bridge.upkeep.touch_at(self._route, now_ns + LOOK_NS)

    def _is_acknowledged(self, writer: MirrorWriter, timeout_ns: int = 0) -> bool:
        if writer.unacknowledged_count and self._dds.is_acknowledged(
            writer.mirror.handle, timeout_ns
        ):
            writer.unacknowledged_count = 0
        return not writer.unacknowledged_count

    def _delete(self, writer: MirrorWriter) -> None:
        if writer.unacknowledged_count:
            self._route.counts.lose("unacknowledged", writer.lost_count())
        self._bridge.mirror_qos.pop(writer.mirror.handle, None)
        self._dds.delete(writer.mirror)
        self._bridge.mirrors_changed()

    def owns(self, partition: str, version: int, key: bytes | None, source_ns: int) -> bool:
        """Whether exclusive readers hear the mirror of a representation; False: not yet (D-304).

        They hear one writer of an instance: the mirror of the other representation leaves it first.
        """
        others = [
            writer.mirror.handle
            for id_, writer in self.items()
            if id_[:2] == (partition, Ownership.EXCLUSIVE) and id_[2] != version
        ]
        if not others or key is None:
            return True
        if self._owned != (version, key):
            self._owned = version, key
            for handle in others:
                self._dds.unregister(handle, key, source_ns)
                self._dds.flush(handle)
        return all(self._dds.is_acknowledged(handle, 0) for handle in others)

    def assert_liveliness(self, now_ns: int, last_ns: int, *, has_source: bool) -> int | None:
        """Assert the liveliness of manual writers (D-603); returns when to call again.

        Args:
            last_ns: When a sample was written last.
            has_source: Whether a remote writer is known.
        """
        due = None
        for writer in self.all():
            qos = writer.qos
            if qos.liveliness is Liveliness.AUTOMATIC or qos.lease_ns >= INFINITE:
                continue
            period_ns = max(1_000_000, qos.lease_ns // 3)
            lives = has_source or now_ns - last_ns < qos.lease_ns
            if lives and now_ns - writer.asserted_ns >= period_ns:
                writer.asserted_ns = now_ns
                self._dds.assert_liveliness(writer.mirror.handle)
            due = min(due or INFINITE, now_ns + period_ns) if lives else due
        return due
