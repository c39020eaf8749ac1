"""Devices, a gateway, a data space that notes what it is told, a network, and virtual time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.xrce_network import MS, Faults
from tests.xrce_session import messages

from elea.timestamp import HybridClock, Timestamp, TimestampId
from elea.xrce.client import Client, ClientEvent, Received
from elea.xrce.declarations import Action, Named
from elea.xrce.gateway.effects import Ask, Effect, Put
from elea.xrce.gateway.gateway import Gateway
from elea.xrce.gateway.settings import GatewaySettings
from elea.xrce.message_records import Message
from elea.xrce.properties import VENDOR_CODE, SessionProperties
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.samples.sample import Sample
from elea.xrce.session.settings import SECOND_NS, SessionSettings
from elea.xrce.transactions import Settled

FRAME_LEN = 1_472
BROKER = bytes.fromhex("b20c")


def device_settings(
    number: int, *, lease_s: float = 10, frame_len: int = FRAME_LEN, **said: int
) -> SessionSettings:
    if frame_len != FRAME_LEN:
        said["frame_len"] = frame_len
    ours = SessionProperties(vendor=VENDOR_CODE, **said)  # type: ignore[arg-type]
    return SessionSettings(
        pid=bytes((0xDE, number)),
        lease_ns=int(lease_s * SECOND_NS),
        frame_len=frame_len,
        properties=ours,
    )


@dataclass
class World:
    """One gateway, any number of devices."""

    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    lease_s: float = 30
    transient: MemoryStore | None = None
    persistent: MemoryStore | None = None
    asks: bool = False
    interest_always: bool = False
    rest: list[Sample] = field(default_factory=list)  # what other storages have
    silent: bool = False  # they do not answer
    allows: Callable[[bytes, Action, tuple[str, ...]], bool] = lambda _pid, _action, _keys: True
    presets: Mapping[int, Named] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now_ns = 0
        self.rng = random.Random(self.seed)
        self.clock = HybridClock(TimestampId.from_bytes(b"\1"))
        self.clients: list[Client] = []
        self.cut: set[int] = set()  # devices that nothing reaches
        self.events: list[list[ClientEvent]] = []
        self.effects: list[Effect] = []
        self.to_device: list[list[Message]] = []
        self._queue: list[tuple[int, int, int, bool, bytes]] = []
        self._order = 0
        self.frames_count = 0  # that were sent, both ways
        self.frame_lengths: dict[int, list[int]] = {}  # of those, by device
        self.restart()

    def restart(self) -> None:
        """The gateway forgets everything but what its stores keep."""
        settings = GatewaySettings(
            stamp=self.stamp,
            transient=self.transient,
            persistent=self.persistent,
            asks=self.asks,
            interest_always=self.interest_always,
            allows=self.allows,
            presets_of=lambda _pid: self.presets,
        )
        said = SessionProperties(vendor=VENDOR_CODE, commit_mode=7, capabilities=0b111)
        session = SessionSettings(
            pid=BROKER, lease_ns=int(self.lease_s * SECOND_NS), properties=said
        )
        self.gateway: Gateway[int] = Gateway(session, settings)

    def stamp(self) -> Timestamp:
        return self.clock.now(self.now_ns)

    def sample(self, key: str, payload: bytes = b"", *, deleted: bool = False) -> Sample:
        return Sample.of_key(key, payload, self.clock.now(self.now_ns), deleted=deleted)

    def device(self, settings: SessionSettings | None = None, *, run_s: float = 0.2) -> Client:
        """A device that has asked for a session."""
        number = len(self.clients)
        client = Client(settings or device_settings(number))
        self.clients.append(client)
        self.events.append([])
        self.to_device.append([])
        client.open(self.now_ns)
        self.run(run_s)
        return client

    def put(self, key: str, payload: bytes = b"", *, deleted: bool = False) -> None:
        self.gateway.put(self.sample(key, payload, deleted=deleted), self.now_ns)

    # The passing of time.

    def flush(self) -> None:
        for number, client in enumerate(self.clients):
            for frame in client.data_to_send(self.now_ns):
                self._carry(number, True, frame)
        for number, frame in self.gateway.data_to_send(self.now_ns):
            self.to_device[number] += messages(frame)
            self._carry(number, False, frame)
        for number, client in enumerate(self.clients):
            while (event := client.next_event()) is not None:
                self.events[number].append(event)
        self.flush_effects()

    def flush_effects(self) -> None:
        while (effect := self.gateway.next_effect()) is not None:
            self.effects.append(effect)
            if isinstance(effect, Ask) and not self.silent:
                self.gateway.answered(effect.query_id, self.rest, self.now_ns)

    def _carry(self, number: int, up: bool, frame: bytes) -> None:
        faults, rng = self.faults, self.rng
        self.frames_count += 1
        self.frame_lengths.setdefault(number, []).append(len(frame))
        if number in self.cut or rng.random() < faults.loss:
            return
        for _ in range(2 if rng.random() < faults.repeat else 1):
            delay = rng.uniform(*faults.delay_ms)
            if rng.random() < faults.late:
                delay += rng.uniform(0, faults.late_ms)
            self._order += 1
            at = self.now_ns + int(delay * MS)
            heapq.heappush(self._queue, (at, self._order, number, up, frame))

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        end_ns = self.now_ns + int(seconds * SECOND_NS)
        self.flush()
        while self.step(end_ns):
            pass
        self.now_ns = end_ns
        self.flush()

    def step(self, end_ns: int | None = None) -> bool:
        """Go to what happens next; False if nothing does until then."""
        due = [self._queue[0][0]] if self._queue else []
        timers = [self.gateway.next_timer_ns(), *(one.next_timer_ns() for one in self.clients)]
        due += [at for at in timers if at is not None]
        if not due or (end_ns is not None and min(due) > end_ns):
            return False
        self.now_ns = max(self.now_ns, min(due))
        self.gateway.handle_timer(self.now_ns)
        for client in self.clients:
            client.handle_timer(self.now_ns)
        while self._queue and self._queue[0][0] <= self.now_ns:
            _, _, number, up, frame = heapq.heappop(self._queue)
            if number in self.cut:
                continue
            if up:
                self.gateway.receive(frame, number, self.now_ns)
            else:
                self.clients[number].receive(frame, self.now_ns)
        self.flush()
        return True

    def committed(self, client: Client, run_s: float = 0.2) -> Settled:
        """Commit what a device declared, and wait for what becomes of it."""
        client.commit()
        self.run(run_s)
        said = self.events[self.clients.index(client)]
        return [one for one in said if isinstance(one, Settled)][-1]

    # What can be seen.

    def received(self, number: int) -> list[tuple[str, bytes]]:
        return [(one.path, one.payload) for one in self.events[number] if isinstance(one, Received)]

    def payloads(self, number: int) -> list[bytes]:
        return [payload for _, payload in self.received(number)]

    def puts(self) -> list[Sample]:
        return [one.sample for one in self.effects if isinstance(one, Put)]
