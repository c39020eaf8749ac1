"""Whether anybody listens to a publisher or answers a querier, and who wants to know. 4.9."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from elea.keyexpr.groups import KeyGroups
from elea.keyexpr.match import includes
from elea.qos import Locality
from elea.query import QueryTarget
from elea.records import dataclass, field
from elea.session.face import Face
from elea.session.interests import QUERYABLES, SUBSCRIBERS, Interests
from elea.session.outlet import Outlet
from elea.wire.network.interest import InterestMode


@dataclass(frozen=True, slots=True)
class MatchingStatus:
    """Whether there are matching subscribers, or queryables. True or false by itself as well."""

    matching: bool

    def __bool__(self) -> bool:
        return self.matching


@dataclass(slots=True, eq=False)
class Writer:
    """A declared publisher or querier: the side whose counterpart is looked for."""

    id: int
    key: str
    options: int  # SUBSCRIBERS or QUERYABLES: what matches it
    destination: Locality
    target: QueryTarget = QueryTarget.BEST_MATCHING
    listeners: dict[int, Outlet] = field(default_factory=dict)
    told: bool = False  # what its listeners know


@dataclass(slots=True, eq=False)
class Writers:
    """All publishers and queriers of a session."""

    face: Face
    local_match: Callable[[Writer], bool]  # within the session
    interests: Interests = field(init=False)
    _writers: dict[int, Writer] = field(default_factory=dict)
    _watched: KeyGroups[Writer] = field(default_factory=KeyGroups)  # those with listeners

    def __post_init__(self) -> None:
        self.interests = Interests(self.face, self.changed)
        self.face.keep_ids(self._ids)

    def _ids(self) -> Iterator[int]:
        for writer in self._writers.values():
            yield writer.id
            yield from writer.listeners

    def declare(self, writer: Writer) -> None:
        """From now on the network tells who matches it."""
        self._writers[writer.id] = writer
        if writer.destination is not Locality.SESSION_LOCAL:
            self.interests.acquire(writer.options, writer.key, InterestMode.CURRENT_FUTURE)

    def undeclare(self, writer: Writer) -> list[Outlet]:
        """It is gone; the outlets of its listeners are returned, to be ended."""
        if self._writers.pop(writer.id, None) is None:
            return []
        if writer.destination is not Locality.SESSION_LOCAL and not self.face.closed:
            self.interests.release(writer.options, writer.key)
        ended = list(writer.listeners.values())
        if ended:
            writer.listeners.clear()
            self._watched.remove(writer.key, writer)
        return ended

    def status(self, writer: Writer) -> MatchingStatus:
        """Whether anybody matches it now."""
        return MatchingStatus(self._matches(writer))

    def listen(self, writer: Writer, outlet: Outlet) -> int:
        """Tell `outlet` of changes, and of a match there is already."""
        listener_id = self.face.new_id()
        if not writer.listeners:
            writer.told = self._matches(writer)
            self._watched.add(writer.key, writer)
        writer.listeners[listener_id] = outlet
        if writer.told:
            self.face.emit(outlet, MatchingStatus(True))
        return listener_id

    def end_listener(self, writer: Writer, listener_id: int) -> Outlet | None:
        """Tell a listener no more; returns its outlet, to be ended."""
        outlet = writer.listeners.pop(listener_id, None)
        if outlet is not None and not writer.listeners:
            self._watched.remove(writer.key, writer)
        return outlet

    def changed(self, options: int, key: str | None) -> None:
        """Something on a key came or went, or on any key: look at the writers that it may match."""
        met = self._writers.values() if key is None else self._watched.intersecting(key)
        for writer in list(met):
            if writer.options == options and writer.listeners:
                matching = self._matches(writer)
                if matching != writer.told:
                    writer.told = matching
                    for outlet in writer.listeners.values():
                        self.face.emit(outlet, MatchingStatus(matching))

    def all(self) -> list[Writer]:
        """Every publisher and querier."""
        return list(self._writers.values())

    def _matches(self, writer: Writer) -> bool:
        if writer.destination is not Locality.REMOTE and self.local_match(writer):
            return True
        if writer.destination is Locality.SESSION_LOCAL:
            return False
        if writer.options == SUBSCRIBERS:
            return self.interests.subscribers.meets(writer.key)
        assert writer.options == QUERYABLES
        return any(
            serves(writer, one.key, complete=one.complete)
            for one in self.interests.queryables.intersecting(writer.key)
        )


def serves(querier: Writer, key: str, *, complete: bool) -> bool:
    """Whether a queryable counts as a match: its key includes the querier's."""
    if querier.target is QueryTarget.ALL_COMPLETE and not complete:
        return False
    return includes(key, querier.key)
