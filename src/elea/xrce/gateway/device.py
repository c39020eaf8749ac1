"""One device at the gateway: what it declared, what it is owed, what it wrote wrongly."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from elea.encoding import Encoding
from elea.errors import InvalidValueError, LimitError
from elea.limits import Limits
from elea.predicate.layout import Layout
from elea.xrce.declarations import Action, Declarations, Named, Publisher
from elea.xrce.declarations_hot import (
    PUSH_MODE_ID,
    Declaration,
    ForgetSubscriberDecl,
    ResourceDecl,
    SelectionDecl,
    SubscriberDecl,
)
from elea.xrce.gateway.effects import Losses
from elea.xrce.gateway.outlet import Outlet
from elea.xrce.gateway.subscription import Subscription
from elea.xrce.messages_hot import (
    BatchedData,
    BatchedDataPayloadPart,
    StreamData,
    WriteData,
)
from elea.xrce.names import Resource, style_of, to_key
from elea.xrce.properties import DDS_DESCRIPTION, WANTS_PULL_END, SessionProperties
from elea.xrce.qualities import Qualities, is_read_only
from elea.xrce.samples.keys import selects
from elea.xrce.samples.sample import Sample
from elea.xrce.samples.store import PULL_SESSIONS_COUNT
from elea.xrce.selections import resource_of
from elea.xrce.session.session import Session
from elea.xrce.status import RefusedError
from elea.xrce.transactions import Incoming, Outgoing

RID_CEILING: Final = 16_382  # our ids go down from here, and take two octets


@dataclass(slots=True)
class Rest:
    """The answer to a Pull on what is at rest, as far as it was not sent."""

    named: Named
    samples: deque[Sample]
    wanted: int | None  # how many more may be sent; None is all
    expires_ns: int
    active: bool = True  # a Pull is being answered


@dataclass(slots=True)
class Written:
    """What a data message of a device says about its sample."""

    key: str
    path: str
    qualities: Qualities
    encoding: Encoding


@dataclass(slots=True)
class Counters:
    """What was dropped, and why."""

    data: int = 0  # samples without a usable name or id
    pulls: int = 0  # of ids that mean nothing
    forbidden: int = 0  # samples and Pulls that it may not have
    refused: int = 0  # durable samples without room


@dataclass(slots=True)
class Query:
    """What was asked of the data space for this device."""

    id: int
    pull_id: int | None  # None: the history of a subscriber
    wanted: int | None
    deadline_ns: int


class Device:
    """The state of one session."""

    def __init__(
        self,
        pid: bytes,
        properties: SessionProperties,
        outlet: Outlet,
        session: Session,
        *,
        locators: tuple[bytes, ...],
        commit_mode: int,
        frame_len: int,
        limits: Limits,
        layout_of: Callable[[Resource], Layout | None],
        admit: Callable[[Named, Publisher], str | None],
        allows: Callable[[Action, Resource], bool],
    ) -> None:
        self.pid = pid
        self.properties = properties
        self.outlet = outlet
        self.locators = locators  # groups that it hears are among them
        self.losses_told = Losses()
        self._session = session
        ours = properties.is_ours
        self.allows = allows
        self.table = Declarations(
            vendor=ours, limits=limits, layout_of=layout_of, admit=admit, allows=allows
        )
        self.told = Declarations(self.table.names, global_ids=True, vendor=True, limits=limits)
        self.incoming = Incoming(commit_mode, limits)
        self.outgoing = Outgoing(properties.commit_mode, frame_len)
        self.subscriptions: dict[int, Subscription] = {}
        self.periodic: dict[int, Subscription] = {}
        self.matched: set[int] = set()  # publishers that should be told of a reader
        self.matched_told: set[int] = set()  # and those that were
        self.rests: OrderedDict[tuple[int, int], Rest] = OrderedDict()
        self.queries: dict[int, Query] = {}
        self.asked_rids: set[int] = set()  # ids of ours that the device has not answered about
        self.counters = Counters()
        self.answered = True  # it has the Results of its transactions
        self.timer_ns: int | None = None  # when the gateway looks at it next
        self._style_known = False

    @property
    def lease_ns(self) -> int:
        """Its lease; 0 never ends."""
        return self._session.peer_lease_ns

    @property
    def losses(self) -> Losses:
        """What was lost on the way from it, or to it."""
        session = self._session
        return Losses(
            session.conduits.gap_count,
            session.dropped_fragments_count,
            self.outlet.too_long_count,
        )

    def can(self, capability: int) -> bool:
        """Whether the device said so."""
        return bool(self.properties.capabilities & capability)

    def note_style(self, names: Iterable[bytes]) -> None:
        """The first name decides how names are spelled for this device (A-2)."""
        if self._style_known:
            return
        for name in names:
            style = style_of(name.decode(errors="replace"))
            if style is not None:
                self._style_known = True
                self.outlet.style = style
                return

    def note_names(self, declarations: tuple[Declaration, ...]) -> None:
        """As `note_style`, of declarations."""
        if not self._style_known:
            said = (one for one in declarations if isinstance(one, ResourceDecl | SelectionDecl))
            self.note_style(
                one.resource if isinstance(one, ResourceDecl) else one.query for one in said
            )

    def free_rid(self) -> int | None:
        """An id for a name that the device did not name itself."""
        used = self.table.names
        taken = self.table.subscribers.keys() | self.table.publishers.keys()
        for rid in range(RID_CEILING, 0, -2):
            if rid not in used and rid not in taken and rid not in self.asked_rids:
                return rid
        return None

    def next_timer_ns(self, now_ns: int) -> int | None:
        """When something is due without the device saying anything."""
        due = [
            one.schedule.next_change_ns(now_ns)
            for one in self.periodic.values()
            if one.schedule is not None
        ]
        due += [query.deadline_ns for query in self.queries.values()]
        due += [rest.expires_ns + 1 for rest in self.rests.values()]
        return min(due, default=None)

    def is_asleep(self, now_ns: int) -> bool:
        """Whether it hears nothing now, by its own wish (13.3).

        It learns from the Result when its windows are, so before that it does not sleep.
        """
        if not self.answered or len(self.periodic) < max(1, len(self.subscriptions)):
            return False
        return not any(one.is_open(now_ns) for one in self.periodic.values())

    def history_queries(self, id_: int) -> list[int]:
        """What was asked for the history of a subscriber."""
        asked = self.queries.items()
        return [number for number, one in asked if one.id == id_ and one.pull_id is None]

    def expire(self, now_ns: int) -> None:
        """Forget answers that nobody went on with."""
        for place, rest in list(self.rests.items()):
            if now_ns > rest.expires_ns:
                del self.rests[place]

    def keep_rest(self, id_: int, pull_id: int, rest: Rest) -> None:
        """Remember what a Pull may go on with."""
        self.rests.pop((id_, pull_id), None)
        self.rests[id_, pull_id] = rest
        while len(self.rests) > PULL_SESSIONS_COUNT:
            self.rests.popitem(last=False)

    # What it writes.

    def samples(
        self, message: StreamData | WriteData | BatchedData
    ) -> Iterator[tuple[Written | None, bytes]]:
        """The samples of a message, in order."""
        if isinstance(message, WriteData):
            yield self.written_to(message.resource), message.payload
        elif isinstance(message, StreamData):
            yield self.written(message.id, message.prid), message.payload
        else:
            for part in message.payload:
                if isinstance(part, BatchedDataPayloadPart):
                    yield self.written(message.id, part.prid), part.payload
                else:
                    yield self.written(message.id, None), part

    def written(self, id_: int, prid: int | None) -> Written | None:
        """What data under an id is; None, and counted, if it is none (A-23)."""
        named = self.table.named(id_)
        actual = named
        if prid is not None:
            self.outlet.uses_prids = True
            actual = self.table.named(prid) if prid % 2 == 0 else None
        if (
            named is None
            or actual is None
            or not actual.resource.is_trivial
            or not selects(named.resource.path, actual.resource.path)
            or is_read_only(actual.resource)
        ):
            self.counters.data += 1
            return None
        if not self.allows(Action.WRITE, actual.resource):
            self.counters.forbidden += 1
            return None
        publisher = self.table.publishers.get(id_)
        qualities = actual.qualities.over(named.qualities)
        if publisher is not None:
            qualities = publisher.qualities.over(qualities)
        described = DDS_DESCRIPTION in actual.properties and self.properties.is_ours
        default = Encoding.APPLICATION_CDR if described else Encoding.ZENOH_BYTES
        return Written(
            to_key(actual.resource),
            actual.resource.path,
            qualities,
            qualities.encoding or default,
        )

    def written_to(self, name: bytes) -> Written | None:
        """The same of data under a name."""
        try:
            resource = resource_of(name)
            qualities = Qualities.of(resource, {}, 0)
            if is_read_only(resource):
                raise InvalidValueError("resource", "it is read-only")
            key = to_key(resource)
        except (RefusedError, InvalidValueError):
            self.counters.data += 1
            return None
        self.note_style((name,))
        if not self.allows(Action.WRITE, resource):
            self.counters.forbidden += 1
            return None
        rid = self.outlet.rids.get(resource.path)
        known = self.table.named(rid) if rid is not None else None
        if known is not None:
            qualities = qualities.over(known.qualities)
        return Written(key, resource.path, qualities, qualities.encoding or Encoding.ZENOH_BYTES)

    # What it is told.

    def tell_interest(self, now_ns: int) -> None:
        """Tell publishers of their first reader, or that the last one is gone (12.2)."""
        wanted: set[int] = self.matched ^ self.matched_told
        for id_ in sorted(wanted):
            said: Declaration = ForgetSubscriberDecl(id=id_)
            if id_ in self.matched:
                said = SubscriberDecl(id=id_, mode=PUSH_MODE_ID)
            if self.outlet.fits((said,)):
                self.outlet.declare((said,), now_ns, committed=True)
            else:  # it has no way to hear of it; by name, and under other ids, it may write
                self.outlet.too_long_count += 1
            (self.matched_told.add if id_ in self.matched else self.matched_told.discard)(id_)
            if not self.outlet.is_clear:
                return

    def post(
        self,
        id_: int,
        named: Named,
        qualities: Qualities,
        sample: Sample,
        now_ns: int,
    ) -> None:
        """Send a sample under an id; a name that comes often is given one (12.3)."""
        reliable = sample.reliable and qualities.reliable is not False
        wild = not named.resource.is_trivial
        path = self.outlet.sample(id_, sample, now_ns, wild=wild, reliable=reliable)
        rid = self.free_rid() if path is not None else None
        if path is None or rid is None:
            return
        name = Resource(path).spelled(self.outlet.style).encode()
        said = ResourceDecl(rid=rid, resource=name)
        if not self.outlet.fits((said,)):
            return  # it goes on by name
        try:
            self.outgoing.ask([said])
        except LimitError:
            return  # it goes on by name
        self.asked_rids.add(rid)

    def serve(self, now_ns: int) -> None:
        """Send what is due of stores and answers, as far as the window takes it."""
        outlet = self.outlet
        for sub in list(self.subscriptions.values()):
            while outlet.is_clear and (ready := sub.ready(now_ns)) is not None:
                sample, pull_id = ready
                self.post(sub.id, sub.named, sub.qualities, sample, now_ns)
                sub.done(pull_id)
            self._end_pulls(sub.id, sub.served_count, now_ns)
            sub.served_count = 0
        for (id_, pull_id), rest in list(self.rests.items()):
            while outlet.is_clear and rest.active and rest.samples and rest.wanted != 0:
                sample = rest.samples.popleft()
                rest.wanted = None if rest.wanted is None else rest.wanted - 1
                self.post(id_, rest.named, rest.named.qualities, sample, now_ns)
            if rest.active and (not rest.samples or rest.wanted == 0):
                rest.active = False
                self._end_pulls(id_, 1, now_ns)
            if not rest.samples:
                del self.rests[id_, pull_id]

    def _end_pulls(self, id_: int, count: int, now_ns: int) -> None:
        if self.can(WANTS_PULL_END):
            for _ in range(count):
                self.outlet.end_of_pull(id_, now_ns)
