"""Ends of a reliable channel as small devices have them: they store nothing, and ask for all of it.

A receiver takes the expected number alone, answers every S, and asks with a mask of ones. A Synch
moves it only if it is where the Synch begins. A sender repeats what it is asked for, and says every
10 ms where it is while anything is not acknowledged.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from elea.limits import DEFAULT_LIMITS
from elea.xrce.channel.conduits import Conduits, window_of
from elea.xrce.channel.serial import Serial
from elea.xrce.encode import encode
from elea.xrce.framing import read_frame
from elea.xrce.message_records import AckNack, Message, StreamData, Synch
from elea.xrce.packing import pack

MS = 1_000_000
SECOND = 1_000 * MS
SYNCH_NS = 10 * MS
RTT_NS = MS  # as such a device believes
MASK_BITS = 32


def sample(sn: int, payload: bytes, *, sync: bool = False) -> StreamData:
    return StreamData(reliable=True, sync=sync, sn=sn, id=2, payload=payload)


@dataclass
class SmallReceiver:
    """Takes the expected number, and nothing else."""

    serial: Serial
    expected: int = 0
    top: int = 0
    asked_ns: int = -SECOND
    out: list[Message] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)

    def receive(self, message: Message, now_ns: int) -> None:
        distance = self.serial.distance
        if isinstance(message, Synch):
            first = self.serial.after(message.sn, -(message.count or 0))
            if distance(self.expected, first) <= 0 or distance(message.sn, self.expected) < 0:
                self.expected, self.top = first, message.sn
            self._answer(now_ns, wanted=message.sync)
        elif isinstance(message, StreamData):
            after = self.serial.after(message.sn)
            if distance(self.expected, after) <= 0 and distance(self.top, after) < 0:
                self.top = after
            if message.sn == self.expected:
                self.taken.append(message.payload)
                self.expected = after
            self._answer(now_ns, wanted=message.sync)

    def _answer(self, now_ns: int, *, wanted: bool) -> None:
        missing = self.serial.distance(self.top, self.expected)
        if wanted or (missing > 0 and now_ns - self.asked_ns > RTT_NS):
            mask = (1 << min(missing, MASK_BITS)) - 1 >> 1 if missing > 0 else None
            self.out.append(AckNack(sn=self.expected, mask=mask))
            self.asked_ns = now_ns


@dataclass
class SmallSender:
    """Keeps a window, and repeats what it is asked for."""

    serial: Serial
    window_count: int
    payloads: list[bytes]
    next_sn: int = 0
    kept: list[bytes] = field(default_factory=list)
    synch_ns: int = 0
    out: list[Message] = field(default_factory=list)

    def fill(self, now_ns: int) -> None:
        while self.payloads and len(self.kept) < self.window_count:
            payload = self.payloads.pop(0)
            if not self.kept:
                self.synch_ns = now_ns + SYNCH_NS
            full = len(self.kept) == self.window_count - 1
            self.out.append(sample(self.next_sn, payload, sync=full))
            self.kept.append(payload)
            self.next_sn = self.serial.after(self.next_sn)

    def receive(self, message: Message, _now_ns: int) -> None:
        if not isinstance(message, AckNack):
            return
        first = self.serial.after(self.next_sn, -len(self.kept))
        done = self.serial.distance(message.sn, first)
        if not 0 <= done <= len(self.kept):
            self._synch(answer=False)
            return
        del self.kept[:done]
        wanted = 0 if message.mask is None else message.mask * 2 + 1
        asked = [at for at in range(len(self.kept)) if wanted >> at & 1]
        for at in asked:
            sn = self.serial.after(message.sn, at)
            self.out.append(sample(sn, self.kept[at], sync=at == asked[-1]))

    def handle_timer(self, now_ns: int) -> None:
        if self.kept and now_ns >= self.synch_ns:
            self.synch_ns = now_ns + SYNCH_NS
            self._synch(answer=True)

    def _synch(self, *, answer: bool) -> None:
        count = len(self.kept) or None
        self.out.append(Synch(reliable=True, sync=answer, sn=self.next_sn, count=count))


@dataclass
class Link:
    """One end of ours, a small one, and a network that loses and repeats frames, by a seed."""

    seed: int
    bits: int
    loss: float
    repeat: float = 0.0
    lease_s: float = 5.0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.now_ns = 0
        self.longest_ns = 0  # without progress
        window = window_of(DEFAULT_LIMITS)  # as for peers of another kind
        window = window._replace(kept_count=window.flight_count)
        self.ours = Conduits(self.bits, int(self.lease_s * SECOND), window=window)
        self.ours.round_trip.sample(MS // 2)
        self._queue: list[tuple[int, int, bool, bytes]] = []
        self._order = 0

    def _carry(self, frame: bytes, *, to_us: bool) -> None:
        if self.rng.random() < self.loss:
            return
        # A small receiver goes back if an old Synch comes late, or again: so none does.
        for _ in range(2 if to_us and self.rng.random() < self.repeat else 1):
            self._order += 1
            at = self.now_ns + MS // 4
            heapq.heappush(self._queue, (at, self._order, to_us, frame))

    def _flush(self, small: SmallReceiver | SmallSender) -> None:
        for frame in pack(self.ours.data_to_send(), 1_472):
            self._carry(frame, to_us=False)
        for frame in pack(map(encode, small.out), 1_472):
            self._carry(frame, to_us=True)
        small.out.clear()

    def _step(self, small: SmallReceiver | SmallSender, *timers: int | None) -> list[bytes]:
        """Go to what happens next; what was delivered to us."""
        self._flush(small)
        due = [at for at in (self.ours.next_timer_ns(), *timers) if at is not None]
        due += [self._queue[0][0]] if self._queue else []
        assert due, f"seed {self.seed}: nothing will happen any more"
        self.now_ns = max(self.now_ns, min(due))
        self.ours.handle_timer(self.now_ns)
        assert not self.ours.is_stalled(self.now_ns), (
            f"seed {self.seed}, {self.bits} bits: the peer acknowledges nothing"
        )
        found: list[bytes] = []
        while self._queue and self._queue[0][0] <= self.now_ns:
            _, _, to_us, frame = heapq.heappop(self._queue)
            for marked in read_frame(frame):
                if not to_us:
                    small.receive(marked.message, self.now_ns)
                    continue
                for one in self.ours.receive(marked, len(frame), self.now_ns):
                    assert isinstance(one.message, StreamData)
                    found.append(one.message.payload)
        return found

    def down(self, count: int) -> list[bytes]:
        """Send so many messages to a small receiver; what it took."""
        small = SmallReceiver(Serial(self.bits))
        sent = 0
        while len(small.taken) < count or self.ours.unacknowledged_count:
            while sent < count:
                payload = b"%d" % sent
                if not self.ours.send(lambda sn, one=payload: sample(sn, one), self.now_ns):  # type: ignore[misc]
                    break
                sent += 1
            self._step(small)
        return small.taken

    def up(self, count: int) -> list[bytes]:
        """Let a small sender send so many; what we took."""
        serial = Serial(self.bits)
        payloads = [b"%d" % number for number in range(count)]
        small = SmallSender(serial, min(serial.window_max, 255), payloads)
        found: list[bytes] = []
        while small.payloads or small.kept:
            small.fill(self.now_ns)
            found += self._step(small, small.synch_ns if small.kept else None)
            small.handle_timer(self.now_ns)
            assert self.now_ns < 3_600 * SECOND, f"seed {self.seed}"
        return found
