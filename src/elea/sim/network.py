"""The network of a world: links that delay, cut, duplicate, stall and break, by a seed.

A stream link keeps its octets in order and whole until it breaks, as TCP does; the seed decides
when they arrive and where they are cut. A datagram link loses, doubles and reorders batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from elea.locator import Locator
from elea.node.ports import LinkInfo

STREAM_LEN_MAX: Final = 65_482
DATAGRAM_LEN_MAX: Final = 65_487


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How badly the network behaves. Chances are per event, from 0 to 1."""

    delay_min_ns: int = 100_000
    delay_max_ns: int = 2_000_000
    cut: float = 0.3  # a write arrives in several pieces
    loss: float = 0.0  # datagrams only
    duplicate: float = 0.0  # datagrams only
    reset: float = 0.0  # a write breaks the link instead, at any octet
    refuse: float = 0.0  # a connection attempt fails


CALM: Final = Faults()
ROUGH: Final = Faults(
    delay_max_ns=50_000_000, cut=0.7, loss=0.05, duplicate=0.05, reset=0.002, refuse=0.1
)


class Scheduler(Protocol):
    """What the network needs of its world."""

    def at(self, time_ns: int, call: Callable[[], None]) -> None: ...

    @property
    def now_ns(self) -> int: ...


@dataclass(slots=True)
class End:
    """One end of a link: the node it belongs to, and the id it has there."""

    node: str
    link_id: int
    on_data: Callable[[int, bytes], None]
    on_closed: Callable[[int, str], None]
    open: bool = True
    arrives_ns: int = 0  # octets of a stream never overtake each other


@dataclass(slots=True)
class Pipe:
    """A link between two nodes."""

    ends: tuple[End, End]
    stream: bool
    held: bool = False  # half-open: nothing arrives, nobody is told
    stalled: list[Callable[[], None]] = field(default_factory=list)


class Network:
    """All links of a world, and who cannot reach whom."""

    def __init__(self, scheduler: Scheduler, rng: Random) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self.faults = CALM
        self.pipes: list[Pipe] = []
        self._parted: set[frozenset[str]] = set()

    def part(self, one: str, other: str) -> None:
        """Nothing passes between two nodes; their links do not notice."""
        self._parted.add(frozenset((one, other)))

    def heal(self) -> None:
        """Everybody reaches everybody; what was held back is lost with its links."""
        self._parted.clear()
        for pipe in list(self.pipes):
            if pipe.held:
                self.reset(pipe, "the network was parted")

    def reachable(self, one: str, other: str) -> bool:
        """Whether octets pass between two nodes."""
        return frozenset((one, other)) not in self._parted

    def join(self, near: End, far: End, *, stream: bool) -> Pipe:
        """Make a link."""
        pipe = Pipe((near, far), stream)
        self.pipes.append(pipe)
        return pipe

    def write(self, pipe: Pipe, end: End, data: bytes) -> None:
        """Octets leave one end."""
        faults = self.faults
        other = pipe.ends[1] if end is pipe.ends[0] else pipe.ends[0]
        if not end.open or not other.open:
            return
        if not self.reachable(end.node, other.node):
            pipe.held = True
        if pipe.held:
            return
        if pipe.stream:
            if self._rng.random() < faults.reset:
                data = data[: self._rng.randrange(len(data) + 1)]
                self._deliver(pipe, other, data)
                self.reset(pipe, "reset")
                return
            for piece in self._pieces(data):
                self._deliver(pipe, other, piece)
            return
        if self._rng.random() < faults.loss:
            return
        self._deliver(pipe, other, data)
        if self._rng.random() < faults.duplicate:
            self._deliver(pipe, other, data)

    def close(self, pipe: Pipe, end: End) -> None:
        """One end closes; the other learns it after what was written before."""
        other = pipe.ends[1] if end is pipe.ends[0] else pipe.ends[0]
        if not end.open:
            return
        end.open = False
        if not pipe.held:
            self._at_other(pipe, other, lambda: self._end(pipe, other, "the peer closed the link"))

    def reset(self, pipe: Pipe, reason: str) -> None:
        """The link breaks for both ends."""
        for end in pipe.ends:
            self._at_other(pipe, end, lambda end=end: self._end(pipe, end, reason))  # type: ignore[misc]

    def delay_ns(self) -> int:
        """How long something takes to arrive."""
        return self._rng.randint(self.faults.delay_min_ns, self.faults.delay_max_ns)

    def refuses(self) -> bool:
        """Whether a connection attempt fails."""
        return self._rng.random() < self.faults.refuse

    def _pieces(self, data: bytes) -> list[bytes]:
        pieces: list[bytes] = []
        while len(data) > 1 and self._rng.random() < self.faults.cut:
            cut = self._rng.randrange(1, len(data))
            pieces.append(data[:cut])
            data = data[cut:]
        return [*pieces, data]

    def _deliver(self, pipe: Pipe, end: End, data: bytes) -> None:
        if data or not pipe.stream:
            self._at_other(pipe, end, lambda: self._arrive(end, data))

    def _at_other(self, pipe: Pipe, end: End, call: Callable[[], None]) -> None:
        time_ns = self._scheduler.now_ns + self.delay_ns()
        if pipe.stream:
            time_ns = max(time_ns, end.arrives_ns + 1)
            end.arrives_ns = time_ns
        self._scheduler.at(time_ns, call)

    def _arrive(self, end: End, data: bytes) -> None:
        if end.open:
            end.on_data(end.link_id, data)

    def _end(self, pipe: Pipe, end: End, reason: str) -> None:
        if end.open:
            end.open = False
            end.on_closed(end.link_id, reason)
        if pipe in self.pipes and not any(one.open for one in pipe.ends):
            self.pipes.remove(pipe)


def link_info(scheme: str, local: str, remote: str) -> LinkInfo:
    """What a simulated link tells about itself."""
    stream = scheme != "udp"
    return LinkInfo(
        scheme=scheme,
        local=Locator(f"{scheme}/{local}"),
        remote=Locator(f"{scheme}/{remote}"),
        stream=stream,
        reliable=stream,
        batch_len_max=STREAM_LEN_MAX if stream else DATAGRAM_LEN_MAX,
    )
