"""Gateway: all devices, and what they and the data space have to tell each other (12, 13, 15, 18).

It is driven like a session: frames, the time, and what others wrote come in; frames and effects go
out. Devices of one gateway reach each other here; what they write is told to the data space as
well, which must not tell it back.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

from elea.decode.layout import Layout
from elea.encoding import Encoding
from elea.errors import ClosedError, RemoteProtocolError
from elea.xrce.channel.conduits import Numbered
from elea.xrce.closing import CloseReason, violation
from elea.xrce.declaration_records import (
    CommitDecl,
    ResourceDecl,
    ResultDecl,
)
from elea.xrce.declarations import (
    Action,
    Changes,
    Declarations,
    Named,
    Publisher,
    Rules,
    Subscriber,
)
from elea.xrce.framing import Marked
from elea.xrce.gateway.device import Device, with_id
from elea.xrce.gateway.effects import (
    Describe,
    Effect,
    Joined,
    Left,
    Lost,
    Subscribe,
    Undescribe,
    Unsubscribe,
    Unwatch,
    Watch,
)
from elea.xrce.gateway.flow import Flow
from elea.xrce.gateway.interest import Owner, Registry, Stale, Wanted
from elea.xrce.gateway.outlet import Outlet
from elea.xrce.gateway.rest import AtRest
from elea.xrce.gateway.settings import GatewayCounters, GatewaySettings
from elea.xrce.gateway.subscription import Subscription
from elea.xrce.message_records import (
    BatchedData,
    Declare,
    Frag,
    Open,
    Pull,
    StreamData,
    WriteData,
)
from elea.xrce.names import Resource, to_key
from elea.xrce.properties import (
    ACCEPTS_BATCHES,
    ACCEPTS_FRAGMENTS,
    DDS_DESCRIPTION,
)
from elea.xrce.qualities import Level
from elea.xrce.samples.keys import key_expressions
from elea.xrce.samples.sample import Sample
from elea.xrce.session.acceptor import Accepted, Acceptor
from elea.xrce.session.scouting import ScoutAnswerer
from elea.xrce.session.session import Delivered, Ended
from elea.xrce.session.settings import SessionSettings
from elea.xrce.status import RefusedError, Status
from elea.xrce.transactions import Settled

_Source = TypeVar("_Source")
_REVIEW_NS: Final = 1_000_000_000


class Gateway(Generic[_Source]):
    """All devices of one broker.

    Args:
        session: Who the broker is.
        settings: How it serves its devices.
        scouting: What is answered to Scouts; None answers nothing.
        authenticate: As of an `Acceptor`.
        moves: Whether a session follows its pid to another source (A-15).
        host_of: What sources of one host have in common, to bound their sessions; None: no bound.
        is_stream: Whether a source is a stream.
        frame_len_of: As of an `Acceptor`.
    """

    def __init__(
        self,
        session: SessionSettings,
        settings: GatewaySettings,
        *,
        scouting: ScoutAnswerer | None = None,
        authenticate: Callable[[Open, bytes | None], bool] | None = None,
        moves: bool = True,
        host_of: Callable[[_Source], Hashable | None] = lambda _source: None,
        is_stream: Callable[[_Source], bool] = lambda _source: False,
        frame_len_of: Callable[[bytes | None, _Source], int | None] = lambda _pid, _source: None,
    ) -> None:
        self.counters = GatewayCounters()
        self.acceptor: Acceptor[_Source] = Acceptor(
            session,
            scouting=scouting,
            authenticate=authenticate,
            moves=moves,
            host_of=host_of,
            is_stream=is_stream,
            frame_len_of=frame_len_of,
        )
        self.devices: dict[bytes, Device] = {}
        self._session = session
        self.settings = settings
        self._effects: deque[Effect] = deque()
        wanted = Wanted(
            lambda one: self._effects.append(Subscribe(one)),
            lambda one: self._effects.append(Unsubscribe(one)),
        )
        self._watched = Wanted(lambda one: self._effects.append(Watch(one)), self._unwatch)
        self._subscribers = Registry(wanted)
        self._publishers = Registry(self._watched)
        self._durable = Registry(wanted)  # publishers whose data the gateway keeps
        self._resources = Registry()  # names without wildcards, for their properties
        self._described = Registry(  # those of them that are topics of DDS
            Wanted(
                lambda one: self._effects.append(Describe(one)),
                lambda one: self._effects.append(Undescribe(one)),
            )
        )
        self.at_rest = AtRest(settings, self._resources.index, self._named)
        self._stale = Stale(self._publishers.index)
        self._read: set[str] = set()  # key expressions with readers elsewhere
        self._flow = Flow(
            settings,
            self.devices,
            self.at_rest,
            self._subscribers.index,
            self.counters,
            tell=self._effects.append,
            pump=self._pump,
            end=self._end,
            lost=self._count_losses,
        )
        self._timers: list[tuple[int, bytes]] = []
        self._anew: tuple[bytes, Declarations] | None = None  # of a device that begins anew
        self._revision = settings.revision()
        self._review_ns: int | None = None  # while something is withheld: when to look at rules

    def _unwatch(self, key_expr: str) -> None:
        self._read.discard(key_expr)
        self._effects.append(Unwatch(key_expr))

    # Inputs.

    def receive(
        self, frame: bytes, source: _Source, now_ns: int, *, group: bytes | None = None
    ) -> None:
        """A frame of a device, to a group if one is named."""
        self._review(now_ns)
        pid = self.acceptor.receive(frame, source, now_ns, group=group)
        self._events(now_ns)
        device = self.devices.get(pid) if pid is not None else None
        if device is not None:  # its window may have moved on
            self._pump(device, now_ns)
            self._count_losses(device)
            if device.needs_nudge:
                device.nudges_count += self.acceptor.ping(device.pid, now_ns)

    def put(self, sample: Sample, now_ns: int) -> None:
        """Somebody else than our devices wrote, or deleted."""
        self._review(now_ns)
        self.at_rest.follow(sample, now_ns)
        self._flow.offer(sample, now_ns)

    def matched(self, key_expr: str, now_ns: int, *, matched: bool) -> None:
        """There are readers elsewhere of a key expression that is watched, or none any more."""
        if matched is (key_expr in self._read) or key_expr not in self._watched:
            return
        (self._read.add if matched else self._read.discard)(key_expr)
        for owner in self._publishers.owners(key_expr):
            self._stale.add(owner, now_ns)

    def answered(self, query_id: int, samples: Iterable[Sample], now_ns: int) -> None:
        """All that the data space answers to an `Ask`."""
        self._review(now_ns)
        self._flow.answered(query_id, samples, now_ns)

    def close(self, pid: bytes, now_ns: int) -> None:
        """End the session of a device in order."""
        self.acceptor.close(pid, now_ns)
        self._events(now_ns)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due."""
        self._review(now_ns)
        self.acceptor.handle_timer(now_ns)
        self._events(now_ns)
        while self._timers and self._timers[0][0] <= now_ns:
            at, pid = heapq.heappop(self._timers)
            device = self.devices.get(pid)
            if device is None or device.timer_ns != at:
                continue
            device.timer_ns = None
            device.expire(now_ns)
            self._flow.expire(device, now_ns)
            self._pump(device, now_ns)
        if self._stale.due_ns is not None and self._stale.due_ns <= now_ns:
            self._refresh(now_ns)

    # Outputs.

    def data_to_send(self, now_ns: int) -> list[tuple[_Source, bytes]]:
        """Frames and where they go, in order."""
        self._flow.release(now_ns)
        return self.acceptor.data_to_send(now_ns)

    def is_pressed(self, now_ns: int) -> bool:
        """Whether more waits for some device than should: the data space is to hold back.

        Whoever drives a gateway calls `put` no more until this is False, so that its own queue
        fills, and those behind it. One device can do this for two seconds; then what waits for it
        grows until its session ends.
        """
        return self._flow.is_pressed(now_ns)

    def settled(self, now_ns: int, *, kept: bool) -> None:
        """All that devices wrote is on disk; or not, and they are not to be told that it is."""
        unkept = self._flow.unkept if kept else self._flow.unsettled
        error = violation(CloseReason.RESOURCES, "what it wrote could not be kept")
        while unkept:
            self.acceptor.violated(unkept.pop(), error, now_ns, unsaid=True)
        self._flow.unsettled.clear()
        self._flow.unkept.clear()
        self._events(now_ns)

    def next_effect(self) -> Effect | None:
        """What is to be done in the data space, oldest first."""
        return self._effects.popleft() if self._effects else None

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        due = [self.acceptor.next_timer_ns(), self._stale.due_ns, self._review_ns]
        due.append(self._timers[0][0] if self._timers else None)
        return min((at for at in due if at is not None), default=None)

    # Sessions.

    def _events(self, now_ns: int) -> None:
        while (told := self.acceptor.next_event()) is not None:
            pid, event = told
            device = self.devices.get(pid)
            match event:
                case Accepted():
                    self._accepted(pid, event, now_ns)
                case Ended():
                    if device is not None:
                        self._ended(device, event, now_ns)
                case Delivered():
                    if device is not None:
                        self._guarded(device, event.marked, now_ns)

    def _accepted(self, pid: bytes, event: Accepted, now_ns: int) -> None:
        session = self.acceptor.session(pid)
        if session is None:  # it ended at once, and its end is told next
            return
        frame_len = session.frame_len
        way = _Way(self, pid)
        outlet = Outlet(
            way,
            bits=event.properties.bits,
            frame_len=frame_len,
            batches=bool(event.properties.capabilities & ACCEPTS_BATCHES),
            named=event.properties.is_ours,
            message_len=event.properties.message_len,
            limits=self.settings.limits,
        )
        self.devices[pid] = Device(
            pid,
            event.properties,
            outlet,
            session,
            locators=event.locators,
            commit_mode=self._session.properties.commit_mode,
            limits=self.settings.limits,
            rules=way,
            presets=self.settings.presets_of(pid),
        )
        if self._anew is not None and self._anew[0] == pid:
            before = self._anew[1]
            self.devices[pid].table.retire(before.names, before.retired)
        self._anew = None
        self._effects.append(Joined(pid, event.properties))
        for id_ in self.devices[pid].publishing():
            self._publish(self.devices[pid], id_, now_ns)

    def _ended(self, device: Device, event: Ended, now_ns: int) -> None:
        for id_ in list(device.subscriptions):
            self._subscribe(device, id_, None, now_ns)
        for id_ in device.publishing():
            self._publishers.set((device.pid, id_), None)
            self._durable.set((device.pid, id_), None)
        for id_ in device.table.names:
            self._resources.set((device.pid, id_), None)
            self._described.set((device.pid, id_), None)
        self._count_losses(device)
        self._flow.forget(device)
        self._anew = (device.pid, device.table) if event.anew else None
        del self.devices[device.pid]
        self.counters.ended += 1
        self._effects.append(Left(device.pid, event.reason, event.text))

    def _count_losses(self, device: Device) -> None:
        """Add up, and tell, what was lost on the way from or to a device since the last time."""
        total = device.losses
        if total != device.losses_told:
            before, device.losses_told = device.losses_told, total
            counters = self.counters
            counters.gaps += total.gaps - before.gaps
            counters.fragments_dropped += total.fragments_dropped - before.fragments_dropped
            counters.too_long += total.too_long - before.too_long
            self._effects.append(Lost(device.pid, before, total))

    def _guarded(self, device: Device, marked: Marked, now_ns: int) -> None:
        """A message of a device; what it must not say ends its session."""
        try:
            self._message(device, marked, now_ns)
            self._pump(device, now_ns)
        except RemoteProtocolError as error:
            self._end(device, error, now_ns)

    def _end(self, device: Device, error: RemoteProtocolError, now_ns: int) -> None:
        self.acceptor.violated(device.pid, error, now_ns)
        self._events(now_ns)

    # Messages.

    def _message(self, device: Device, marked: Marked, now_ns: int) -> None:
        message = marked.message
        match message:
            case Declare():
                self._declare(device, message, marked.conduit, now_ns)
            case StreamData() | WriteData() | BatchedData():
                group = self.acceptor.group_of(device.pid, marked.conduit)
                for written, payload in device.samples(message):
                    self._flow.write(
                        device, written, payload, now_ns, reliable=message.reliable, group=group
                    )
            case Pull():
                self._flow.pull(device, message, now_ns)
            case _:
                pass  # sessions deal with the rest

    def _declare(self, device: Device, message: Declare, conduit: int, now_ns: int) -> None:
        device.note_names(message.declarations)
        for one in message.declarations:
            if isinstance(one, ResultDecl):
                settled = device.settled(one)
                if settled is not None:
                    self._settled(device, settled, now_ns)
        if not message.committed:
            device.incoming.receive(message, conduit)
            return
        facts = [one for one in message.declarations if not isinstance(one, ResultDecl)]
        if any(isinstance(one, CommitDecl) for one in facts):
            raise violation(CloseReason.DECLARATION, "a Commit among facts")
        self._changed(device, device.table.apply(facts), now_ns)

    def _decide(self, device: Device, now_ns: int) -> None:
        """Answer transactions, as long as answers can be sent: those that wait are held."""
        while device.outlet.is_clear and (asked := device.incoming.next()) is not None:
            refused = None
            changes = None
            try:
                changes = device.table.apply(asked.declarations) if not asked.refused else None
            except RefusedError as error:
                refused = error
            result = asked.result(refused)
            if result.id and not device.outlet.fits((result,)):  # 0 is some id
                result = ResultDecl(commit_id=result.commit_id, status=result.status, id=0)
            device.outlet.declare((result,), now_ns)
            device.answered = False
            if changes is not None:
                self._changed(device, changes, now_ns)

    def _settled(self, device: Device, settled: Settled, now_ns: int) -> None:
        """The device has an id for a name now, or does not want one."""
        for one in settled.declarations:
            if isinstance(one, ResourceDecl):
                device.asked_rids = with_id(device.asked_rids, one.rid, there=False)
        if settled.status is not Status.SUCCESS:
            return
        try:
            self._changed(device, device.apply_ours(settled.declarations), now_ns)
        except RefusedError:  # the device took the id for something else meanwhile
            return

    # What devices declare.

    def _changed(self, device: Device, changes: Changes, now_ns: int) -> None:
        renamed = [change.id for change in changes.names]
        for id_ in dict.fromkeys(renamed):
            self._name(device, id_)
        for id_ in dict.fromkeys([*renamed, *(one.id for one in changes.publishers)]):
            self._publish(device, id_, now_ns)
        for id_ in dict.fromkeys([*renamed, *(one.id for one in changes.subscribers)]):
            self._subscribe(device, id_, device.table.subscribers.get(id_), now_ns)

    def _name(self, device: Device, id_: int) -> None:
        named = device.table.names.get(id_)
        resource = named.resource if named is not None and id_ % 2 == 0 else None
        path = resource.path if resource is not None and resource.is_trivial else None
        before = self._resources.set((device.pid, id_), path)
        device.renamed(id_, before, path)
        is_topic = (
            named is not None
            and path is not None
            and DDS_DESCRIPTION in named.properties
            and device.properties.is_ours
            and self.settings.allows(device.pid, Action.WRITE, key_expressions(path))
        )
        self._described.set((device.pid, id_), path if is_topic else None)

    def description_of(self, key: str) -> bytes | None:
        """Property 1 of a resource as a device says it; None if none does."""
        for owner in self._described.owners(key):
            return self._named(owner).properties[DDS_DESCRIPTION]
        return None

    def _named(self, owner: Owner) -> Named:
        pid, id_ = owner
        return self.devices[pid].table.names[id_]

    def _publish(self, device: Device, id_: int, now_ns: int) -> None:
        owner = device.pid, id_
        publisher, named = device.publisher(id_), device.table.named(id_)
        if publisher is None or named is None:
            self._publishers.set(owner, None)
            self._durable.set(owner, None)
            device.matched = with_id(device.matched, id_, there=False)  # it is told so
            return
        path = named.resource.path
        self._publishers.set(owner, path)
        self._durable.set(owner, path if self.at_rest.keeps(named, publisher) else None)
        self._stale.add(owner, now_ns)

    def _subscribe(
        self, device: Device, id_: int, subscriber: Subscriber | None, now_ns: int
    ) -> None:
        owner = device.pid, id_
        old = device.subscriptions.pop(id_, None)
        device.set_periodic(id_, None)
        if old is not None:
            self._stale.around(old.path, now_ns)
            self._flow.forget_history(device, id_)
        named = device.table.named(id_)
        if subscriber is None or named is None:
            self._subscribers.set(owner, None)
            return
        limits = self.settings.limits
        sub = Subscription.of(id_, subscriber, named, device.lease_ns, limits, now_ns)
        self._subscribers.set(owner, sub.path)
        device.subscriptions[id_] = sub
        if sub.is_periodic:
            device.set_periodic(id_, sub)
        self._stale.around(sub.path, now_ns)
        self._flow.begin(device, sub, now_ns)

    def _review(self, now_ns: int) -> None:
        """Apply rules that changed: withhold what devices may not read now, give what they may."""
        revision = self.settings.revision()
        if self._review_ns is not None and self._review_ns <= now_ns:
            self._review_ns = now_ns + _REVIEW_NS
        if revision is self._revision:
            return
        self._revision = revision
        self._review_ns = None
        for device in list(self.devices.values()):
            for id_, subscriber in list(device.table.subscribers.items()):
                named = device.table.named(id_)
                if named is None:
                    continue
                allowed = device.rules.allows(Action.READ, named.resource)
                if not allowed:  # nothing may come meanwhile that would make us look again
                    self._review_ns = now_ns + _REVIEW_NS
                if allowed is not (id_ in device.subscriptions):
                    self._subscribe(device, id_, subscriber if allowed else None, now_ns)
            device.review_rests()

    # Interest.

    def _refresh(self, now_ns: int) -> None:
        """Look again which publishers have readers, and tell them."""
        changed: dict[bytes, Device] = {}
        for pid, id_ in self._stale.take():
            device = self.devices.get(pid)
            publisher = device.publisher(id_) if device is not None else None
            if device is None or publisher is None:
                continue
            matched = self._is_matched(device, id_, publisher)
            if matched is not (id_ in device.matched):
                device.matched = with_id(device.matched, id_, there=matched)
                changed[pid] = device
        for device in changed.values():
            self._pump(device, now_ns)

    def _is_matched(self, device: Device, id_: int, publisher: Publisher) -> bool:
        named = device.table.named(id_)
        if named is None:
            return False
        if self.settings.interest_always or self.at_rest.keeps(named, publisher):
            return True
        path = named.resource.path
        if any(one in self._read for one in key_expressions(path)):
            return True
        offered = publisher.qualities.over(named.qualities).offered or Level.VOLATILE
        return any(
            offered >= self.devices[pid].subscriptions[sid].requested
            for pid, sid in self._subscribers.index.matching(path)
            if pid != device.pid or not device.is_peer  # which gets no echo
        )

    # Everything that waits for a device.

    def _pump(self, device: Device, now_ns: int) -> None:
        """Send what may be sent now, and note when there may be more."""
        if self.devices.get(device.pid) is not device:
            return
        try:
            if device.outlet.flush(now_ns):
                self._decide(device, now_ns)
                if not device.is_asleep(now_ns):
                    device.tell_interest(now_ns)
                device.serve(now_ns)
            while device.outlet.is_clear and (said := device.next_declares()) is not None:
                device.outlet.declare(said, now_ns)
        except RemoteProtocolError as error:
            self._end(device, error, now_ns)
            return
        self._flow.weigh(device, now_ns)
        session = self.acceptor.session(device.pid)
        if session is not None and not session.conduits.unacknowledged_count:
            device.answered = True
        self.acceptor.sleep(device.pid, now_ns, asleep=device.is_asleep(now_ns))
        at = device.next_timer_ns(now_ns)
        if at is not None and (device.timer_ns is None or at < device.timer_ns):
            device.timer_ns = at
            heapq.heappush(self._timers, (at, device.pid))


class _Way(Rules, Generic[_Source]):
    """The way to one device, and what its declarations are held against: one small object."""

    __slots__ = ("_gateway", "_pid")

    def __init__(self, gateway: Gateway[_Source], pid: bytes) -> None:
        self._gateway = gateway
        self._pid = pid

    def send(
        self,
        make: Callable[[int], Numbered],
        now_ns: int,
        *,
        fragment: Callable[[int], Frag] | None = None,
    ) -> bool:
        try:
            return self._gateway.acceptor.send(self._pid, make, now_ns, fragment=fragment)
        except ClosedError:
            return True  # it is closing: nobody wants it any more

    def reads_fragments(self) -> bool:
        session = self._gateway.acceptor.session(self._pid)
        device = self._gateway.devices.get(self._pid)
        seen = session is not None and session.fragments_seen
        return seen or (device is not None and device.can(ACCEPTS_FRAGMENTS))

    def layout_of(self, resource: Resource) -> Layout | None:
        layout_of = self._gateway.settings.layout_of
        if not resource.is_trivial:
            return None
        return layout_of(to_key(resource), Encoding.ZENOH_BYTES)

    def admit(self, named: Named, publisher: Publisher) -> str | None:
        return self._gateway.at_rest.admit(named, publisher)

    def allows(self, action: Action, resource: Resource) -> bool:
        key_exprs = key_expressions(resource.path)
        allowed = self._gateway.settings.allows(self._pid, action, key_exprs)
        self._gateway.counters.forbidden += not allowed
        return allowed
