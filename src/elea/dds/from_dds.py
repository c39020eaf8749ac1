"""A route from DDS: mirror readers are taken, samples are put on the key (dds.md 9, 11, 12, 13).

Used by the DDS thread alone, except `wants_changed`, which threads of the session call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea.dds.other_puts import OtherPuts
from elea.dds.overlap import RETIRE_NS, SEEN_NS, SETTLE_NS, Held, Retiring, identity_of
from elea.dds.port import (
    DdsError,
    Mirror,
    Taken,
    Tier,
    TopicType,
)
from elea.dds.qos import MirrorLimits, Qos, ReaderClass, Reliability, mirror_reader
from elea.dds.rmw import RmwPublisher, rmw_key
from elea.dds.routes import Plan, RouteId, mirror_partition
from elea.dds.sorting import Sorter, Taking
from elea.dds.state import State, StateCell
from elea.encoding import Encoding
from elea.keyexpr.keyexpr import KeyExpr
from elea.session.handlers import Callback
from elea.session.matching import MatchingStatus

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared

TAKE_COUNT: Final = 256
BACK_OFF_NS: Final = 1_000_000
BACK_OFF_NS_MAX: Final = 50_000_000
SCHEMA_LEN_MAX: Final = 255


@dataclass(slots=True)
class _MirrorReader:
    mirror: Mirror
    tier: Tier


class FromDds:
    """Puts the samples of one topic, partition and type on its key.

    Args:
        bridge: Whose thread calls, and what the route needs of it.
        plan: Its endpoints.
    """

    def __init__(self, bridge: Bridge, plan: Plan) -> None:
        self.id: RouteId = plan.id
        self.plan = plan
        self.counts = bridge.new_counts()
        self.state = StateCell(plan.id)
        self.end_ns: int | None = None  # when it ends, after its last endpoint
        self.made_ns = bridge.now_ns()
        self.retry_ns: int | None = None
        self.is_wanted = False
        self._bridge = bridge
        self._dds = bridge.dds
        self._mirrors: dict[ReaderClass, _MirrorReader] = {}
        self._classes: dict[int, ReaderClass] = {}  # of the handles of mirror readers
        self._back_off_ns = BACK_OFF_NS
        self._unwanted_ns: int | None = None
        self._retiring: list[Retiring] = []  # old mirrors
        self._strays_end_ns = 0  # until then mirrors of other types may have samples alone
        self._is_taking = False
        self._attempts = 0
        self._is_closed = False
        self._full_count = min(TAKE_COUNT, bridge.limits.dds_reader_count)  # as a full reader has
        settings = bridge.settings
        self._due_ns = 0
        self._period_ns = self._period()
        self.encoding = self._encoding()
        rmw = rmw_key(bridge, plan)
        self._rmw = None if rmw is None else RmwPublisher(bridge, rmw, self._look)
        self.sorter = Sorter(bridge, self, self.encoding, self._rmw)
        self._out = self.sorter.out
        listener = Callback[MatchingStatus](lambda _status: bridge.post(self._look), indirect=False)
        self._demand = self._out.publisher  # whose subscribers are looked for
        if settings.has_instances(plan.id.key):
            self._demand = bridge.session.declare_publisher(KeyExpr(f"{plan.id.key}/*"))
        self._matching = self._demand.declare_matching_listener(listener)
        self._kept_for: list[Declared] = []  # what answers late joiners
        self._others: OtherPuts | None = None
        self._is_waiting = False  # for what other bridges have put
        if plan.is_durable:
            self._begin_keeping()

    def _encoding(self) -> Encoding:
        name = self._bridge.type_label(self.id.type_name)
        if len(name.encode("utf-8", "replace")) > SCHEMA_LEN_MAX:
            return Encoding.APPLICATION_CDR
        return Encoding.APPLICATION_CDR.with_schema(name)

    @property
    def mirrors(self) -> list[Mirror]:
        """The mirror readers."""
        return [one.mirror for one in self._mirrors.values()]

    @property
    def readers(self) -> Iterable[int]:
        """Their handles."""
        return self._classes

    @property
    def tier(self) -> Tier | None:
        """How well the type of the mirrors is known."""
        return next((one.tier for one in self._mirrors.values()), None)

    @property
    def pending_count(self) -> int:
        """Samples that wait for room."""
        return self._out.count

    @property
    def instances_count(self) -> int:
        """Live instances that the mirror readers hold memory for (D-510)."""
        return self.sorter.instances_count

    def has(self, writer: int) -> bool:
        """Whether a writer is one of the route, by its handle."""
        return self.sorter.writers.get(writer) is not None

    def update(self, plan: Plan) -> None:
        """Follow a changed plan: other writers, other classes."""
        self.plan = plan
        self.sorter.set_writers(plan.endpoints)
        if not self._kept_for and plan.is_durable:
            self._begin_keeping()

    def _begin_keeping(self) -> None:
        """Keep samples for late joiners, and learn which of them others have put."""
        self._kept_for = self._bridge.answers.keep_for_late_joiners(self)
        self._others = OtherPuts(self._bridge, self.id.key)

    def _period(self) -> int | None:
        rate = self._bridge.settings.rate_of(self.id.key)
        return None if rate is None else round(1e9 / rate)

    def reconfigure(self) -> None:
        """Follow changed settings: another rate, other QoS of mirrors."""
        self._period_ns = self._period()
        if self._period_ns is None and not self._out and not self._is_waiting:
            for reader in self._classes:
                self._dds.pause(reader, paused=False)

    def _look(self, now_ns: int) -> None:
        """Notice whether there are subscribers; by the DDS thread."""
        if self._is_closed:  # posted before the route ended
            return
        wanted = self._demand.matching_status.matching
        wanted = wanted or (self._rmw is not None and self._rmw.is_matched)
        if wanted == self.is_wanted:
            return
        self.is_wanted = wanted
        self._unwanted_ns = None if wanted else now_ns
        self._bridge.upkeep.touch(self)

    # Mirrors.

    def maintain(self, now_ns: int) -> None:
        """Create and delete mirror readers so that they are what the plan wants."""
        wanted = self._wanted(now_ns)
        if self._retiring:
            self._retire(now_ns)
            self.drain(now_ns)
        type_ = self._bridge.type_of(self.plan, now_ns)
        if wanted and type_ is None:
            self.state.set(State.NO_TYPE, now_ns, "its type did not come yet")
            return
        for of in [one for one in self._mirrors if one not in wanted]:
            if of in self.plan.classes or self._empty_left(of, now_ns):
                self._delete(of)
        for one in [one for one in self._retiring if one.of not in wanted]:
            is_empty = one.of in self.plan.classes or self._empty_left(one.of, now_ns)
            if is_empty and one in self._retiring:
                self._end_retired(one)
        try:
            for of in wanted:
                assert type_ is not None
                known = self._mirrors.get(of)
                qos = self._qos(of)
                if known is None or self._bridge.mirror_qos.get(known.mirror.handle) != (
                    qos,
                    type_,
                ):
                    self._make(of, type_, qos)
        except DdsError as error:
            self._attempts += 1
            next_ns = self._bridge.upkeep.retry_at(self, self._attempts, now_ns)
            self.state.set(State.FAILED, now_ns, str(error), next_ns)
            return
        self._attempts = 0
        if wanted:
            self.state.set(State.ACTIVE, now_ns)
        else:
            standby = self._bridge.is_standby
            self.state.set(State.STANDBY if standby else State.WAITING, now_ns)

    def _wanted(self, now_ns: int) -> list[ReaderClass]:
        bridge = self._bridge
        if bridge.is_standby:
            return []
        linger_ns = bridge.linger_ns
        lingers = self._unwanted_ns is not None and now_ns - self._unwanted_ns < linger_ns
        if lingers and self._unwanted_ns is not None:
            bridge.upkeep.touch_at(self, self._unwanted_ns + linger_ns)
        every = not bridge.settings.on_demand or self.is_wanted or lingers
        return [of for of in self.plan.classes if every or of.durability > 0]

    def _qos(self, of: ReaderClass) -> Qos:
        bridge = self._bridge
        partition = mirror_partition(self.id.partition)
        limits = MirrorLimits(bridge.limits.dds_reader_count)
        qos = mirror_reader(
            of,
            partition,
            limits,
            keep_last=self._period_ns is not None,
            user_data=bridge.user_data_of(self.plan),
        )
        return bridge.settings.reader_qos(self.id.key, qos)

    def _make(self, of: ReaderClass, type_: TopicType, qos: Qos) -> None:
        bridge = self._bridge
        made = self._dds.make_reader(self.id.topic, type_, qos)
        old = self._mirrors.pop(of, None)
        self._mirrors[of] = _MirrorReader(made, type_.tier)
        bridge.mirror_qos[made.handle] = qos, type_
        self._classes[made.handle] = of
        bridge.routes_by_reader[made.handle] = self
        bridge.mirrors_changed()
        # A recorder that wants the topic may have come after the type was first put.
        bridge.answers.publish_schema(type_, bridge.type_label(type_.name))
        if old is not None:
            now_ns = bridge.now_ns()
            self._begin_overlap(now_ns)
            self._retire_later(old.mirror, of, now_ns)
        if old is None and bridge.groups.has_other(self):
            self._strays_end_ns = bridge.now_ns() + SETTLE_NS
            self.sorter.overlap.extend(self._strays_end_ns)
        if old is None and of.durability > 0 and self._others is not None:
            self._is_waiting = True
        if self._period_ns is not None or self._out:
            self._dds.pause(made.handle, paused=True)
            bridge.upkeep.touch_at(self, bridge.now_ns())
        if self._is_waiting:
            for reader in self._classes:
                self._dds.pause(reader, paused=True)
            self.others_known(bridge.now_ns())

    # Other bridges of the domain.

    def other_came(self, zid: str) -> None:
        """Learn what a bridge has put, for the time when it is no longer there."""
        if self._others is not None:
            self._others.ask(zid)

    def others_known(self, now_ns: int) -> None:
        """Take samples, if it is known which of them other bridges have put (D-312)."""
        if not self._is_waiting or self._others is None or self._others.is_asking:
            return
        self._is_waiting = False
        self._begin_overlap(now_ns)
        self._others.add_to(self.sorter.overlap)
        self.sorter.overlap.extend(now_ns + RETIRE_NS)
        if self._period_ns is None and not self._out:
            for reader in self._classes:
                self._dds.pause(reader, paused=False)
        self._bridge.upkeep.touch_at(self, now_ns)

    def _retire_later(self, old: Mirror, of: ReaderClass, now_ns: int) -> None:
        """Read an old mirror until writers know the new one; each sample passes once (D-309)."""
        self._retiring.append(Retiring(old, of, now_ns + RETIRE_NS))
        self._bridge.upkeep.touch_at(self, now_ns + RETIRE_NS)

    def _begin_overlap(self, now_ns: int) -> None:
        self.sorter.remember_kept(now_ns, now_ns + SEEN_NS + self._bridge.linger_ns)

    def succeed(self, old: FromDds, now_ns: int) -> None:
        """Take the place of a route whose writers are now those of this one.

        Its mirrors are read on until those of this route have replaced them.
        """
        for retiring in old._retiring:
            for writer in list(retiring.held):
                old._release(retiring, writer)
        old._begin_overlap(now_ns)
        self.sorter.succeed(old.sorter)
        mirrors = [(one.mirror, of) for of, one in old._mirrors.items()]
        for mirror, of in [*((one.mirror, one.of) for one in old._retiring), *mirrors]:
            self._classes[mirror.handle] = of
            self._bridge.routes_by_reader[mirror.handle] = self
            self._retire_later(mirror, of, now_ns)
        self.retry_ns = old.retry_ns
        self.is_wanted, self._unwanted_ns = old.is_wanted, old._unwanted_ns
        for kept in (old._mirrors, old._classes, old._retiring):
            kept.clear()
        if old._is_waiting and self._others is not None:
            self._is_waiting = True
            self.others_known(now_ns)
        self._bridge.post(self._look)
        self._bridge.upkeep.touch_at(self, now_ns)

    def _held(self) -> list[Held]:
        return [held for one in self._retiring for held in one.held.values()]

    def _retire(self, now_ns: int) -> None:
        """Delete old mirrors whose writers all know the new one."""
        for one in list(self._retiring):
            matched = self._dds.unmatched(one.mirror, is_writer=False).matched
            if self._out or self._is_waiting:
                continue
            self._empty(one)
            for writer in one.expired(matched, now_ns):
                self._release(one, writer)
            if not one.is_replaced(matched, now_ns):
                # The time before took the place of this one.
                self._bridge.upkeep.touch_at(self, one.due_ns(now_ns))
                continue
            self._end_retired(one)
            self.sorter.overlap.extend(now_ns + SEEN_NS + self._bridge.linger_ns)

    def _empty_left(self, of: ReaderClass, now_ns: int) -> bool:
        """Put what the mirrors of writers that left still have; False: not all of it yet."""
        every = not self._bridge.settings.on_demand or self.is_wanted or of.durability > 0
        if self._bridge.is_standby or not every:
            return True
        readers = [handle for handle, one in self._classes.items() if one == of]
        if self._is_waiting:
            self._bridge.upkeep.touch_at(self, now_ns + BACK_OFF_NS_MAX)
            return False
        for reader in readers:
            self.take(reader, now_ns)
        if self._out or any(self._dds.has_samples(reader) for reader in readers):
            self._bridge.upkeep.touch_at(self, self.retry_ns or now_ns)
            return False
        return True

    def is_drained(self, now_ns: int) -> bool:
        """Put what is left of a route that ends; False: not all of it yet."""
        return all(self._empty_left(of, now_ns) for of in set(self._classes.values()))

    def _end_retired(self, old: Retiring) -> None:
        for writer in list(old.held):
            self._release(old, writer)
        self._retiring.remove(old)
        self._forget(old.mirror)

    def _delete(self, of: ReaderClass) -> None:
        self._forget(self._mirrors.pop(of).mirror)

    def _forget(self, mirror: Mirror) -> None:
        self._count_rejected(mirror.handle)
        self._classes.pop(mirror.handle, None)
        self._bridge.routes_by_reader.pop(mirror.handle, None)
        self._bridge.mirror_qos.pop(mirror.handle, None)
        self._dds.delete(mirror)
        self._bridge.mirrors_changed()

    def close(self) -> None:
        """End the route: mirrors, publishers and cache go."""
        self._is_closed = True
        pending = self.pending_count + sum(len(one.samples) for one in self._held())
        for reader in self._classes if self.is_wanted else ():
            while taken := self._dds.take(reader, TAKE_COUNT):
                pending += sum(info.valid_data for _, info in taken)
        if pending:
            self.counts.lose("route ended", pending)
        for of in list(self._mirrors):
            self._delete(of)
        for one in self._retiring:
            self._forget(one.mirror)
        if self._demand is not self._out.publisher:
            self._bridge.undeclare(self._demand)
        self._bridge.undeclare(self._matching, *self._kept_for)
        if self._others is not None:
            self._others.close()
        if self._rmw is not None:
            self._rmw.close()
        self.sorter.close()

    # Samples.

    def take(self, reader: int, now_ns: int) -> None:
        """Take one list of a mirror reader and put it; what an old mirror has goes first."""
        if reader not in self._classes or self._out or self._is_waiting:
            return
        if now_ns < self._strays_end_ns and not self._is_taking:
            self._take_strays(now_ns)
        taken = self._dds.take(reader, TAKE_COUNT)
        if len(taken) >= self._full_count:
            self._count_rejected(reader)
        self._pass(taken, reader)
        self.drain(now_ns)
        if self._retiring:
            self._retire(now_ns)
            self.drain(now_ns)

    def _take_strays(self, now_ns: int) -> None:
        """Take what mirrors of other types have: it is before what the new mirrors have."""
        self._is_taking = True
        try:
            for other in self._bridge.groups.from_dds(self):
                for reader in list(other.readers):
                    other.take(reader, now_ns)
        finally:
            self._is_taking = False

    def put_strays(self, taken: list[Taken], reader: int, of: ReaderClass) -> None:
        """Put samples of this route that a mirror of another type brought (D-265).

        A new writer may match that mirror before this route has one of its own.
        """
        now_ns = self._bridge.now_ns()
        if self._mirrors and now_ns >= self._strays_end_ns:
            self._bridge.counts.duplicate("D-265", len(taken))
        elif self._out.count >= self._bridge.limits.dds_reader_count:
            self.counts.lose("no room", len(taken))
        else:
            self.sorter.overlap.extend(now_ns + SETTLE_NS)
            self._put_taken(taken, reader, of)
            self.drain(now_ns)

    def _pass(self, taken: list[Taken], reader: int) -> None:
        """Put taken samples; while a mirror replaces another one, in the order of their writers."""
        if not self._retiring:
            self._put_taken(taken, reader)
            return
        old = next((one for one in self._retiring if one.mirror.handle == reader), None)
        if old is not None:
            self._pass_old(taken, old)
            return
        for one in [one for one in self._retiring if one.of == self._classes[reader]]:
            self._empty(one)
            taken = self._hold_new(taken, reader, one)
        self._put_taken(taken, reader)

    def _pass_old(self, taken: list[Taken], old: Retiring) -> None:
        self._put_taken(taken, old.mirror.handle)
        for writer in old.reached(taken):
            self._release(old, writer)

    def _hold_new(self, taken: list[Taken], reader: int, old: Retiring) -> list[Taken]:
        """Hold samples of a new mirror that the old one will bring, too; returns the others."""
        now_ns = self._bridge.now_ns()
        writers = {info.publication_handle for _, info in taken} - old.heard
        if writers:
            matched = set(self._dds.unmatched(old.mirror, is_writer=False).matched)
            resends = old.of.reliability is Reliability.RELIABLE and self._period_ns is None
            for writer in writers if not resends else writers - matched:
                self._release(old, writer)
        passing = []
        for sample in taken:
            info = sample[1]
            writer = info.publication_handle
            if writer not in old.heard and writer not in old.held:
                source = self.sorter.writers.get(writer)
                if source is None or self.sorter.overlap.has(source.guid, identity_of(*sample)):
                    old.hear(writer, now_ns)
            if writer in old.heard:
                passing.append(sample)
            else:
                old.hold(sample, reader, now_ns)
        self._bridge.upkeep.touch_at(self, old.due_ns(now_ns))
        return passing

    def _release(self, old: Retiring, writer: int) -> None:
        """Put what was held of a writer."""
        held = old.release(writer, self._bridge.now_ns())
        self._bridge.upkeep.touch_at(self, old.settled_ns)
        if held is not None and held.reader in self._classes:
            self._put_taken(held.samples, held.reader)

    def _empty(self, old: Retiring) -> None:
        while taken := self._dds.take(old.mirror.handle, TAKE_COUNT):
            self._pass_old(taken, old)

    def poll(self, now_ns: int) -> int | None:
        """Do what is due of a route with a rate or without room; returns when to call again."""
        self._retire(now_ns)
        if self._out:
            if self.retry_ns is None or now_ns >= self.retry_ns:
                self.drain(now_ns)
            return self.retry_ns
        if self._period_ns is None or self._is_waiting:
            return None
        if now_ns >= self._due_ns:
            self._due_ns = max(self._due_ns + self._period_ns, now_ns)
            for reader in list(self._classes):
                while taken := self._dds.take(reader, TAKE_COUNT):
                    self._pass(taken, reader)
            self.drain(now_ns)
        return self._due_ns if self._classes else None

    def _put_taken(self, taken: list[Taken], reader: int, of: ReaderClass | None = None) -> None:
        """Put samples of a mirror reader: one of this route, or of another type (`of`)."""
        of = of or self._classes[reader]
        old = next((one for one in self._retiring if one.mirror.handle == reader), None)
        type_ = self._bridge.mirror_qos[reader][1]
        taking = Taking(
            of,
            is_exact=type_.tier is Tier.EXACT,
            left=None if old is None else old.heard,
            continued={writer for one in self._retiring if one.of == of for writer in one.heard},
            is_replacing=bool(self._retiring),
            has_strays=not self._mirrors or self._bridge.now_ns() < self._strays_end_ns,
        )
        for route, samples in self.sorter.sort(taken, taking).items():
            route.put_strays(samples, reader, of)

    def _count_rejected(self, reader: int) -> None:
        """Count what a full mirror reader dropped; what is reliable is sent again (D-351)."""
        of = self._classes.get(reader)
        if of is not None and of.reliability is Reliability.BEST_EFFORT:
            count = self._dds.rejected(reader)
            if count > 0:
                self.counts.lose("no room in dds", count)

    def drain(self, now_ns: int) -> None:
        """Put what waits, as far as there is room (D-407)."""
        if not self._out.put(now_ns):
            self._hold(now_ns)
            return
        if self.retry_ns is not None:
            self.retry_ns = None
            self._back_off_ns = BACK_OFF_NS
            if self._period_ns is None and not self._is_waiting:
                for reader in self._classes:
                    self._dds.pause(reader, paused=False)

    def _hold(self, now_ns: int) -> None:
        if self.retry_ns is None:
            for reader in self._classes:
                self._dds.pause(reader, paused=True)
        self.retry_ns = now_ns + self._back_off_ns
        self._back_off_ns = min(2 * self._back_off_ns, BACK_OFF_NS_MAX)
        self._bridge.upkeep.touch_at(self, self.retry_ns)
