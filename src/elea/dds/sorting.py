"""What a route from DDS does with each sample: does it pass, which stamp, what travels beside it.

The hot path of the direction (dds.md 9, 11, 12). Owned by the DDS thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elea.dds.cache import Cache, Kept
from elea.dds.circling import Passed
from elea.dds.overlap import Overlap, identity_of
from elea.dds.pending_puts import PendingPuts, Run, Single, Source
from elea.dds.port import ALIVE, INSTANCE_DISPOSED, NO_WRITERS, Endpoint, Info, Taken
from elea.dds.qos import ReaderClass
from elea.dds.rmw import RmwPublisher
from elea.dds.route_writers import RouteWriters
from elea.dds.stamps import DISPOSED, UNREGISTERED, Attachment, WriterClock, ntp64_of
from elea.dds.state import State
from elea.encoding import Encoding

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.dds.from_dds import FromDds


@dataclass(slots=True)
class Taking:
    """From which mirror reader samples were taken, and which others there are.

    Args:
        of: The class of its writers.
        is_exact: Whether its type is known.
        left: Of an old mirror, the writers that a new one continues; None: it is a new one.
        continued: Writers of the class that came over to a new mirror.
        is_replacing: Whether old mirrors are read beside new ones.
        has_strays: Whether mirrors of other types may bring samples of these writers.
    """

    of: ReaderClass
    is_exact: bool
    left: set[int] | None
    continued: set[int]
    is_replacing: bool
    has_strays: bool


class Sorter:
    """Sorts the samples of one route into what is put, and keeps those for late joiners.

    Args:
        bridge: What is around the route.
        route: Whose samples these are.
        encoding: Of its samples.
        rmw: Where samples are put beside the key.
    """

    def __init__(
        self, bridge: Bridge, route: FromDds, encoding: Encoding, rmw: RmwPublisher | None
    ) -> None:
        self.cache = Cache()
        self.overlap = Overlap()
        self.writers = RouteWriters(self._source)
        self.out = PendingPuts(bridge, route.id.key, encoding, route.counts, rmw)
        self._bridge = bridge
        self._route = route
        self._live: set[int] = set()  # instances, of a topic with a key
        self._keyed_by_instance = bridge.settings.has_instances(route.id.key)
        bridge.budget.join(self.cache)

    @property
    def instances_count(self) -> int:
        """Live instances that the mirror readers hold memory for (D-510)."""
        return len(self._live)

    def set_writers(self, writers: Iterable[Endpoint]) -> None:
        """Follow the writers of a changed plan."""
        writers = list(writers)
        self.writers.update(writers)
        settings = self._bridge.settings
        self.cache.set_writers(
            writers,
            self._bridge.limits.dds_cache_depth,
            settings.cache_multiplier if settings.ros else 1,
        )

    def succeed(self, old: Sorter) -> None:
        """Go on where the sorter of another route ended; what waits there is put first."""
        self.overlap = old.overlap
        self.writers.adopt(old.writers)
        self.out.begin_with(old.out)

    def remember_kept(self, now_ns: int, end_ns: int) -> None:
        """Have samples that are kept pass no more, until a time: a new mirror gets them again."""
        for one in self.cache.samples(now_ns):
            self.overlap.add(one.writer, (one.time, hash(one.payload)))
        self.overlap.extend(end_ns)

    def close(self) -> None:
        """Forget what is kept and what waits."""
        self._bridge.budget.leave(self.cache)
        self.out.close()

    def _source(self, writer: Endpoint) -> Source:
        # Advanced subscribers order samples and their history by stamps, unless they are numbered.
        by_stamps = self._bridge.settings.ros and writer.qos.is_durable
        origin = None if by_stamps else self._bridge.origins.new()
        of = ReaderClass.of(writer.qos)
        return Source(writer.guid, of, WriterClock(writer.guid), origin, writer.qos.is_durable)

    def sort(self, taken: list[Taken], taking: Taking) -> dict[FromDds, list[Taken]]:
        """Sort samples into what is put; returns those of routes of other types (D-265)."""
        bridge, route = self._bridge, self._route
        wall_ns = bridge.wall_ns()
        handle = -1
        source: Source | None = None
        run: Run | None = None
        stamped = bridge.settings.source_stamps
        len_max = bridge.limits.dds_sample_len
        last: dict[int, int] | None = None
        strays: dict[FromDds, list[Taken]] = {}
        beside: FromDds | None = None  # the route that has the writer
        passed = bridge.circling.of(route.id.key)
        overlaps = taking.is_replacing or self.overlap.is_active(bridge.now_ns())
        is_checked = overlaps or passed is not None
        if taken and taken[-1][1].instance_handle and route.plan.has_key:
            self._count_instances(taken)
        for index, (payload, info) in enumerate(taken):
            if info.publication_handle != handle:
                handle = info.publication_handle
                source = self._source_of(handle, taking.of)
                run = None
                beside = None
                if source is None and self.writers.get(handle) is None:
                    beside = bridge.groups.with_writer(route, handle)
            if source is None:
                if beside is not None:
                    strays.setdefault(beside, []).append((payload, info))
                else:
                    self._count_unknown(info)
                continue
            if is_checked and not self._passes(payload, info, source, taking, passed, overlaps):
                continue
            if info.instance_state != ALIVE or not info.valid_data:
                if last is None:
                    last = {one.instance_handle: at for at, (_, one) in enumerate(taken)}
                final = last[info.instance_handle] == index
                if self._put_state(payload, info, source, wall_ns, taking, is_last=final):
                    run = None
                    continue
                if not info.valid_data:
                    continue
            if len(payload) > len_max:
                route.counts.lose("too large")
                route.state.set(State.FULL, bridge.now_ns(), "a sample exceeds dds_sample_len")
                continue
            time = source.clock.stamp(info.source_timestamp, wall_ns) if stamped else 0
            keeps = source.is_durable and taking.left is None
            if time is None or self._keyed_by_instance:
                self._add_single(payload, info, source, time, taking, keeps=keeps)
                run = None
                continue
            if keeps:
                self._keep(payload, time, source, info.instance_handle, b"", taking)
            if run is None:
                run = Run(source, [], [])
                self.out.add(run)
            run.payloads.append(payload)
            run.times.append(time)
        return strays

    def _passes(
        self,
        payload: bytes,
        info: Info,
        source: Source,
        taking: Taking,
        passed: Passed | None,
        overlaps: bool,
    ) -> bool:
        """Whether a sample is not one that came by another mirror, or around a ring."""
        handle = info.publication_handle
        if taking.left is not None and handle in taking.left:
            return False
        sample = identity_of(payload, info)
        if overlaps:
            remembers = taking.has_strays or (
                taking.is_replacing and handle not in taking.continued
            )
            if not self.overlap.is_first(source.guid, sample, remembers=remembers):
                if source.is_durable and taking.left is None:
                    self._keep_again(payload, info, source, taking)
                return False
        if passed is not None:
            is_stranger = source.guid[:12] in self._bridge.presence.strangers
            if not passed.reads(sample, is_stranger=is_stranger):
                self._bridge.counts.duplicate("D-640")
                return False
        return True

    def _keep_again(self, payload: bytes, info: Info, source: Source, taking: Taking) -> None:
        """Keep a sample for late joiners that passed by an old mirror."""
        if info.valid_data and info.instance_state == ALIVE:
            time = ntp64_of(info.source_timestamp)
            if not self.cache.has(source.guid, time):
                self._keep(payload, time, source, info.instance_handle, b"", taking)

    def _count_instances(self, taken: list[Taken]) -> None:
        for _, info in taken:
            if info.instance_state != ALIVE:
                self._live.discard(info.instance_handle)
            elif len(self._live) < self._bridge.limits.dds_instances_count:
                self._live.add(info.instance_handle)

    def _source_of(self, handle: int, of: ReaderClass) -> Source | None:
        """The writer of a sample; None if the sample is not for this mirror."""
        admission = self._bridge.admission
        source = self.writers.get(handle)
        if source is None and not admission.is_hidden(handle):
            # Samples may overtake the news of their writer.
            admission.discover_until(lambda: self.writers.get(handle) is not None)
            source = self.writers.get(handle)
        if source is None:
            return None
        if source.reader_class != of:
            self._bridge.counts.duplicate("D-303")
            return None
        if self._bridge.presence.is_bridge(source.guid):
            self._bridge.counts.duplicate("D-634")
            return None
        return source

    def _count_unknown(self, info: Info) -> None:
        """Count a sample without a writer that it could be put for."""
        handle = info.publication_handle
        if self.writers.get(handle) is not None or not info.valid_data:
            return
        if self._bridge.admission.is_hidden(handle):
            self._bridge.counts.duplicate("D-634")
        else:
            self._route.counts.lose("unknown writer")

    def _put_state(
        self,
        payload: bytes,
        info: Info,
        source: Source,
        wall_ns: int,
        taking: Taking,
        *,
        is_last: bool,
    ) -> bool:
        """Carry a dispose or unregister (dds.md 11); False: treat the sample as any other."""
        state, valid = info.instance_state, info.valid_data
        status = DISPOSED if state == INSTANCE_DISPOSED else UNREGISTERED
        carried = (
            state in (INSTANCE_DISPOSED, NO_WRITERS)
            and self._bridge.settings.deletes
            and taking.is_exact
            and self._bridge.has_key(self._route.plan)
            and is_last
        )
        if state == INSTANCE_DISPOSED and is_last:
            for one in self.writers.there():
                self.cache.end_instance(one.guid, info.instance_handle)
        if not carried:
            return False
        source_ns = info.source_timestamp
        time = source.clock.stamp(source_ns, wall_ns) if self._bridge.settings.source_stamps else 0
        if time is None:
            self._replaced(source)
        beside = Attachment(
            status=status,
            source_ns=source_ns if time is None else None,
            writer=source.guid if time is None else None,
            key=None if valid else payload,
        )
        instance = self._bridge.instance_key(self._route, payload, is_key=not valid)
        if self._keyed_by_instance and instance:
            if valid:
                self.out.add(Single(source, payload, time or 0, beside.to_bytes(), instance))
            self.out.add(Single(source, None, time or 0, beside.to_bytes(), instance))
        else:
            said = payload if valid else None
            self.out.add(Single(source, said, time or 0, beside.to_bytes()))
        return True

    def _add_single(
        self,
        payload: bytes,
        info: Info,
        source: Source,
        time: int | None,
        taking: Taking,
        *,
        keeps: bool,
    ) -> None:
        beside = b""
        if time is None:  # its time is no stamp, and travels beside it (D-542)
            source_ns = info.source_timestamp
            beside = Attachment(source_ns=max(0, source_ns), writer=source.guid).to_bytes()
            self._replaced(source)
        instance = ""
        if self._keyed_by_instance:
            instance = self._bridge.instance_key(self._route, payload, is_key=False)
        if keeps:
            handle = info.instance_handle
            stamp = time or self._bridge.node_time()
            self._keep(payload, stamp, source, handle, beside, taking)
        self.out.add(Single(source, payload, time or 0, beside, instance))

    def _replaced(self, source: Source) -> None:
        """Count and tell a source time that is no stamp: the node's clock stamps the sample."""
        self._bridge.counts.stamps_replaced += 1
        self._route.state.warn_replaced(source.guid, self._bridge.now_ns())

    def _keep(
        self,
        payload: bytes,
        time: int,
        source: Source,
        instance: int,
        beside: bytes,
        taking: Taking,
    ) -> None:
        if not self.cache.wants(source.guid):
            return
        at = instance if taking.is_exact else 0
        self.cache.add(at, Kept(payload, time, source.guid, beside, self._bridge.now_ns()))
        if self._bridge.budget.len > self._bridge.limits.dds_cache_len:
            self._bridge.budget.settle()
