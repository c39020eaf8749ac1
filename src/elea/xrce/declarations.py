"""Declarations: what the ids of one session mean, and who publishes and subscribes (9).

Both ends share one space of ids: even ones are resources, odd ones selections. A list of
declarations is applied as a whole or not at all, whatever the order of what refers to what. What
changed is told, so that whoever routes data follows without comparing tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from elea.decode.layout import Layout
from elea.limits import DEFAULT_LIMITS, Limits
from elea.xrce.declaration_records import (
    BindingDecl,
    Declaration,
    ForgetPublisherDecl,
    ForgetResourceDecl,
    ForgetSelectionDecl,
    ForgetSubscriberDecl,
    Property,
    PublisherDecl,
    ResourceDecl,
    SelectionDecl,
    SubscriberDecl,
)
from elea.xrce.names import Resource
from elea.xrce.properties import DEPTH, PARAMETERS, first_of_each, nat_in, texts_in
from elea.xrce.qualities import Qualities, is_read_only
from elea.xrce.selections import Selection, parse_selection, resource_of
from elea.xrce.status import RefusedError, Status

ID_MAX: Final = 2**63 - 1
PERIOD_MAX_MS: Final = 2**32
MODES: Final = range(1, 5)
ANONYMOUS: Final = "@xrce/rid/"  # and the id: a resource that nobody named
RETIRED_COUNT: Final = 4_096  # ids that had a name; beyond, all without one are taken for such

_Value = TypeVar("_Value")


@dataclass(slots=True, frozen=True)
class Named:
    """What an id stands for: a resource, or a selection."""

    selection: Selection
    properties: dict[int, bytes]
    qualities: Qualities
    listed: tuple[Property, ...] = ()  # the properties as they came

    @property
    def resource(self) -> Resource:
        """The resource, of a selection too."""
        return self.selection.resource

    def says_the_same(self, other: Named) -> bool:
        """Whether declaring one when there is the other changes nothing."""
        return self.selection == other.selection and self.properties == other.properties


@dataclass(slots=True, frozen=True)
class Publisher:
    """Somebody may write under an id; what it says goes before what the resource says."""

    qualities: Qualities


@dataclass(slots=True, frozen=True)
class Subscriber:
    """Somebody wants what is written under an id."""

    mode: int
    qualities: Qualities
    depth: int | None = None  # samples of a key that are kept
    origin_ms: int = 0
    period_ms: int = 0
    duration_ms: int = 0


class Action(Enum):
    """What may be allowed, or not."""

    DECLARE = "to declare"
    READ = "to read"
    ASK = "to ask for"  # what is at rest elsewhere
    WRITE = "to write"
    DELETE = "to delete"


@dataclass(slots=True, frozen=True)
class Change(Generic[_Value]):
    """An id that means something else now; None is nothing."""

    id: int
    before: _Value | None
    after: _Value | None


@dataclass(slots=True)
class Changes:
    """All that a list of declarations changed, in order."""

    names: list[Change[Named]]
    publishers: list[Change[Publisher]]
    subscribers: list[Change[Subscriber]]


@dataclass(slots=True)
class _Table(Generic[_Value]):
    entries: dict[int, _Value] = field(default_factory=dict)
    changed: list[Change[_Value]] | None = None  # while a list of declarations is applied

    @property
    def journal(self) -> list[Change[_Value]]:
        """What was changed, in order."""
        return self.changed or []

    def put(self, id_: int, value: _Value | None) -> None:
        self.changed = [] if self.changed is None else self.changed
        self.changed.append(Change(id_, self.entries.get(id_), value))
        self._set(id_, value)

    def undo(self) -> None:
        for change in reversed(self.take()):
            self._set(change.id, change.before)

    def take(self) -> list[Change[_Value]]:
        journal, self.changed = self.journal, None
        return journal

    def _set(self, id_: int, value: _Value | None) -> None:
        if value is None:
            self.entries.pop(id_, None)
        else:
            self.entries[id_] = value


class Retired:
    """Ids that had a name once, so that nothing written under them gets an anonymous key."""

    __slots__ = ("_all", "_ids")

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._all = False  # they were too many to remember

    def add(self, id_: int) -> None:
        """An id had a name."""
        if len(self._ids) >= RETIRED_COUNT:
            self._all = True
            self._ids.clear()
        if not self._all:
            self._ids.add(id_)

    def __contains__(self, id_: object) -> bool:
        return self._all or id_ in self._ids


class Rules:
    """What a declaration is held against; here, nothing."""

    __slots__ = ()

    def layout_of(self, _resource: Resource) -> Layout | None:
        """The type of what is written to a resource, if it is known."""
        return None

    def admit(self, _named: Named, _publisher: Publisher) -> str | None:
        """Why there is no room for what a publisher would write, or None."""
        return None

    def allows(self, _action: Action, _resource: Resource) -> bool:
        """Whether this end may do something with a resource (19.3)."""
        return True


ANYTHING: Final = Rules()
NO_PRESETS: Final[Mapping[int, Named]] = {}


class Declarations:
    """What one end declared, on top of the ids that both share.

    Args:
        names: The ids; the other end's table has the same.
        global_ids: Whether global selections are accepted, which only brokers give out (A-17).
        vendor: Whether the properties with odd ids are ours (A-31).
        rules: What declarations are held against.
        presets: What ids mean that are used without being declared.
    """

    __slots__ = (
        "_global_ids",
        "_limits",
        "_names",
        "_publishers",
        "_rules",
        "_subscribers",
        "_vendor",
        "presets",
        "retired",
    )

    def __init__(
        self,
        names: dict[int, Named] | None = None,
        *,
        global_ids: bool = False,
        vendor: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        rules: Rules = ANYTHING,
        presets: Mapping[int, Named] = NO_PRESETS,
    ) -> None:
        self.presets = presets
        self.retired: Retired | None = None  # ids that had a name, which are never anonymous
        self._names: _Table[Named] = _Table({} if names is None else names)
        self._publishers: _Table[Publisher] = _Table()
        self._subscribers: _Table[Subscriber] = _Table()
        self._global_ids = global_ids
        self._vendor = vendor
        self._limits = limits
        self._rules = rules

    @property
    def names(self) -> dict[int, Named]:
        """Ids and what they stand for; shared with the other end's table."""
        return self._names.entries

    @property
    def publishers(self) -> dict[int, Publisher]:
        """Publishers by id."""
        return self._publishers.entries

    @property
    def subscribers(self) -> dict[int, Subscriber]:
        """Subscribers by id."""
        return self._subscribers.entries

    def named(self, id_: int) -> Named | None:
        """What an id stands for.

        An even one that nobody declared is what was agreed on, or a resource of its own.
        """
        found = self.names.get(id_)
        if found is None and id_ % 2 == 0 and 0 < id_ <= ID_MAX:
            had_name = self.retired is not None and id_ in self.retired
            return None if had_name else self.presets.get(id_) or anonymous(id_)
        return found

    def known(self, id_: int) -> Named | None:
        """What was declared, or agreed on, that an id stands for."""
        return self.names.get(id_) or self.presets.get(id_)

    def apply(self, declarations: Iterable[Declaration]) -> Changes:
        """Apply all of them, or none.

        Raises:
            RefusedError: Of the first one that cannot be applied; nothing was changed.
        """
        waiting: dict[int, list[tuple[int, Declaration]]] = {}
        refusals: dict[int, RefusedError] = {}
        for number, declaration in enumerate(declarations):
            ready = [(number, declaration)]
            while ready:
                place, one = ready.pop(0)
                awaited = _refers_to(one)
                if awaited is not None and awaited % 2 and awaited not in self.names:
                    waiting.setdefault(awaited, []).append((place, one))
                    continue
                try:
                    made = self._one(one)
                except RefusedError as refusal:
                    refusals[place] = refusal
                    continue
                ready += waiting.pop(made, []) if made is not None else []
        failed = {refused.id for refused in refusals.values()}
        for awaited, lonely in waiting.items():
            if awaited in failed:  # that one is to blame
                continue
            for place, _ in lonely:
                text = f"selection {awaited} is not declared"
                refusals[place] = RefusedError(Status.INVALID, awaited, text)
        if not refusals:
            refusals = self._not_allowed() or self._not_admitted()
        if refusals:
            self._names.undo()
            self._publishers.undo()
            self._subscribers.undo()
            raise refusals[min(refusals)]
        changes = Changes(self._names.take(), self._publishers.take(), self._subscribers.take())
        self.retire(one.id for one in changes.names if one.after is None)
        return changes

    def retire(self, ids: Iterable[int], known: Retired | None = None) -> None:
        """These ids had a name: what is written under them later has no key (A-14)."""
        if known is not None:
            self.retired = known
        for id_ in ids:
            if id_ % 2 == 0:
                self.retired = self.retired or Retired()
                self.retired.add(id_)

    def _not_allowed(self) -> dict[int, RefusedError]:
        """What is forbidden of what is there now; a name may be new to who used its id before."""
        named = [change.id for change in self._names.journal if change.after is not None]
        ends = [change.id for change in self._publishers.journal]
        ends += [change.id for change in self._subscribers.journal]
        for id_ in dict.fromkeys((*named, *ends)):
            meant = self.named(id_)
            doing = {
                Action.DECLARE: id_ in named,
                Action.WRITE: id_ in self.publishers,
                Action.READ: id_ in self.subscribers,
            }
            for action, done in doing.items():
                if done and meant is not None and not self._rules.allows(action, meant.resource):
                    text = f"{action.value} {meant.resource.spelled()} is forbidden"
                    return {0: RefusedError(Status.INVALID, id_, text)}
        return {}

    def _not_admitted(self) -> dict[int, RefusedError]:
        for change in self._publishers.journal:
            named = self.named(change.id)
            if change.after is not None and named is not None:
                text = self._rules.admit(named, change.after)
                if text is not None:
                    return {0: RefusedError(Status.NO_SPACE, change.id, text)}
        return {}

    # Handlers: each gives the id of a selection that is known from now on, or None.

    def _one(self, declaration: Declaration) -> int | None:
        match declaration:
            case ResourceDecl():
                self._resource(declaration)
            case SelectionDecl():
                self._selection(declaration)
                return declaration.sid
            case BindingDecl():
                self._binding(declaration)
                return declaration.new_id
            case PublisherDecl():
                self._publisher(declaration)
            case SubscriberDecl():
                self._subscriber(declaration)
            case ForgetResourceDecl():
                self._forget(_checked(declaration.rid, odd=False))
            case ForgetSelectionDecl():
                self._forget(_checked(declaration.sid, odd=True))
            case ForgetPublisherDecl():
                self._drop(self._publishers, _checked(declaration.id))
            case ForgetSubscriberDecl():
                self._drop(self._subscribers, _checked(declaration.id))
            case _:
                text = f"{type(declaration).__name__} is not about an id"
                raise RefusedError(Status.INVALID, 0, text)
        return None

    def _resource(self, declaration: ResourceDecl) -> None:
        rid = _checked(declaration.rid, odd=False)
        resource = resource_of(declaration.resource, rid)
        if is_read_only(resource):
            raise RefusedError(Status.INVALID, rid, f"{resource.spelled()} is read-only")
        said = first_of_each(declaration.properties)
        qualities = Qualities.of(resource, self._understood(said), rid)
        listed = tuple(declaration.properties or ())
        self._name(rid, Named(Selection(resource), said, qualities, listed))

    def _selection(self, declaration: SelectionDecl) -> None:
        sid = _checked(declaration.sid, odd=True)
        if declaration.global_ and not self._global_ids:
            raise RefusedError(Status.UNSUPPORTED, sid, "brokers alone declare global selections")
        said = first_of_each(declaration.properties)
        understood = self._understood(said)
        parameters = texts_in(understood[PARAMETERS]) if PARAMETERS in understood else ()
        if parameters is None:
            raise RefusedError(Status.INVALID, sid, f"property {PARAMETERS} is no list of texts")
        selection = parse_selection(
            declaration.query, sid, parameters=parameters, limits=self._limits
        )
        layout = self._rules.layout_of(selection.resource) if selection.predicate else None
        if layout is not None:  # once more, against the type
            selection = parse_selection(
                declaration.query, sid, parameters=parameters, layout=layout, limits=self._limits
            )
        qualities = Qualities.of(selection.resource, understood, sid)
        self._name(sid, Named(selection, said, qualities, tuple(declaration.properties or ())))

    def _binding(self, declaration: BindingDecl) -> None:
        old_id = _checked(declaration.old_id, odd=True)
        new_id = _checked(declaration.new_id, odd=True)
        if declaration.global_ and not self._global_ids:
            raise RefusedError(Status.UNSUPPORTED, new_id, "brokers alone bind global selections")
        self._name(new_id, self.names[old_id])

    def _name(self, id_: int, named: Named) -> None:
        known = self.names.get(id_)
        if known is not None:
            if not known.says_the_same(named):
                text = f"{id_} is {known.selection.spelled()} already"
                raise RefusedError(Status.CONFLICT, id_, f"{text}, or has other properties")
            return
        if len(self.names) >= self._limits.xrce_names_count:
            text = f"there are {self._limits.xrce_names_count} names already"
            raise RefusedError(Status.NO_SPACE, id_, text)
        self._names.put(id_, named)

    def _publisher(self, declaration: PublisherDecl) -> None:
        rid = _checked(declaration.rid)
        named = self.named(rid)
        if named is not None and is_read_only(named.resource):
            raise RefusedError(Status.INVALID, rid, f"{named.resource.spelled()} is read-only")
        said = self._understood(first_of_each(declaration.properties))
        self._endpoint(self._publishers, rid, Publisher(Qualities.of(None, said, rid)))

    def _subscriber(self, declaration: SubscriberDecl) -> None:
        id_ = _checked(declaration.id)
        said = self._understood(first_of_each(declaration.properties))
        if declaration.mode not in MODES:
            text = f"mode {declaration.mode}; legal are 1 to 4"
            raise RefusedError(Status.UNSUPPORTED, id_, text)
        qualities = Qualities.of(None, said, id_)
        depth = nat_in(said.get(DEPTH, b"")) or None
        params = declaration.params
        if params is None:
            plain = Subscriber(declaration.mode, qualities, depth)
            self._endpoint(self._subscribers, id_, plain)
            return
        period, duration = params.period, params.duration
        if not 0 < duration < period <= PERIOD_MAX_MS or params.temporal_origin > PERIOD_MAX_MS:
            text = f"{duration} of every {period} ms, from {params.temporal_origin}"
            legal = f"legal is 0 < duration < period, and no more than {PERIOD_MAX_MS}"
            raise RefusedError(Status.INVALID, id_, f"{text}; {legal}")
        subscriber = Subscriber(
            declaration.mode, qualities, depth, params.temporal_origin, period, duration
        )
        self._endpoint(self._subscribers, id_, subscriber)

    def _endpoint(self, table: _Table[_Value], id_: int, value: _Value) -> None:
        if id_ not in table.entries and len(table.entries) >= self._limits.xrce_endpoints_count:
            text = f"there are {self._limits.xrce_endpoints_count} of them already"
            raise RefusedError(Status.NO_SPACE, id_, text)
        table.put(id_, value)

    def _forget(self, id_: int) -> None:
        """The id, and who publishes and subscribes under it (A-22)."""
        self._drop(self._publishers, id_)
        self._drop(self._subscribers, id_)
        self._drop(self._names, id_)

    def _drop(self, table: _Table[_Value], id_: int) -> None:
        if id_ in table.entries:
            table.put(id_, None)

    def _understood(self, said: dict[int, bytes]) -> dict[int, bytes]:
        if self._vendor:
            return said
        return {id_: value for id_, value in said.items() if id_ % 2 == 0}


def anonymous(id_: int) -> Named:
    """What an even id is that nobody declared."""
    return Named(Selection(Resource(f"{ANONYMOUS}{id_}")), {}, Qualities())


def _refers_to(declaration: Declaration) -> int | None:
    """The selection that has to be there before."""
    match declaration:
        case PublisherDecl():
            return declaration.rid
        case SubscriberDecl():
            return declaration.id
        case BindingDecl():
            return declaration.old_id
        case _:
            return None


def _checked(id_: int, *, odd: bool | None = None) -> int:
    """An id of the right kind."""
    if not 0 < id_ <= ID_MAX or (odd is not None and bool(id_ % 2) is not odd):
        kind = "positive" if odd is None else "odd" if odd else "even and positive"
        raise RefusedError(Status.INVALID, id_, f"the id {id_}; legal is a number that is {kind}")
    return id_
