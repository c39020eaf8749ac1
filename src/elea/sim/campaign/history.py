"""History: what sessions did and what they were given, in order. The laws are read off it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elea.routing.tables import Kind
from elea.sim.trace import Trace


@dataclass(slots=True)
class Attached:
    """A session began."""

    session: int
    node: str


@dataclass(slots=True)
class Left:
    """A session ended, or crashed with its node."""

    session: int


@dataclass(slots=True)
class Declared:
    """A session declared an entity."""

    session: int
    kind: Kind
    id: int
    key: str


@dataclass(slots=True)
class Undeclared:
    """It took it back; from now on nothing may come for it."""

    session: int
    kind: Kind
    id: int


@dataclass(slots=True)
class Published:
    """A session published number `number` of its own on a key."""

    session: int
    key: str
    number: int
    blocking: bool


@dataclass(slots=True)
class Delivered:
    """A session was given a sample."""

    session: int
    source: int
    key: str
    number: int
    whole: bool  # its payload is what was published


@dataclass(slots=True)
class Asked:
    """A session sent a query."""

    session: int
    id: int
    key: str


@dataclass(slots=True)
class Requested:
    """A session with a queryable was given a query."""

    session: int
    source: int
    id: int


@dataclass(slots=True)
class Replied:
    """An answer came; `source` is None for errors."""

    session: int
    id: int
    source: int | None


@dataclass(slots=True)
class Ended:
    """The end of a query came."""

    session: int
    id: int


@dataclass(slots=True)
class Cancelled:
    """The session gave the query up."""

    session: int
    id: int


@dataclass(slots=True)
class Interested:
    """A session declared an interest, in what is there, in what will be, or in both."""

    session: int
    id: int
    kind: Kind
    key: str
    current: bool
    future: bool
    settles: bool = True  # the end of the current part is told


@dataclass(slots=True)
class Settled:
    """The current part of an interest was told."""

    session: int
    id: int


@dataclass(slots=True)
class Retracted:
    """The session took its interest back."""

    session: int
    id: int


@dataclass(slots=True)
class Appeared:
    """A session was told of an entity."""

    session: int
    kind: Kind
    key: str


@dataclass(slots=True)
class Vanished:
    """A session was told that an entity is gone."""

    session: int
    kind: Kind
    key: str


@dataclass(slots=True)
class CalledLate:
    """A function was called for an entity that was taken back before."""

    session: int
    kind: Kind
    id: int


@dataclass(slots=True)
class LostNeighbour:
    """A node lost a neighbour."""

    node: str


@dataclass(slots=True)
class Fault:
    """Something was done to the world."""

    text: str


Event = (
    Attached
    | Left
    | Declared
    | Undeclared
    | Published
    | Delivered
    | Asked
    | Requested
    | Replied
    | Ended
    | Cancelled
    | Interested
    | Settled
    | Retracted
    | Appeared
    | Vanished
    | CalledLate
    | LostNeighbour
    | Fault
)


class History:
    """All events of a world, with their times; each is a line of the trace as well."""

    def __init__(self, clock: Callable[[], int], trace: Trace) -> None:
        self.events: list[tuple[int, Event]] = []
        self._clock = clock
        self._trace = trace

    def add(self, event: Event) -> None:
        """Record one event."""
        now_ns = self._clock()
        self.events.append((now_ns, event))
        self._trace.add(now_ns, str(event))
