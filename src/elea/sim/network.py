"""The network of a world: links that delay, cut, double, reorder, stall and break, by a seed.

A stream link keeps its octets in order and whole until it breaks, as TCP does; the seed decides
when they arrive and where they are cut. While two nodes are parted their streams wait, and go on
when the parting ends early enough. A datagram link loses, doubles and reorders batches, and nobody
is told when its other end is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from elea.locator import Locator
from elea.node.ports import LinkInfo

WINDOW_LEN: Final = 256 * 1024  # of a stream, written and not read; then nothing can be written
STREAM_LEN_MAX: Final = 65_482
DATAGRAM_LEN_MAX: Final = 65_487


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How badly the network behaves. Chances are per event, from 0 to 1."""

    delay_min_ns: int = 100_000
    delay_max_ns: int = 2_000_000
    cut: float = 0.3  # a write arrives in several pieces; streams only
    loss: float = 0.0  # datagrams only, as are the next two
    duplicate: float = 0.0
    reorder: float = 0.0
    reset: float = 0.0  # a write breaks the link instead, at any octet; streams only
    refuse: float = 0.0  # a connection attempt fails


CALM: Final = Faults()
SLOW: Final = Faults(delay_max_ns=50_000_000, cut=0.7, duplicate=0.02)
ROUGH: Final = Faults(
    delay_max_ns=50_000_000,
    cut=0.7,
    loss=0.05,
    duplicate=0.05,
    reorder=0.05,
    reset=0.01,
    refuse=0.1,
)


class Scheduler(Protocol):
    """What the network needs of its world."""

    def at(self, time_ns: int, call: Callable[[], None]) -> None: ...

    @property
    def now_ns(self) -> int: ...


@dataclass(slots=True, eq=False)
class End:
    """One end of a link: the node it belongs to, and the id it has there."""

    node: str
    link_id: int
    on_data: Callable[[int, bytes], None]
    on_closed: Callable[[int, str], None]
    on_writable: Callable[[int], None] = lambda link_id: None
    open: bool = True
    arrives_ns: int = 0  # nothing overtakes, unless it shall
    waiting_len: int = 0  # octets of a stream on their way here, or here and not read
    held: bool = False  # nobody reads
    unread: deque[Callable[[], None]] = field(default_factory=deque)  # what came meanwhile


@dataclass(slots=True, eq=False)
class Pipe:
    """A link between two nodes."""

    ends: tuple[End, End]
    stream: bool
    dead: bool = False  # half-open: nothing arrives any more, nobody is told
    damaged: bool = False  # a datagram was lost or overtaken: the ends may disagree for good
    held: list[tuple[End, Callable[[], None]]] = field(default_factory=list)

    def other(self, end: End) -> End:
        """The end that is not `end`."""
        return self.ends[1] if end is self.ends[0] else self.ends[0]


class Network:
    """All links of a world, and who cannot reach whom."""

    def __init__(self, scheduler: Scheduler, rng: Random) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self.faults = CALM
        self.pipes: dict[Pipe, None] = {}
        self._parted: set[tuple[str, str]] = set()

    def part(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Nothing passes between two nodes, or from `one` to `other`; links do not notice."""
        self._parted.add((one, other))
        if not one_way:
            self._parted.add((other, one))

    def heal(self) -> None:
        """Everybody reaches everybody; streams that are still open go on where they were."""
        self._parted.clear()
        for pipe in list(self.pipes):
            held, pipe.held = pipe.held, []
            for end, call in held:
                self._schedule(pipe, end, call)

    def reachable(self, one: str, other: str) -> bool:
        """Whether octets pass between two nodes, both ways."""
        return (one, other) not in self._parted and (other, one) not in self._parted

    def join(self, near: End, far: End, *, stream: bool) -> Pipe:
        """Make a link."""
        pipe = Pipe((near, far), stream)
        self.pipes[pipe] = None
        return pipe

    def takes(self, pipe: Pipe, end: End) -> bool:
        """Whether something can be written at an end: not if too much was and is not read."""
        return pipe.other(end).waiting_len < WINDOW_LEN

    def hold(self, pipe: Pipe, end: End, *, held: bool) -> None:
        """An end does not read what arrives there, its end neither; or reads it again."""
        end.held = held
        if end.unread and not held:
            self._scheduler.at(self._scheduler.now_ns, lambda: self._drain(end))

    def write(self, pipe: Pipe, end: End, data: bytes) -> None:
        """Octets leave one end."""
        faults = self.faults
        other = pipe.other(end)
        if not end.open or not other.open or pipe.dead:
            return
        if pipe.stream:
            if faults.reset and self._rng.random() < faults.reset:
                self._deliver(pipe, other, data[: self._rng.randrange(len(data) + 1)])
                self.reset(pipe, "reset")
                return
            for piece in self._pieces(data):
                self._deliver(pipe, other, piece)
            return
        if faults.loss and self._rng.random() < faults.loss:
            pipe.damaged = True
            return
        self._deliver(pipe, other, data)
        if faults.duplicate and self._rng.random() < faults.duplicate:
            self._deliver(pipe, other, data)

    def close(self, pipe: Pipe, end: End) -> None:
        """One end closes; that of a stream's other end learns it after what was written before."""
        if not end.open:
            return
        end.open = False
        other = pipe.other(end)
        if pipe.stream and not pipe.dead:
            self._send(pipe, other, lambda: self._end(pipe, other, "the peer closed the link"))
        self._forget(pipe)

    def reset(self, pipe: Pipe, reason: str) -> None:
        """The link breaks for both ends, each after what is on its way to it."""
        for end in pipe.ends:
            self._schedule(pipe, end, lambda end=end: self._end(pipe, end, reason))  # type: ignore[misc]

    def tear(self, pipe: Pipe, reason: str) -> None:
        """The link breaks for both ends, each at its own time; what is on its way may be lost."""
        for end in pipe.ends:
            time_ns = self._scheduler.now_ns + self.delay_ns()
            self._scheduler.at(time_ns, lambda end=end: self._end(pipe, end, reason))  # type: ignore[misc]

    def kill(self, pipe: Pipe) -> None:
        """The link is half-open from now on: nothing passes, and nobody is told."""
        pipe.dead = True
        pipe.held.clear()

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
        pieces.append(data)
        return pieces

    def _deliver(self, pipe: Pipe, end: End, data: bytes) -> None:
        if pipe.stream:
            if not data:
                return
            end.waiting_len += len(data)
        self._send(pipe, end, lambda: self._arrive(pipe, end, data))

    def _send(self, pipe: Pipe, end: End, call: Callable[[], None]) -> None:
        """From one end to `end`: held back or lost while the two are parted."""
        if self._parted and (pipe.other(end).node, end.node) in self._parted:
            if pipe.stream:
                pipe.held.append((end, call))
            else:
                pipe.damaged = True
            return
        self._schedule(pipe, end, call)

    def _schedule(self, pipe: Pipe, end: End, call: Callable[[], None]) -> None:
        time_ns = self._scheduler.now_ns + self.delay_ns()
        if not pipe.stream and self.faults.reorder and self._rng.random() < self.faults.reorder:
            pipe.damaged = True
            time_ns += self.delay_ns()
        else:
            time_ns = max(time_ns, end.arrives_ns + 1)
            end.arrives_ns = time_ns
        self._scheduler.at(time_ns, call)

    def _arrive(self, pipe: Pipe, end: End, data: bytes) -> None:
        if end.held or end.unread:
            end.unread.append(lambda: self._read(pipe, end, data))
        else:
            self._read(pipe, end, data)

    def _drain(self, end: End) -> None:
        while end.unread and not end.held:
            end.unread.popleft()()

    def _read(self, pipe: Pipe, end: End, data: bytes) -> None:
        if not end.open or pipe.dead:
            return
        if pipe.stream:
            was_full = end.waiting_len >= WINDOW_LEN
            end.waiting_len -= len(data)
            if was_full and end.waiting_len < WINDOW_LEN:
                other = pipe.other(end)
                self._scheduler.at(self._scheduler.now_ns, lambda: other.on_writable(other.link_id))
        end.on_data(end.link_id, data)

    def _end(self, pipe: Pipe, end: End, reason: str) -> None:
        if end.held or end.unread:
            end.unread.append(lambda: self._read_end(pipe, end, reason))
        else:
            self._read_end(pipe, end, reason)

    def _read_end(self, pipe: Pipe, end: End, reason: str) -> None:
        if end.open and not pipe.dead:
            end.open = False
            end.on_closed(end.link_id, reason)
        self._forget(pipe)

    def _forget(self, pipe: Pipe) -> None:
        if not pipe.ends[0].open and not pipe.ends[1].open:
            self.pipes.pop(pipe, None)


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
