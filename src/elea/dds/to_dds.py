"""A route to DDS: samples on the key wait in a bounded line and are written (dds.md 10, 11, 13).

Threads of the session put samples into the line; the DDS thread does everything else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from elea.dds.inlet import Inlet
from elea.dds.line import Item, Line
from elea.dds.mapping import is_pattern, pattern_matches
from elea.dds.mirror_writers import MATCH_NS, MirrorWriter, MirrorWriters, WriterId
from elea.dds.overlap import identity_by
from elea.dds.port import FAILED, NO_ROOM, REFUSED, WRITTEN, DdsError, Mirror, Tier, TopicType
from elea.dds.qos import (
    CDR1,
    CDR2,
    MirrorLimits,
    Ownership,
    accepts_representation,
    mirror_writer,
)
from elea.dds.representation import legal_begins, padded, refusal, version_of
from elea.dds.route_history import RouteHistory
from elea.dds.routes import Plan, RouteId
from elea.dds.source_tracking import SourceTracking
from elea.dds.stamps import (
    DISPOSED,
    NANOS,
    UNREGISTERED,
    WRITE_AHEAD_NS_MAX,
    Attachment,
    ntp64_of,
    source_time,
)
from elea.dds.state import LOG, State, StateCell

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge

DRAIN_COUNT: Final = 1_024  # as many as a line holds: a turn costs as much as fifty samples
BACK_OFF_NS: Final = 1_000_000
BACK_OFF_NS_MAX: Final = 20_000_000
REFUSED_NS: Final = 1_000_000_000  # or so long, if it is known that a reader will not match


class ToDds:
    """Writes the samples of a key to one topic, partition and type.

    Args:
        bridge: Whose thread calls, and what the route needs of it.
        plan: Its endpoints.
        inlet: Of the route that this one takes the place of.
    """

    def __init__(self, bridge: Bridge, plan: Plan, inlet: Inlet | None = None) -> None:
        self.id: RouteId = plan.id
        self.plan = plan
        self.counts = bridge.new_counts()
        self.state = StateCell(plan.id)
        self.end_ns: int | None = None
        self.made_ns = bridge.now_ns()
        self.retry_ns: int | None = None
        self.sources: set[bytes] = set()  # remote writers that announce themselves (D-604)
        self._bridge = bridge
        self._dds = bridge.dds
        self._writers = MirrorWriters(bridge, self)
        self._instances: OrderedDict[str, bytes] = OrderedDict()  # serialised keys by key text
        self.tracking = SourceTracking(bridge)
        self._partly: tuple[Item, dict[int, int]] | None = None  # written by some mirrors so far
        self._retried: Item | None = None  # came before, and found no room
        self._back_off_ns = BACK_OFF_NS
        self._attempts = 0
        self._refused_once = False
        self.history = RouteHistory(bridge, self)
        self._is_pattern = is_pattern(plan.id.partition)
        self._is_keyed_by_instance = bridge.settings.has_instances(plan.id.key)
        self._last_ns = bridge.now_ns()
        self._wall_ns = 0
        self._inlet: Inlet | None = inlet or Inlet(bridge, self)
        if inlet is not None:
            inlet.hand_over(self)
        self._line = self._inlet.line
        self._rmw = self._inlet.rmw

    @property
    def mirrors(self) -> list[Mirror]:
        """The mirror writers."""
        return [one.mirror for one in self._writers.all()]

    def readers_matched(self) -> frozenset[int]:
        """Return the readers that match the mirrors, by handle."""
        every = (self._dds.unmatched(one, is_writer=True).matched for one in self.mirrors)
        return frozenset(handle for matched in every for handle in matched)

    @property
    def tier(self) -> Tier | None:
        """How well the type of the mirrors is known."""
        return next((one.type_.tier for one in self._writers.all()), None)

    @property
    def pending_count(self) -> int:
        """Samples that wait to be written."""
        return len(self._line)

    @property
    def is_asking(self) -> bool:
        """Whether history is being asked for."""
        return self.history.is_asking

    # By the DDS thread: mirrors.

    def update(self, plan: Plan) -> None:
        """Follow a changed plan: other readers."""
        self.plan = plan

    def release_inlet(self) -> Inlet | None:
        """Give the inlet away, with all samples in it: another route goes on with it."""
        inlet, self._inlet = self._inlet, None
        self._line, self._rmw = Line(self._bridge.limits), None
        return inlet

    def succeed(self, old: ToDds, now_ns: int) -> None:
        """Take the place of a route whose readers are now those of this one."""
        self._writers.adopt(old._writers, now_ns)
        before = old._line.take(len(old._line))
        mine = self._line.take(len(self._line))
        # Two inlets of one key have the same samples: the end of one is the begin of the other.
        twice = next(
            (n for n in range(min(len(before), len(mine)), 0, -1) if before[-n:] == mine[:n]), 0
        )
        self._line.put_back([*before, *mine[twice:]])
        self._bridge.upkeep.wake(self)

    def reconfigure(self) -> None:
        """Follow changed settings; mirrors are compared with what they should be anyway."""

    def maintain(self, now_ns: int) -> None:
        """Create and replace mirror writers so that they satisfy all readers."""
        bridge = self._bridge
        if bridge.is_standby:
            self._writers.retire_all(now_ns)
            self.state.set(State.STANDBY, now_ns)
            return
        if not bridge.presence.is_reachable(self.plan, now_ns):
            self._writers.retire_all(now_ns)
            self.state.set(State.WAITING, now_ns, "the session has no link")
            return
        type_ = bridge.type_of(self.plan, now_ns)
        if type_ is None:
            self.state.set(State.NO_TYPE, now_ns, "its type did not come yet")
            return
        try:
            wanted = self._writers.ids
            if not self._is_pattern:
                wanted |= {(self.id.partition, one, self._version()) for one in self._ownerships()}
            for id_ in sorted(wanted):
                self._make(id_, type_, now_ns)
        except DdsError as error:
            self._attempts += 1
            next_ns = bridge.upkeep.retry_at(self, self._attempts, now_ns)
            self.state.set(State.FAILED, now_ns, str(error), next_ns)
            return
        self._attempts = 0
        self.state.set(State.ACTIVE, now_ns)
        self.history.follow()

    def _ownerships(self) -> set[Ownership]:
        return {one.qos.ownership for one in self.plan.endpoints} or {Ownership.SHARED}

    def _version(self) -> int:
        """The representation that most readers take; payloads of the other get a writer, too."""
        takes = [accepts_representation(one.qos, CDR1) for one in self.plan.endpoints]
        return CDR1 if all(takes) else CDR2

    def _make(self, id_: WriterId, type_: TopicType, now_ns: int) -> MirrorWriter:
        """The mirror writer of an id; made anew if its QoS or type no longer fits (D-309)."""
        bridge = self._bridge
        partition, ownership, version = id_
        readers = [one.qos for one in self.plan.endpoints if one.qos.ownership is ownership]
        limits = MirrorLimits(
            writer_count=bridge.limits.dds_writer_count, cache_depth=bridge.limits.dds_cache_depth
        )
        qos = mirror_writer(
            readers,
            partition,
            version,
            limits,
            ownership=ownership,
            strength=bridge.settings.ownership_strength,
            user_data=bridge.user_data_of(self.plan),
        )
        qos = bridge.settings.writer_qos(self.id.key, qos)
        known = self._writers.get(id_)
        if known is not None and bridge.mirror_qos.get(known.mirror.handle) == (qos, type_):
            return known
        made = self._writers.make(id_, self.id.topic, type_, qos, now_ns)
        if known is not None and made.is_durable:
            self.history.mirror_replaced()
        return made

    def close(self) -> None:
        """End the route: the subscriber and the mirrors go."""
        self.history.close()
        pending = 0 if self._inlet is None else self._inlet.close()
        if pending and self.end_ns is None:  # its readers are still there
            self.counts.lose("route ended", pending)
        self._writers.close()

    # By the DDS thread: remote writers.

    def source_gone(self, guid: bytes) -> None:
        """A remote writer is gone: unregister what only this one wrote (D-509)."""
        if self.tracking.gone(guid):
            self._writers.lose_instances(guid)

    def _unregister_left(self) -> bool:
        """Unregister the instances of writers that are gone; False if there is no room."""
        for key in self.tracking.left():
            for (_, _, version), writer in self._writers.items():
                if version != version_of(key):
                    continue
                writer.is_dirty = True
                handle = writer.mirror.handle
                if self._dds.unregister(handle, padded(key), self._bridge.wall_ns()) == NO_ROOM:
                    return False
        return True

    # By the DDS thread: history.

    def rearrange(self, order: Callable[[list[Item]], list[Item]]) -> None:
        """Replace the samples that wait by what a function makes of them."""
        self._line.put_back(order(self._line.take(len(self._line))))
        self._bridge.upkeep.wake(self)

    def instance_of(self, item: Item) -> bytes:
        """Return the serialised key of a sample; empty if there is none."""
        if not item.payload or not self._bridge.has_key(self.plan):
            return b""
        writer = next(iter(self._writers.all()), None)
        if writer is None or refusal(item.payload, None) is not None:
            return b""
        payload = padded(item.payload)
        if not self._bridge.answers.schemas.is_safe(writer.type_, payload):
            return b""
        return self._dds.key_of(writer.mirror, payload) or b""

    # By the DDS thread: writing.

    def poll(self, now_ns: int) -> int | None:
        """Write what waits; returns when to call again."""
        self._writers.poll(now_ns)
        if self._rmw is not None:
            self._line.put_back(self._rmw.line.take(DRAIN_COUNT))
        if self._bridge.is_standby:
            self._line.take(len(self._line))  # the active bridge writes them (D-637)
            return None
        if self.is_asking:
            return None
        if self.retry_ns is not None and now_ns < self.retry_ns:
            return self.retry_ns
        self.retry_ns = None
        count = 0
        batch = self._line.take(DRAIN_COUNT)
        fast = self._fast_writers(now_ns) if batch and self._partly is None else {}
        while count < len(batch):
            if fast:
                count = self._write_plain(batch, count, fast)
            if count == len(batch) or not self._write(batch[count], now_ns):
                break
            count += 1
        if count < len(batch):
            self._line.put_back(batch[count:])
            self._bridge.counts.no_room += 1
            if count:
                self._back_off_ns = BACK_OFF_NS
            self.retry_ns = now_ns + self._back_off_ns
            self._back_off_ns = min(2 * self._back_off_ns, BACK_OFF_NS_MAX)
        if count:
            self._last_ns = self.counts.last_ns = now_ns
        if not self._unregister_left() and self.retry_ns is None:
            self.retry_ns = now_ns + BACK_OFF_NS
        self._writers.flush()
        due = self._writers.assert_liveliness(now_ns, self._last_ns, has_source=bool(self.sources))
        if self.retry_ns is not None:
            return self.retry_ns
        return now_ns if self._line or (self._rmw is not None and self._rmw.line) else due

    def _fast_writers(self, now_ns: int) -> dict[bytes, MirrorWriter]:
        """The writers of plain samples by the begin of their payloads; none if more is to do."""
        if self._is_pattern or self._is_keyed_by_instance or self.plan.is_durable:
            return {}
        if self._bridge.presence.strangers or self._bridge.groups.has_other(self):
            return {}
        ownerships = self._ownerships()
        type_ = self._bridge.type_of(self.plan, now_ns)
        if len(ownerships) != 1 or type_ is None:
            return {}
        [ownership] = ownerships
        if ownership is Ownership.EXCLUSIVE and len(self._writers) > 1:
            return {}
        found: dict[bytes, MirrorWriter] = {}
        is_looked_at = self._bridge.answers.schemas.has_optional(type_)
        for begin in legal_begins(type_.extensibility):
            version = version_of(begin)
            if version == CDR1 and is_looked_at:
                continue
            writer = self._writers.get((self.id.partition, ownership, version))
            takes = (accepts_representation(one.qos, version) for one in self.plan.endpoints)
            if writer is not None and writer.is_ready and any(takes):
                found[begin] = writer
        self._wall_ns = self._bridge.wall_ns()
        return found

    def _write_plain(
        self, batch: list[Item], start: int, writers: dict[bytes, MirrorWriter]
    ) -> int:
        """Write samples without attachments; returns the first that needs the general way."""
        write = self._dds.write
        wall_ns = self._wall_ns
        latest = ntp64_of(wall_ns + WRITE_AHEAD_NS_MAX)
        index, length, begin = start, 0, b""
        handle = 0
        writer: MirrorWriter | None = None
        identify = self.tracking.identifier(next(iter(writers.values())).type_)
        for index in range(start, len(batch)):
            _, payload, time, clock, attachment = batch[index]
            if not payload or attachment is not None or len(payload) & 3 or time > latest:
                break
            if payload[:2] != begin:
                writer = writers.get(payload[:2])
                if writer is None:
                    break
                begin, handle = payload[:2], writer.mirror.handle
                writer.is_dirty = True
            # As `nanos_of`, without a call per sample.
            if write(handle, payload, -(-time * NANOS >> 32) if time else wall_ns) != WRITTEN:
                break
            length += len(payload)
            if writer is not None:
                writer.unacknowledged_count += 1
            if identify is not None and writer is not None:
                self.tracking.wrote(clock, payload, writer, identify)
        else:
            index = len(batch)
        self.counts.samples += index - start
        self.counts.octets += length
        return index

    def _write(self, item: Item, now_ns: int) -> bool:
        """Write one sample; False if there is no room and it has to be tried again."""
        beside = None if item.attachment is None else Attachment.read(item.attachment)
        if item.attachment is not None and beside is None:
            self.counts.lose("attachment")
        home = self._bridge.presence.home
        if beside is not None and beside.writer and beside.writer[:12] in home:
            self._bridge.counts.duplicate("D-632")
            return True
        clock = (beside.writer if beside is not None else None) or item.clock
        source_ns, replaced = source_time(beside, item.time or None, self._bridge.wall_ns())
        if replaced:
            self._bridge.counts.stamps_replaced += 1
            text = "source time is more than 10 s ahead of this host's clock: written as of now"
            self.state.warn(text, now_ns)
        passed = self._bridge.circling.of(item.key if self._is_pattern else self.id.key)
        if passed is not None:
            key = None if beside is None else beside.key
            octets = key if item.payload is None else item.payload
            is_value = item.payload is not None
            if octets is not None and not passed.writes(
                identity_by(source_ns, padded(octets), is_value=is_value)
            ):
                self._bridge.counts.duplicate("D-640")
                return True
        if item.payload is None:
            return self._write_delete(item, clock, beside, source_ns, now_ns)
        return self._write_value(item, item.payload, clock, beside, source_ns, now_ns)

    def _lacking(self, targets: list[MirrorWriter], clock: bytes, time: int) -> list[MirrorWriter]:
        """Return the mirror writers that have not written a sample of this stamp (D-566)."""
        if not time or not self.plan.is_durable:
            return targets
        found = [one for one in targets if not one.is_durable or one.written.is_new(clock, time)]
        if targets and not found:
            self._bridge.counts.duplicate("D-566")
        return found

    def _write_by_each(
        self,
        targets: list[MirrorWriter],
        item: Item,
        clock: bytes,
        write: Callable[[MirrorWriter], int],
    ) -> list[int] | None:
        """Write a sample once by each mirror writer; None: one has no room, try again (D-456)."""
        results: dict[int, int] = {}
        if self._partly is not None and self._partly[0] is item:
            results = self._partly[1]
        self._partly = None
        is_full = False
        for one in targets:
            handle = one.mirror.handle
            if handle in results:
                continue
            result = write(one)
            if result == NO_ROOM:
                one.written.forget(clock, item.time)  # it was not written after all
                is_full = True
            else:
                results[handle] = result
        if is_full and results:  # plain samples go the quick way else
            self._partly = item, results
        return None if is_full else list(results.values())

    def _partition(self, key: str) -> str | None:
        """The partition that a sample belongs to; None: none of this route's (D-107)."""
        if not self._is_pattern:
            return self.id.partition
        if "*" in key:
            return None
        partition = self._bridge.settings.names.partition_of(key, self.id.topic)
        if partition is None or not pattern_matches(self.id.partition, partition):
            return None
        known = {id_[0] for id_ in self._writers.ids}
        if partition not in known and len(known) >= self._bridge.limits.dds_partitions_count:
            self.counts.lose("partitions")
            return None
        return partition

    def _targets(self, partition: str, version: int, now_ns: int) -> list[MirrorWriter] | None:
        """The mirror writers of a payload; None: not ready, try again."""
        type_ = self._bridge.type_of(self.plan, now_ns)
        if type_ is None:
            return None
        found = []
        for ownership in sorted(self._ownerships()):
            id_ = partition, ownership, version
            writer = self._writers.get(id_)
            if writer is None:
                try:
                    writer = self._make(id_, type_, now_ns)
                except DdsError as error:
                    self.state.set(State.FAILED, now_ns, str(error))
                    self.counts.lose("failed")
                    continue
            if not writer.is_ready and not self._is_matched(writer, id_, now_ns):
                return None
            found.append(writer)
        return found

    def _is_matched(self, writer: MirrorWriter, id_: WriterId, now_ns: int) -> bool:
        """Whether the readers that a new mirror writer should match have matched, or had time."""
        _, ownership, version = id_
        expected = [
            one
            for one in self.plan.endpoints
            if one.handle  # one that is announced or declared is not in the domain
            and one.qos.ownership is ownership
            and accepts_representation(one.qos, version)
        ]
        found = self._dds.unmatched(writer.mirror, is_writer=True)
        ready_ns = writer.ready_ns - (MATCH_NS - REFUSED_NS if found.policy else 0)
        if len(found.matched) >= len(expected) or now_ns >= ready_ns:
            writer.is_ready = self._writers.is_settled
        return writer.is_ready

    def _write_value(
        self,
        item: Item,
        payload: bytes,
        clock: bytes,
        beside: Attachment | None,
        source_ns: int,
        now_ns: int,
    ) -> bool:
        key = item.key
        type_ = self._bridge.type_of(self.plan, now_ns)
        reason = refusal(payload, None if type_ is None else type_.extensibility)
        if reason is not None:
            self._refuse("refused representation", reason, payload)
            return True
        partition = self._partition(key)
        if partition is None:
            return True
        payload = padded(payload)
        if not self._bridge.answers.schemas.is_safe(type_, payload):
            self._refuse("refused value", "it is not a value of this type", payload)
            return True
        version = version_of(payload)
        targets = self._targets(partition, version, now_ns)
        if targets is None:
            return False
        if not any(accepts_representation(one.qos, version) for one in self.plan.endpoints):
            self.counts.lose("representation")
        if Ownership.EXCLUSIVE in self._ownerships() and len(self._writers) > 1:
            has_key = self._bridge.has_key(self.plan)
            instance = payload[:2] + b"\0\0"
            key_bytes = self._dds.key_of(targets[0].mirror, payload) if has_key else instance
            if not self._writers.owns(partition, version, key_bytes, source_ns):
                return False
        sample = clock, item.time, hash(payload)
        shared = self._bridge.groups.shared_readers(self)
        if shared is not None and self._retried is not item:
            if not shared.is_new(self.id, sample):
                self._bridge.counts.duplicate("D-265")
                return True
            self._retried = item
        lacking = self._lacking(targets, clock, item.time)
        status = 0 if beside is None else beside.status

        def write(writer: MirrorWriter) -> int:
            return self._write_to(writer, payload, status, source_ns)

        results = self._write_by_each(lacking, item, clock, write)
        if results is None:
            return False
        if WRITTEN in results:
            if shared is not None:
                shared.wrote(self.id, sample)
            self.counts.samples += 1
            self.counts.octets += len(payload)
            if self._is_keyed_by_instance and targets:
                self._remember(key, targets[0], payload)
            identify = self.tracking.identifier(type_)
            if identify is not None:
                self.tracking.wrote(clock, payload, targets[0], identify)
        elif REFUSED in results:
            if not self._bridge.groups.has_other(self):
                self._refuse("refused value", "it is not a value of this type", payload)
        elif FAILED in results:
            self.counts.lose("failed")
        return True

    def _write_to(self, writer: MirrorWriter, payload: bytes, status: int, source_ns: int) -> int:
        dds, handle = self._dds, writer.mirror.handle
        writer.is_dirty = True
        if status & DISPOSED:
            return dds.write_dispose(handle, payload, source_ns)
        result = dds.write(handle, payload, source_ns)
        writer.unacknowledged_count += result == WRITTEN
        is_left = result == WRITTEN and status & UNREGISTERED
        if is_left and (key := dds.key_of(writer.mirror, payload)) is not None:
            dds.unregister(handle, key, source_ns)
        return result

    def _remember(self, key: str, writer: MirrorWriter, payload: bytes) -> None:
        if key in self._instances:
            self._instances.move_to_end(key)
            return
        serialised = self._dds.key_of(writer.mirror, payload)
        if serialised is not None:
            self._instances[key] = serialised
            if len(self._instances) > self._bridge.limits.dds_instances_count:
                self._instances.popitem(last=False)

    def _write_delete(
        self, item: Item, clock: bytes, beside: Attachment | None, source_ns: int, now_ns: int
    ) -> bool:
        key = None if beside is None else beside.key
        status = DISPOSED if beside is None else beside.status
        if key is None:
            key = self._instances.get(item.key)
            status = DISPOSED
        partition = self._partition(item.key)
        if key is None or partition is None or not self._bridge.has_key(self.plan):
            self.counts.deletes_ignored += 1
            return True
        targets = self._targets(partition, version_of(key), now_ns)
        if targets is None:
            return False
        if not self._writers.owns(partition, version_of(key), padded(key), source_ns):
            return False
        lacking = self._lacking(targets, clock, item.time)

        def write(writer: MirrorWriter) -> int:
            writer.is_dirty = True
            call = self._dds.dispose if status & DISPOSED else self._dds.unregister
            result = call(writer.mirror.handle, padded(key), source_ns)
            writer.unacknowledged_count += result == WRITTEN
            return result

        results = self._write_by_each(lacking, item, clock, write)
        if results is None:
            return False
        for result in results:
            if result == WRITTEN:
                self.counts.deletes += 1
            else:
                self._refuse("refused value", "its key is not one of this type", key)
        return True

    def _refuse(self, reason: str, words: str, payload: bytes) -> None:
        self.counts.lose(reason)
        if not self._refused_once:
            self._refused_once = True
            text = "route to_dds %a: a sample was refused: %s; it begins %s"
            LOG.warning(text, self.id.key, words, payload[:16].hex(" "))
