"""Initiator: the side that opens (8.2). It asks again until it is answered, or gives up."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from elea.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from elea.xrce.closing import CloseReason
from elea.xrce.encode_hot import encode
from elea.xrce.framing import Marked, read_frame
from elea.xrce.messages_hot import Accept, Close, Open
from elea.xrce.properties import SessionProperties
from elea.xrce.session.session import Delivered, Ended, Session, State
from elea.xrce.session.settings import VERSION, SessionSettings, lease_ns_of, said_in_open


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
    """One attempt after the other to have a session with one target."""

    def __init__(self, settings: SessionSettings, locators: tuple[bytes, ...] = ()) -> None:
        self.phase = Phase.CLOSED
        self.session: Session | None = None
        self._settings = settings
        self._locators = locators
        self._out: list[bytes] = []
        self._events: list[InitiatorEvent] = []
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
        self._retries_count = 0
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

    def next_event(self) -> InitiatorEvent | None:
        """What happened, oldest first."""
        return self._events.pop(0) if self._events else None

    def _ask(self, now_ns: int) -> None:
        self._retry_ns = now_ns + self._settings.open_ns
        opening = Open(
            version=VERSION,
            pid=self._settings.pid,
            lease=self._settings.lease_units,
            locators=self._locators,
            properties=said_in_open(self._settings),
        )
        self._out.append(encode(opening))

    def _message(self, marked: Marked, length: int, now_ns: int) -> None:
        message = marked.message
        if self.phase is Phase.OPENING:
            if isinstance(message, Accept) and message.open_pid == self._settings.pid:
                self._accepted(message, now_ns)
            elif isinstance(message, Close):
                self._give_up(message.reason, f"refused with reason {message.reason}")
            return
        if self.session is None:
            return
        if isinstance(message, Close) and message.pid != self.session.peer_pid:
            return
        if isinstance(message, Accept | Open):  # said again: it only shows that the peer lives
            self.session.touch(now_ns)
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
        self.session = Session(self._settings, message.accept_pid, lease_ns, properties, now_ns)
        self.phase = Phase.OPEN
        self._events.append(Opened(message.accept_pid, properties))

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
