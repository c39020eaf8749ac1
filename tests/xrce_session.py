"""A device, a broker and the way between them, at a virtual time."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from elea.limits import DEFAULT_LIMITS
from elea.xrce.encode import encode
from elea.xrce.framing import read_frame
from elea.xrce.message_records import Message, Open, StreamData
from elea.xrce.session.acceptor import Acceptor, AcceptorEvent
from elea.xrce.session.initiator import Initiator, InitiatorEvent, Phase
from elea.xrce.session.session import Ended, Session, State
from elea.xrce.session.settings import SECOND_NS, SessionSettings

MS = 1_000_000
BROKER = bytes.fromhex("b20c")
DEVICE = bytes.fromhex("c0ffee01")
OPEN = Open(version=1, pid=DEVICE, lease=100, locators=())


def settings(pid: bytes = DEVICE, lease_s: float = 10) -> SessionSettings:
    return SessionSettings(pid=pid, lease_ns=int(lease_s * SECOND_NS))


def messages(frame: bytes) -> list[Message]:
    return [marked.message for marked in read_frame(frame)]


@dataclass
class Pair:
    """One initiator, reached as `source`, and one acceptor; 5 ms one way."""

    device: Initiator
    broker: Acceptor[str]
    source: str = "udp/1"
    delay_ns: int = 5 * MS
    now_ns: int = 0
    cut: bool = False  # nothing passes
    drop: Callable[[bytes], bool] = lambda _frame: False
    from_device: list[Message] = field(default_factory=list)
    from_broker: list[Message] = field(default_factory=list)
    device_events: list[InitiatorEvent] = field(default_factory=list)
    broker_events: list[AcceptorEvent] = field(default_factory=list)
    _queue: list[tuple[int, int, bool, bytes]] = field(default_factory=list)
    _order: int = 0

    def flush(self) -> None:
        for frame in self.device.data_to_send(self.now_ns):
            self.from_device += messages(frame)
            self._carry(True, frame)
        for source, frame in self.broker.data_to_send(self.now_ns):
            self.from_broker += messages(frame)
            if source == self.source:
                self._carry(False, frame)
        while (event := self.device.next_event()) is not None:
            self.device_events.append(event)
        while (told := self.broker.next_event()) is not None:
            self.broker_events.append(told)

    def _carry(self, to_broker: bool, frame: bytes) -> None:
        if not self.cut and not self.drop(frame):
            self._order += 1
            at = self.now_ns + self.delay_ns
            heapq.heappush(self._queue, (at, self._order, to_broker, frame))

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        end_ns = self.now_ns + int(seconds * SECOND_NS)
        self.flush()
        while True:
            due = [self._queue[0][0]] if self._queue else []
            timers = (self.device.next_timer_ns(), self.broker.next_timer_ns())
            due += [at for at in timers if at is not None]
            if not due or min(due) > end_ns:
                break
            self.now_ns = max(self.now_ns, min(due))
            self.device.handle_timer(self.now_ns)
            self.broker.handle_timer(self.now_ns)
            while self._queue and self._queue[0][0] <= self.now_ns:
                _, _, to_broker, frame = heapq.heappop(self._queue)
                if to_broker:
                    self.broker.receive(frame, self.source, self.now_ns)
                else:
                    self.device.receive(frame, self.now_ns)
            self.flush()
        self.now_ns = end_ns
        self.flush()


def pair(
    device: SessionSettings | None = None,
    broker: SessionSettings | None = None,
    *,
    run_s: float = 0.1,
) -> Pair:
    """A pair that has been opened and had some time."""
    made = Pair(
        Initiator(device or settings()), Acceptor[str](broker or settings(BROKER, lease_s=30))
    )
    made.device.open(0)
    made.run(0.1)
    return made


def broker(*, limit: int = 10_000) -> Acceptor[str]:
    limits = dataclasses.replace(DEFAULT_LIMITS, xrce_sessions_count=limit)
    return Acceptor(dataclasses.replace(settings(BROKER, lease_s=30), limits=limits))


def answers(acceptor: Acceptor[str], now_ns: int = 0) -> list[tuple[str, Message]]:
    out = acceptor.data_to_send(now_ns)
    return [(source, one) for source, frame in out for one in messages(frame)]


def tell(acceptor: Acceptor[str], message: Message, source: str = "a", now_ns: int = 0) -> None:
    acceptor.receive(encode(message), source, now_ns)


def opened(acceptor: Acceptor[str], message: Open = OPEN, source: str = "a") -> list[Message]:
    tell(acceptor, message, source)
    return [one for where, one in answers(acceptor) if where == source]


def data(sn: int = 0, payload: bytes = b"x") -> StreamData:
    return StreamData(reliable=True, sync=True, sn=sn, id=2, payload=payload)


def endings(pair_: Pair) -> tuple[list[Ended], list[Ended]]:
    return (
        [one for one in pair_.device_events if isinstance(one, Ended)],
        [one for _, one in pair_.broker_events if isinstance(one, Ended)],
    )


def phase_of(device: Initiator) -> Phase:
    return device.phase  # a call, so that type checkers do not believe it to stay


def state_of(session: Session) -> State:
    return session.state


def altered(**members: object) -> Open:
    said: dict[str, object] = {"version": 1, "pid": DEVICE, "lease": 100, "locators": ()}
    return Open(**{**said, **members})  # type: ignore[arg-type]
