"""One device at the gateway: what it declared, what it is owed, what it wrote wrongly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from elea.encoding import Encoding
from elea.errors import InvalidValueError, LimitError
from elea.limits import Limits
from elea.xrce.declaration_records import (
    PUSH_MODE_ID,
    Declaration,
    ForgetSubscriberDecl,
    ResourceDecl,
    ResultDecl,
    SelectionDecl,
    SubscriberDecl,
)
from elea.xrce.declarations import Action, Changes, Declarations, Named, Publisher, Rules
from elea.xrce.gateway.effects import Losses
from elea.xrce.gateway.outlet import Outlet
from elea.xrce.gateway.subscription import Subscription
from elea.xrce.message_records import (
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
from elea.xrce.transactions import Incoming, Outgoing, Settled

Ids: TypeAlias = set[int] | frozenset[int]
NO_IDS: Final[frozenset[int]] = frozenset()
NO_LOSSES: Final = Losses()
# Shared by all that have none, and never changed: an empty dictionary takes 64 octets.
_NO_SUBSCRIPTIONS: Final[dict[int, Subscription]] = {}
_NO_RESTS: Final[dict[tuple[int, int], Rest]] = {}
_NO_QUERIES: Final[dict[int, Query]] = {}
# Peers declare no publishers: each of their resources may be one.
_MAY_PUBLISH: Final = Publisher(Qualities())
_NUDGES_COUNT: Final = 256
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


def with_id(ids: Ids, id_: int, *, there: bool) -> Ids:
    """These ids, with one or without it; those that were given are not to be used any more."""
    if isinstance(ids, frozenset):
        return {id_} if there else ids
    (ids.add if there else ids.discard)(id_)
    return ids or NO_IDS


class Device:
    """The state of one session."""

    __slots__ = (
        "_counters",
        "_limits",
        "_outgoing",
        "_rids",
        "_session",
        "_style_known",
        "answered",
        "asked_rids",
        "incoming",
        "locators",
        "losses_told",
        "matched",
        "matched_told",
        "nudges_count",
        "outlet",
        "periodic",
        "pid",
        "properties",
        "queries",
        "rests",
        "rules",
        "subscriptions",
        "table",
        "timer_ns",
    )

    def __init__(
        self,
        pid: bytes,
        properties: SessionProperties,
        outlet: Outlet,
        session: Session,
        *,
        locators: tuple[bytes, ...],
        commit_mode: int,
        limits: Limits,
        rules: Rules,
        presets: Mapping[int, Named],
    ) -> None:
        self.pid = pid
        self.properties = properties
        self.outlet = outlet
        self.locators = locators  # groups that it hears are among them
        self.losses_told = NO_LOSSES
        self._session = session
        ours = properties.is_ours
        self.rules = rules
        self._limits = limits
        self.table = Declarations(vendor=ours, limits=limits, rules=rules, presets=presets)
        self.incoming = Incoming(commit_mode, limits)
        self._outgoing: Outgoing | None = None  # what the gateway declares, if anything
        self.subscriptions: dict[int, Subscription] = {}
        self.periodic: dict[int, Subscription] = _NO_SUBSCRIPTIONS
        # Most devices have none of these, and an empty set takes 216 octets.
        self.matched: Ids = NO_IDS  # publishers that should be told of a reader
        self.matched_told: Ids = NO_IDS  # and those that were
        self.asked_rids: Ids = NO_IDS  # ids of ours that the device has not answered about
        self.rests: dict[tuple[int, int], Rest] = _NO_RESTS
        self.queries: dict[int, Query] = _NO_QUERIES
        self._counters: Counters | None = None  # from the first drop on
        self._rids: dict[str, int] | None = None
        self.nudges_count = 0  # Pings since it declared what it has not committed
        self.answered = True  # it has the Results of its transactions
        self.timer_ns: int | None = None  # when the gateway looks at it next
        self._style_known = False

    @property
    def lease_ns(self) -> int:
        """Its lease; 0 never ends."""
        return self._session.peer_lease_ns

    @property
    def counters(self) -> Counters:
        """What was dropped, to be counted on."""
        self._counters = self._counters or Counters()
        return self._counters

    @property
    def losses(self) -> Losses:
        """What was lost on the way from it, or to it."""
        session = self._session
        return Losses(
            session.conduits.gap_count,
            session.dropped_fragments_count,
            self.outlet.too_long_count,
        )

    @property
    def is_peer(self) -> bool:
        """Whether it speaks with others than us, too: then it said where it hears them (12.2)."""
        return bool(self.locators) and not self.properties.is_ours

    def publisher(self, id_: int) -> Publisher | None:
        """Who publishes under an id; None if nobody does."""
        found = self.table.publishers.get(id_)
        maybe = found is None and self.is_peer and self.table.known(id_) is not None
        return _MAY_PUBLISH if maybe else found

    @property
    def needs_nudge(self) -> bool:
        """Whether it has not committed what it declared.

        There are devices that go on with that only when they receive something.
        """
        if not self.incoming.is_open or self.properties.is_ours:
            self.nudges_count = 0
            return False
        return self.nudges_count < _NUDGES_COUNT

    def publishing(self) -> set[int]:
        """All ids that somebody may publish under."""
        ids = set(self.table.publishers)
        return ids.union(self.table.names, self.table.presets) if self.is_peer else ids

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

    def set_periodic(self, id_: int, sub: Subscription | None) -> None:
        """A subscriber has windows, or none."""
        if sub is not None:
            self.periodic = self.periodic or {}
            self.periodic[id_] = sub
        elif id_ in self.periodic:
            del self.periodic[id_]

    def ask(self, query_id: int, query: Query) -> None:
        """Something was asked of the data space for it."""
        self.queries = self.queries or {}
        self.queries[query_id] = query

    def next_declares(self) -> tuple[Declaration, ...] | None:
        """What the gateway declares next, if it may."""
        return self._outgoing.next() if self._outgoing is not None else None

    def settled(self, result: ResultDecl) -> Settled | None:
        """What of that a Result is about."""
        return self._outgoing.result(result) if self._outgoing is not None else None

    def apply_ours(self, declarations: Iterable[Declaration]) -> Changes:
        """Apply what the gateway declared, and the device has accepted: names for both.

        Raises:
            RefusedError: The device took an id for something else meanwhile.
        """
        names = self.table.names
        ours = Declarations(names, global_ids=True, vendor=True, limits=self._limits)
        return ours.apply(declarations)

    def rid_of(self, path: str) -> int | None:
        """The id of a name without wildcards that the device knows; the first of several."""
        if self._rids is None:  # from now on it is kept up; most devices never need it
            self._rids = {}
            for id_, named in self.table.names.items():
                if id_ % 2 == 0 and named.resource.is_trivial:
                    self._rids.setdefault(named.resource.path, id_)
        return self._rids.get(path)

    def renamed(self, id_: int, before: str | None, path: str | None) -> None:
        """An id stands for another resource without wildcards, or for none."""
        if self._rids is None:
            return
        if before is not None and self._rids.get(before) == id_:
            del self._rids[before]
        if path is not None:
            self._rids.setdefault(path, id_)

    def free_rid(self) -> int | None:
        """An id for a name that the device did not name itself."""
        used = self.table.names
        taken = self.table.subscribers.keys() | self.table.publishers.keys()
        taken |= self.table.presets.keys()
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
        self.rests = self.rests or {}
        self.rests.pop((id_, pull_id), None)
        self.rests[id_, pull_id] = rest
        while len(self.rests) > PULL_SESSIONS_COUNT:
            del self.rests[next(iter(self.rests))]

    def review_rests(self) -> None:
        """Rules changed: forget what it asked for and may not ask for any more."""
        for place, rest in list(self.rests.items()):
            if not self.may_ask(place[0], rest.named):
                del self.rests[place]

    def may_ask(self, id_: int, named: Named) -> bool:
        """Whether it may have what is at rest under an id; it may if it subscribes to it."""
        return id_ in self.subscriptions or self.rules.allows(Action.ASK, named.resource)

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
        if not self.rules.allows(Action.WRITE, actual.resource):
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
        if not self.rules.allows(Action.WRITE, resource):
            self.counters.forbidden += 1
            return None
        rid = self.rid_of(resource.path)
        known = self.table.named(rid) if rid is not None else None
        if known is not None:
            qualities = qualities.over(known.qualities)
        return Written(key, resource.path, qualities, qualities.encoding or Encoding.ZENOH_BYTES)

    # What it is told.

    def tell_interest(self, now_ns: int) -> None:
        """Tell publishers of their first reader, or that the last one is gone (12.2)."""
        for id_ in sorted(self.matched ^ self.matched_told):
            said: Declaration = ForgetSubscriberDecl(id=id_)
            if id_ in self.matched:
                said = SubscriberDecl(id=id_, mode=PUSH_MODE_ID)
            if self.outlet.fits((said,)):
                self.outlet.declare((said,), now_ns, committed=True)
            else:  # it has no way to hear of it; by name, and under other ids, it may write
                self.outlet.too_long_count += 1
            self.matched_told = with_id(self.matched_told, id_, there=id_ in self.matched)
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
        # Where ids were agreed on, names say nothing to the device.
        wild = not named.resource.is_trivial and id_ in self.table.names
        rid = self.rid_of(sample.path) if wild and self.outlet.uses_prids else None
        path = self.outlet.sample(id_, sample, now_ns, wild=wild, reliable=reliable, rid=rid)
        rid = self.free_rid() if path is not None else None
        if path is None or rid is None:
            return
        name = Resource(path).spelled(self.outlet.style).encode()
        said = ResourceDecl(rid=rid, resource=name)
        if not self.outlet.fits((said,)):
            return  # it goes on by name
        try:
            self._outgoing = self._outgoing or Outgoing(
                self.properties.commit_mode, self._session.frame_len
            )
            self._outgoing.ask([said])
        except LimitError:
            return  # it goes on by name
        self.asked_rids = with_id(self.asked_rids, rid, there=True)

    def hears_by_name(self, id_: int, named: Named, path: str) -> bool:
        """Whether a device of another vendor gets a sample for a subscriber by its name (12.3)."""
        if self.outlet.is_named or named.resource.is_trivial or id_ not in self.table.names:
            return False
        return not self.outlet.uses_prids or self.rid_of(path) is None

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
