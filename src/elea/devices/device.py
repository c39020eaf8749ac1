"""Device: a device as a program in Python. It blocks, starts no thread, and installs nothing.

    with Device("udp/127.0.0.1:7447") as device:
        temperature = device.resource("/lab/temperature")
        device.write(temperature, b"21.5")

The session is kept only while one of the methods runs: call `poll` when there is nothing else to do
for longer than a third of the lease, or ask for one that never ends.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from elea.devices.lines import open_line
from elea.encoding import Encoding
from elea.errors import ClosedError, LinkError
from elea.xrce.buffer import put_nat, put_octets
from elea.xrce.client import DEVICE_LIMITS, Client, ClientEvent, Interest, PullEnded, Received
from elea.xrce.closing import CloseReason
from elea.xrce.declaration_records import Property
from elea.xrce.encode import encode
from elea.xrce.message_records import KeepAlive
from elea.xrce.properties import (
    ACCEPTS_BATCHES,
    ACCEPTS_FRAGMENTS,
    ENCODING,
    VENDOR_CODE,
    WANTS_PULL_END,
    SessionProperties,
)
from elea.xrce.qualities import PROPERTY_NAME
from elea.xrce.session.authentication import PskProver
from elea.xrce.session.initiator import Opened
from elea.xrce.session.session import Ended
from elea.xrce.session.settings import SessionSettings
from elea.xrce.status import RefusedError
from elea.xrce.transactions import Settled

_SECOND_NS: Final = 1_000_000_000
_PID_LEN: Final = 8
_PID_SHORT_LEN: Final = 4  # where frames are short, so that an Open fits
_SHORT_LEN: Final = 64
_NONCE_LEN: Final = 4
_HELD_COUNT: Final = 1_024  # samples that the program has not taken
_CLOSE_S: Final = 3.0


def device_settings(
    pid: bytes | None = None,
    lease_s: float = 10.0,
    frame_len: int = 1_472,
    key: bytes | None = None,
) -> SessionSettings:
    """Who a device is: a random pid, if none is given; a lease of 0 never ends.

    With a key it proves who it is, by the time of day (19.3).
    """
    return SessionSettings(
        pid=pid or secrets.token_bytes(_PID_LEN if frame_len >= _SHORT_LEN else _PID_SHORT_LEN),
        lease_ns=int(lease_s * _SECOND_NS),
        frame_len=frame_len,
        properties=SessionProperties(
            vendor=VENDOR_CODE,
            frame_len=frame_len,
            capabilities=ACCEPTS_BATCHES | ACCEPTS_FRAGMENTS | WANTS_PULL_END,
        ),
        limits=DEVICE_LIMITS,
        drops_long=True,
        nonce=secrets.token_bytes(_NONCE_LEN),
        prove=None if key is None else PskProver(key, time_ms),
    )


def time_ms() -> int:
    """The time of day, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def encoding_property(encoding: Encoding) -> Property:
    """What a resource says about the encoding of its samples (16, property 3)."""
    value = bytearray()
    put_nat(value, encoding.id, "encoding")
    put_octets(value, encoding.schema or b"", "schema")
    return Property(id=ENCODING, value=bytes(value))


class Events:
    """What a client told, sorted for whoever waits for it."""

    def __init__(self) -> None:
        self.opened: Opened | None = None
        self.ended: Ended | None = None
        self.settled: deque[Settled] = deque()
        self.samples: deque[Received] = deque()
        self.pulls_ended: set[int] = set()
        self.matched: set[int] = set()  # publishers that somebody reads
        self.dropped_count = 0  # samples that nobody took in time; the oldest go first

    def take(self, event: ClientEvent) -> None:
        """Note an event."""
        match event:
            case Received():
                if len(self.samples) >= _HELD_COUNT:
                    self.samples.popleft()
                    self.dropped_count += 1
                self.samples.append(event)
            case Interest():
                (self.matched.add if event.matched else self.matched.discard)(event.id)
            case PullEnded():
                self.pulls_ended.add(event.id)
            case Settled():
                self.settled.append(event)
            case Opened():
                self.opened = event
            case Ended():
                self.ended = event

    def pulled(self, id_: int) -> list[Received]:
        """Take what came for a pull; samples of other subscribers stay."""
        found = [one for one in self.samples if one.id in (id_, None)]
        self.samples = deque(one for one in self.samples if one.id not in (id_, None))
        return found

    def check_settled(self) -> None:
        """Take the answer to what was declared.

        Raises:
            RefusedError: The gateway did not take it.
        """
        settled = self.settled.popleft()
        if settled.status:
            what = f"id {settled.id}: {settled.status.name.lower()}"
            text = f"the gateway refused what was declared, {what}"
            raise RefusedError(settled.status, settled.id, text)

    def check(self) -> None:
        """Raise if there is no session any more.

        Raises:
            ClosedError: With the reason.
        """
        if self.ended is not None:
            raise ClosedError(f"the session ended: {why(self.ended)}")


def why(ended: Ended) -> str:
    """The end of a session in words."""
    known = ended.reason in set(CloseReason)
    name = CloseReason(ended.reason).name.lower() if known else "vendor specific"
    return f"{ended.text} (reason {ended.reason}, {name})"


class Known:
    """What a device knows of its session, whether it blocks or not."""

    def __init__(self, endpoint: str, settings: SessionSettings | None, timeout_s: float) -> None:
        self.endpoint = endpoint
        settings = settings or device_settings()
        if settings.nonce is not None:  # those of another device may be used again
            settings = dataclasses.replace(settings, nonce=secrets.token_bytes(_NONCE_LEN))
        self.client = Client(settings)
        self._pid = settings.pid
        self._timeout_s = timeout_s
        self._events = Events()

    @property
    def gateway_pid(self) -> bytes:
        """Who the gateway is."""
        assert self._events.opened is not None
        return self._events.opened.peer_pid

    @property
    def is_open(self) -> bool:
        """Whether the session goes on."""
        return self._events.ended is None and self.client.is_open

    @property
    def dropped_count(self) -> int:
        """Samples that came and were not taken in time."""
        return self._events.dropped_count

    @property
    def incomplete_count(self) -> int:
        """Samples that came in fragments, and were too long to keep, or had a gap."""
        return self.client.incomplete_count

    def is_matched(self, id_: int) -> bool:
        """Whether somebody reads what a publisher writes, as far as is known."""
        return id_ in self._events.matched

    def _named(self, name: str) -> int:
        # Properties of a resource are read-only: no device may name them to write.
        is_selection = "?{" in name or name.endswith(f"/{PROPERTY_NAME}")
        return self.client.selection(name) if is_selection else self.client.resource(name)

    def _late(self, what: str) -> TimeoutError:
        return TimeoutError(f"{self.endpoint}: {what} did not come in {self._timeout_s:g} s")


class Device(Known):
    """A session with a gateway, until `close`.

    Args:
        endpoint: The gateway's, such as `udp/192.0.2.1:7447` or `tcp/...`.
        settings: Who the device is; see `device_settings`.
        timeout_s: How long opening, and each method, may take.

    Raises:
        InvalidValueError: `endpoint` is none.
        LinkError: The gateway cannot be reached.
        ClosedError: It refused.
        TimeoutError: It did not answer.
    """

    def __init__(
        self,
        endpoint: str,
        settings: SessionSettings | None = None,
        *,
        timeout_s: float = 10.0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(endpoint, settings, timeout_s)
        self._clock = clock
        self._line = open_line(endpoint)
        self._is_moving = False  # nothing has come since it has another address
        try:
            self.client.open(clock())
            self._wait(lambda: self._events.opened is not None, "an answer")
        except BaseException:
            self._line.sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    # Declarations.

    def resource(self, name: str, properties: Iterable[Property] = ()) -> int:
        """Name a resource; the id to write to. What is written is sent, whoever reads it."""
        rid = self.client.resource(name, properties)
        self._commit()
        return rid

    def publisher(self, name: str, properties: Iterable[Property] = ()) -> int:
        """Name a resource and say that it will be written; its id.

        What is written is sent only while somebody reads it, which the gateway tells: see
        `wait_matched`. The gateway reads what is to be kept, such as `/lab/t#transient`.

        Raises:
            RefusedError: The gateway does not take it.
        """
        rid = self.client.resource(name, properties)
        self.client.publisher(rid)
        self._commit()
        return rid

    def subscriber(
        self,
        name: str,
        *,
        pull: bool = False,
        window_ms: tuple[int, int, int] | None = None,
        properties: Iterable[Property] = (),
    ) -> int:
        """Subscribe to a resource, a pattern, or a selection `name?{predicate}`; its id.

        Raises:
            RefusedError: The gateway does not take it.
        """
        id_ = self._named(name)
        self.client.subscriber(id_, pull=pull, window_ms=window_ms, properties=properties)
        self._commit()
        return id_

    def selected(self, name: str) -> int:
        """Name a resource, a pattern, or a selection `name?{predicate}`, to pull from; its id.

        Raises:
            RefusedError: The gateway does not take it.
        """
        id_ = self._named(name)
        self._commit()
        return id_

    def forget(self, id_: int) -> None:
        """Release an id, and what was declared for it."""
        self.client.forget(id_)
        self._commit()

    # Data.

    def wait_matched(self, id_: int) -> None:
        """Wait until somebody reads what a publisher writes.

        Raises:
            TimeoutError: Nobody does.
        """
        self._wait(lambda: self.is_matched(id_), "a reader")

    def write(self, id_: int, payload: bytes, *, reliable: bool = True) -> None:
        """Write a sample under an id; waits while the window is full.

        What is longer than the window goes on its way while other methods run: see `flush`.
        """
        client = self.client
        self._write(lambda: client.write(id_, payload, self._clock(), reliable=reliable))

    def write_to(self, name: str, payload: bytes, *, reliable: bool = True) -> None:
        """Write a sample under a name, which needs no declaration."""
        client = self.client
        self._write(lambda: client.write_to(name, payload, self._clock(), reliable=reliable))

    def pull(self, id_: int, max_samples: int | None = None) -> list[Received]:
        """Fetch samples that wait for a subscriber, or what is at rest of a resource.

        Samples of other subscribers that come meanwhile are kept for `receive`.
        """
        self._events.pulls_ended.discard(id_)
        client = self.client
        self._write(lambda: client.pull(id_, self._clock(), max_samples=max_samples))
        self._wait(lambda: id_ in self._events.pulls_ended, "the end of the answer")
        return self._events.pulled(id_)

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next sample, or None if none comes in time; None waits for ever.

        Raises:
            ClosedError: The session ended.
        """
        samples = self._events.samples
        if not samples:
            self._run(lambda: bool(self._events.samples), timeout_s)
        if self._events.samples:
            return self._events.samples.popleft()
        self._events.check()
        return None

    def samples(self, timeout_s: float | None = None) -> Iterator[Received]:
        """Samples as they come, until none comes in time, or the session ends."""
        while (sample := self.receive(timeout_s)) is not None:
            yield sample

    def flush(self) -> None:
        """Wait until the gateway has acknowledged all that is reliable.

        Raises:
            TimeoutError: It did not.
        """
        self._wait(lambda: not self.client.unacknowledged_count, "acknowledgements")

    def poll(self, timeout_s: float = 0.0) -> None:
        """Keep the session, and take what comes, for so long."""
        self._run(lambda: False, timeout_s)
        self._events.check()

    def move(self) -> None:
        """Go on from another address, as after a change of network: the gateway follows.

        What was on its way to the old one is lost; what is reliable is sent again.

        Raises:
            LinkError: The gateway cannot be reached.
        """
        line = open_line(self.endpoint)
        self._line.sock.close()
        self._line = line
        line.send(encode(KeepAlive(pid=self._pid)))  # the one message that says who moved
        self._is_moving = True

    def close(self) -> None:
        """End the session in order. Legal twice."""
        if self.is_open:
            try:
                self.client.close(self._clock())
                self._run(lambda: self._events.ended is not None, _CLOSE_S)
            except LinkError:
                pass  # it is gone already
        self._line.sock.close()

    # The passing of time.

    def _commit(self) -> None:
        self._events.settled.clear()
        self.client.commit()
        self._wait(lambda: bool(self._events.settled), "the answer to what was declared")
        self._events.check_settled()

    def _write(self, write: Callable[[], bool]) -> None:
        self._events.check()
        if not write():
            self._wait(write, "room in the window")
        self._flush()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        if not self._run(condition, self._timeout_s):
            self._events.check()
            raise self._late(what)

    def _run(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        """Let time pass until a condition holds, the time is over, or the session."""
        end_ns = None if timeout_s is None else self._clock() + int(timeout_s * _SECOND_NS)
        while True:
            self._flush()
            if condition():
                self._flush()
                return True
            now_ns = self._clock()
            if self._events.ended is not None or (end_ns is not None and now_ns >= end_ns):
                return False
            due = [one for one in (self.client.next_timer_ns(), end_ns) if one is not None]
            # A socket takes a timeout of 0 for "do not wait at all", which is never meant here.
            wait_s = max(min(due) - now_ns, 1_000) / _SECOND_NS if due else None
            for frame in self._line.frames(wait_s):
                self._is_moving = False
                self.client.receive(frame, self._clock())
            now_ns = self._clock()
            due_ns = self.client.next_timer_ns()
            if due_ns is not None and due_ns <= now_ns:
                self.client.handle_timer(now_ns)

    def _flush(self) -> None:
        for frame in self.client.data_to_send(self._clock()):
            if self._is_moving:  # the one before may be lost
                self._line.send(encode(KeepAlive(pid=self._pid)))
            self._line.send(frame)
        while (event := self.client.next_event()) is not None:
            self._events.take(event)
