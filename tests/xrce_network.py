"""Two ends of an XRCE session and a network that loses, repeats and reorders, by a seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from elea.limits import DEFAULT_LIMITS, Limits
from elea.xrce.channel.conduits import Conduits, Numbered
from elea.xrce.framing import Marked, read_frame
from elea.xrce.message_records import Message, StreamData

MS = 1_000_000
SECOND = 1_000 * MS


@dataclass(slots=True)
class Faults:
    """What the network does; chances are per frame."""

    loss: float = 0.0
    repeat: float = 0.0
    delay_ms: tuple[float, float] = (5.0, 5.0)
    late: float = 0.0  # this many are late
    late_ms: float = 30.0  # by this much


@dataclass
class Network:
    """Ends 0 and 1. Everything happens at a virtual time; a run is repeatable by its seed."""

    seed: int
    faults: Faults = field(default_factory=Faults)
    bits: int = 14
    lease_ns: int = 0
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        self.now_ns = 0
        self.rng = random.Random(self.seed)
        self.ends = [self.end(), self.end()]
        self.delivered: list[list[Marked]] = [[], []]
        self.frames: list[list[bytes]] = [[], []]  # all that each end sent
        self.drop: Callable[[int, bytes], bool] | None = None  # a frame of an end, by hand
        self.deaf = [False, False]
        self._queue: list[tuple[int, int, int, bytes]] = []
        self._order = 0

    def end(self) -> Conduits:
        return Conduits(self.bits, self.lease_ns, self.limits)

    def flush(self) -> None:
        """Put on the wire what the ends want to send: one message, one frame."""
        for number, end in enumerate(self.ends):
            for frame in end.data_to_send():
                self.frames[number].append(frame)
                self._carry(number, frame)

    def _carry(self, number: int, frame: bytes) -> None:
        faults, rng = self.faults, self.rng
        if self.drop is not None and self.drop(number, frame):
            return
        if rng.random() < faults.loss:
            return
        for _ in range(2 if rng.random() < faults.repeat else 1):
            delay = rng.uniform(*faults.delay_ms)
            if rng.random() < faults.late:
                delay += rng.uniform(0, faults.late_ms)
            self._order += 1
            at = self.now_ns + int(delay * MS)
            heapq.heappush(self._queue, (at, self._order, 1 - number, frame))

    def step(self) -> bool:
        """Go to what happens next; False if nothing ever will."""
        self.flush()
        timers = [at for end in self.ends if (at := end.next_timer_ns()) is not None]
        arrivals = [self._queue[0][0]] if self._queue else []
        if not timers and not arrivals:
            return False
        self.now_ns = max(self.now_ns, min(timers + arrivals))
        for end in self.ends:
            end.handle_timer(self.now_ns)
        while self._queue and self._queue[0][0] <= self.now_ns:
            _, _, number, frame = heapq.heappop(self._queue)
            if not self.deaf[number]:
                for marked in read_frame(frame):
                    found = self.ends[number].receive(marked, len(frame), self.now_ns)
                    self.delivered[number] += found
        return True

    def run(self, until: Callable[[], bool], limit_s: float = 600) -> None:
        """Step until a condition holds."""
        while not until():
            assert self.now_ns < limit_s * SECOND, f"seed {self.seed}: not within {limit_s} s"
            assert self.step() or until(), f"seed {self.seed}: nothing will happen any more"

    def settle(self, limit_s: float = 600) -> None:
        """Step until nothing is left to happen."""
        while self.step():
            assert self.now_ns < limit_s * SECOND, f"seed {self.seed}: no rest after {limit_s} s"

    def payloads(self, number: int) -> list[bytes]:
        return [payload_of(marked.message) for marked in self.delivered[number]]


def payload_of(message: Message) -> bytes:
    assert isinstance(message, StreamData)
    return message.payload


def sample(
    payload: bytes, *, reliable: bool = True, sync: bool = False
) -> Callable[[int], Numbered]:
    return lambda sn: StreamData(reliable=reliable, sync=sync, sn=sn, id=2, payload=payload)


def pump(network: Network, count: int, number: int = 0, conduit: int = 0) -> None:
    """Send numbered samples from one end, as fast as its window allows, until all have arrived."""
    end, sent = network.ends[number], 0
    expected = [str(index).encode() for index in range(count)]

    def done() -> bool:
        nonlocal sent
        while sent < count:
            if not end.send(sample(expected[sent]), network.now_ns, conduit=conduit):
                break
            sent += 1
        return len(network.delivered[1 - number]) >= count

    network.run(done)
    network.settle()
    assert network.payloads(1 - number) == expected, f"seed {network.seed}"
