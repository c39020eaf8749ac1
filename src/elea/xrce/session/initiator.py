"""Initiator: the side that opens (8.2). It asks again until it is answered, or gives up.

Two of them may open to each other: each answers the Open of the other, and the first of that and
the answer to its own makes the session (8.4). If they want numbers of different lengths, those of
the smaller pid count: it goes on asking, and the other one answers.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from elea.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from elea.xrce.closing import CloseReason
from elea.xrce.encode import encode
from elea.xrce.framing import Marked, read_frame
from elea.xrce.message_records import Accept, Close, KeepAlive, Open
from elea.xrce.properties import SessionProperties
from elea.xrce.session.session import Delivered, Ended, Session, State
from elea.xrce.session.settings import (
    VERSION,
    SessionSettings,
    accept_of,
    lease_ns_of,
    open_of,
)


class Phase(Enum):
    """Where opening is."""

    CLOSED = auto()
    OPENING = auto()
    OPEN = auto()


@dataclass(slots=True)
class Opened:
    """The peer has accepted; these are its properties."""

    peer_pid: bytes
    properties: SessionProperties


InitiatorEvent: TypeAlias = Opened | Delivered | Ended
_UNANSWERED: Final = "nobody answered"


class Initiator:
    """One attempt after the other to have a session with one target.

    Args:
        settings: Who we are.
        locators: Where else we can be reached.
        two_ways: Whether the target is reached by a stream and by datagrams: see `ways_to_send`.
    """

    def __init__(
        self,
        settings: SessionSettings,
        locators: tuple[bytes, ...] = (),
        *,
        two_ways: bool = False,
    ) -> None:
        self.phase = Phase.CLOSED
        self.session: Session | None = None
        self._settings = settings
        self._locators = locators
        self._two_ways = two_ways
        self._out: list[bytes] = []
        self._datagrams: list[bytes] = []  # the Opens of the other way
        self._accepts_count = 0
        self._events: list[InitiatorEvent] = []
        self._opens_count = 0  # sessions that were asked for
        self._retries_count = 0
        self._retry_ns = 0

    def open(self, now_ns: int) -> None:
        """Ask for a session.

        Raises:
            LocalProtocolError: One is open, or asked for already.
        """
        if self.phase is not Phase.CLOSED:
            raise LocalProtocolError(f"the session is {self.phase.name.lower()} already")
        self.phase = Phase.OPENING
        self.session = None
        self._retries_count = self._accepts_count = 0
        self._opens_count += 1
        self._ask(now_ns)

    def close(self, now_ns: int) -> None:
        """End the session in order, or give up asking for one."""
        if self.phase is Phase.OPENING:
            self._give_up(CloseReason.SUCCESS, "closed while opening")
        elif self.session is not None:
            self.session.close(now_ns)
        self._collect()

    def receive(self, frame: bytes, now_ns: int) -> None:
        """A frame of the target. Messages before an error in it count."""
        try:
            for marked in read_frame(frame):
                self._message(marked, len(frame), now_ns)
        except ProtocolError as error:
            if self.session is not None:
                self.session.violated(error, now_ns)
        self._collect()

    def handle_timer(self, now_ns: int) -> None:
        """Ask again if it is time, or let the session do what is due."""
        if self.phase is Phase.OPENING and now_ns >= self._retry_ns:
            if self._retries_count < self._settings.open_count:
                self._retries_count += 1
                self._ask(now_ns)
            else:
                self._give_up(CloseReason.GENERIC, _UNANSWERED)
        elif self.session is not None:
            self.session.handle_timer(now_ns)
        self._collect()

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        if self.phase is Phase.OPENING:
            return self._retry_ns
        return self.session.next_timer_ns() if self.session is not None else None

    def data_to_send(self, now_ns: int) -> list[bytes]:
        """Frames for the target, in order."""
        out, self._out = self._out, []
        return out + (self.session.data_to_send(now_ns) if self.session is not None else [])

    def ways_to_send(self, now_ns: int) -> tuple[list[bytes], list[bytes]]:
        """Frames for the target by a stream, and by datagrams: what needs no answer (8.5)."""
        datagrams, self._datagrams = self._datagrams, []
        if self.session is not None:
            datagrams += self.session.best_effort_to_send(now_ns)
        return self.data_to_send(now_ns), datagrams

    def next_event(self) -> InitiatorEvent | None:
        """What happened, oldest first."""
        return self._events.pop(0) if self._events else None

    def _ask(self, now_ns: int) -> None:
        self._retry_ns = now_ns + self._settings.open_ns
        self._out.append(encode(self._opening()))
        if self._two_ways:
            self._datagrams.append(encode(self._opening()))

    def _opening(self) -> Open:
        return open_of(self._settings, self._locators, self._opens_count)

    def _message(self, marked: Marked, length: int, now_ns: int) -> None:
        message = marked.message
        if self.phase is Phase.OPENING:
            if isinstance(message, Accept) and message.open_pid == self._settings.pid:
                self._accepted(message, now_ns)
            elif isinstance(message, Open):
                self._opened_to(message, now_ns)
            elif isinstance(message, Close):
                self._give_up(message.reason, f"refused with reason {message.reason}")
            return
        if self.session is None:
            return
        if isinstance(message, Close) and message.pid != self.session.peer_pid:
            return
        if isinstance(message, Accept | Open):  # said again: it only shows that the peer lives
            self.session.touch(now_ns)
            if isinstance(message, Open) and message.pid == self.session.peer_pid:
                self._accept(message)  # our answer may be lost
            return
        self.session.receive(marked, length, now_ns)
        self._collect()

    def _accepted(self, message: Accept, now_ns: int) -> None:
        try:
            properties = SessionProperties.read(message.properties)
            lease_ns = lease_ns_of(message.lease)
        except RemoteProtocolError as error:
            refusal = Close(pid=self._settings.pid, reason=CloseReason.PARAMETER)
            self._out.append(encode(refusal))
            self._give_up(CloseReason.PARAMETER, str(error))
            return
        # The length of numbers is ours to say; an Accept does not repeat it (8.4).
        properties = dataclasses.replace(properties, bits=self._settings.properties.bits)
        self._begin(message.accept_pid, lease_ns, properties, now_ns)

    def _opened_to(self, message: Open, now_ns: int) -> None:
        """The target opens to us meanwhile."""
        pid = self._settings.pid
        if message.version != VERSION or message.pid == pid:
            return  # ours goes on, and says what there is to say
        try:
            properties = SessionProperties.read(message.properties)
            lease_ns = lease_ns_of(message.lease)
        except RemoteProtocolError as error:
            self._out.append(encode(Close(pid=pid, reason=error.close_reason)))
            return
        if properties.bits != self._settings.properties.bits and pid < message.pid:
            return
        self._accept(message)
        self._begin(message.pid, lease_ns, properties, now_ns)

    def _accept(self, message: Open) -> None:
        self._accepts_count += 1
        if self._accepts_count <= self._settings.accept_count:
            answer = accept_of(self._settings, message.pid, self._settings.frame_len)
            self._out.append(encode(answer))

    def _begin(self, pid: bytes, lease_ns: int, properties: SessionProperties, now_ns: int) -> None:
        self.session = Session(self._settings, pid, lease_ns, properties, now_ns)
        self.phase = Phase.OPEN
        self._events.append(Opened(pid, properties))
        if self._two_ways:  # an Open by datagrams may be lost: this says where they come from, too
            self._datagrams.append(encode(KeepAlive(pid=self._settings.pid)))

    def _give_up(self, reason: int, text: str) -> None:
        self.phase = Phase.CLOSED
        self._events.append(Ended(reason, text))

    def _collect(self) -> None:
        """Take over what happened to the session."""
        if self.session is None:
            return
        self._events += self.session.take_events()
        if self.session.state is State.CLOSED and self.phase is Phase.OPEN:
            self.phase = Phase.CLOSED
