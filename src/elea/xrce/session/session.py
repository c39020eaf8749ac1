"""Session: one open conversation, whichever side began it (8.2 to 8.6).

It is driven: messages in, the time in; frames, events and the next time to wake out. The lease that
supervises a peer is the peer's own; ours is kept by a KeepAlive when nothing else was sent. Closing
first waits for acknowledgements, then for the peer's Close, each no longer than its timer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from elea.errors import ClosedError, DecodeError, InvalidValueError, ProtocolError
from elea.xrce.channel.conduits import NUMBERED, Conduits, Numbered, window_of
from elea.xrce.channel.receiver import MASK_BITS
from elea.xrce.channel.serial import Serial
from elea.xrce.closing import CloseReason
from elea.xrce.encode import encode
from elea.xrce.fragments import Reassembly
from elea.xrce.framing import Marked
from elea.xrce.message_records import Close, Frag, KeepAlive, Ping, Pong, Synch
from elea.xrce.packing import pack
from elea.xrce.properties import SessionProperties
from elea.xrce.session.incarnation import Arrival, Doubt, Verdict
from elea.xrce.session.settings import SessionSettings

_HASHES: Final = 1 << 16
_ACK_LEN: Final = 3  # of an AckNack, without its number and its mask, and the marker of its conduit


class State(Enum):
    """Where a session is in its life."""

    OPEN = auto()
    DRAINING = auto()  # we close: no new writes, acknowledgements are awaited
    CLOSING = auto()  # our Close is out, the peer's is awaited
    ANSWERING = auto()  # the peer closes: what it has not acknowledged is awaited
    CLOSED = auto()


class Input(Enum):
    """What moves a session on."""

    CLOSE = auto()
    DRAINED = auto()  # or waited for long enough
    RECV_CLOSE = auto()  # with reason 0
    RECV_ERROR = auto()  # a Close with another reason
    EXPIRED = auto()  # the lease of the peer
    VIOLATED = auto()  # by the peer
    TIMEOUT = auto()  # no answer to our Close


_ALIVE: Final = (State.OPEN, State.DRAINING, State.CLOSING, State.ANSWERING)

TRANSITIONS: Final[dict[tuple[State, Input], State]] = {
    (State.OPEN, Input.CLOSE): State.DRAINING,
    (State.DRAINING, Input.DRAINED): State.CLOSING,
    (State.ANSWERING, Input.DRAINED): State.CLOSED,
    (State.OPEN, Input.RECV_CLOSE): State.ANSWERING,
    (State.DRAINING, Input.RECV_CLOSE): State.ANSWERING,
    (State.ANSWERING, Input.RECV_CLOSE): State.ANSWERING,
    (State.CLOSING, Input.RECV_CLOSE): State.CLOSED,
    (State.CLOSING, Input.TIMEOUT): State.CLOSED,
    **{
        (state, input_): State.CLOSED
        for state in _ALIVE
        for input_ in (Input.RECV_ERROR, Input.EXPIRED, Input.VIOLATED)
    },
}


@dataclass(slots=True)
class Delivered:
    """A message for the application, in the order of its channel."""

    marked: Marked


@dataclass(slots=True)
class Ended:
    """The session is over; what it declared is gone."""

    reason: int  # of the Close that was sent or received
    text: str
    anew: bool = False  # the peer began anew: another session follows at once


SessionEvent: TypeAlias = Delivered | Ended


_NO_EVENTS: Final[list[SessionEvent]] = []  # shared by all without, and never changed


class Session:
    """One open session; `frame_len` is what frames to this peer may have, if not what all may."""

    __slots__ = (
        "_active",
        "_events",
        "_fragments",
        "_last",
        "_out",
        "_peer_conduits_count",
        "_ping_hash",
        "_ping_sent_ns",
        "_pinged_ns",
        "_pings_count",
        "_received_ns",
        "_sent_ns",
        "_settings",
        "_wait_ns",
        "asleep",
        "conduits",
        "doubt",
        "frame_len",
        "peer",
        "peer_lease_ns",
        "peer_pid",
        "spoke_ns",
        "state",
    )

    def __init__(
        self,
        settings: SessionSettings,
        peer_pid: bytes,
        peer_lease_ns: int,
        peer: SessionProperties,
        now_ns: int,
        *,
        frame_len: int | None = None,
    ) -> None:
        self.state = State.OPEN
        self.peer_pid = peer_pid
        self.peer_lease_ns = peer_lease_ns
        self.peer = peer
        self.doubt: Doubt | None = None  # its Open came again, and nothing since shows why
        self.spoke_ns = now_ns  # when the peer said something besides Scouts
        # What the peer and we can take.
        ours_len = settings.frame_len if frame_len is None else frame_len
        self.frame_len = min(ours_len, peer.frame_len or ours_len)
        self._peer_conduits_count = max(peer.conduits_count, 1)
        self.asleep = False  # the peer is not to be woken: nothing is asked of it (13.3)
        limits = settings.limits
        # Nobody but us is known to read masks of more than 64 bits, or to store more than 256.
        mask_bits = limits.xrce_store_count if peer.is_ours else MASK_BITS
        mask_bits = min(mask_bits, max(7 * (self.frame_len - _ACK_LEN - peer.bits // 7 - 1), 1))
        window = window_of(limits, peer.store)
        if not peer.is_ours:
            window = window._replace(kept_count=min(window.kept_count, window.flight_count))
        self.conduits = Conduits(peer.bits, peer_lease_ns, limits, mask_bits, window)
        self._settings = settings
        self._fragments: Reassembly | None = None  # from the first one on
        self._out: tuple[bytes, ...] = ()
        self._last: tuple[bytes, ...] = ()  # a Close, behind everything else
        self._events = _NO_EVENTS
        self._received_ns = now_ns
        self._sent_ns = now_ns
        self._wait_ns = 0  # until when to wait, in states that do
        self._ping_hash = 0
        self._ping_sent_ns: int | None = None  # of the Ping that is not answered
        self._pinged_ns = now_ns
        self._pings_count = 0
        self._active = False  # since the last Ping
        self._ping(now_ns)

    # Inputs.

    def send(
        self,
        make: Callable[[int], Numbered],
        now_ns: int,
        *,
        conduit: int = 0,
        fragment: Callable[[int], Frag] | None = None,
        flush: bool = False,
    ) -> bool:
        """Send a message; see `Conduits.send`.

        Raises:
            ClosedError: The session is closing, or closed.
            InvalidValueError: The peer does not have that many conduits.
        """
        if self.state is not State.OPEN:
            raise ClosedError(f"the session is {self.state.name.lower()}")
        if conduit >= self._peer_conduits_count:
            text = f"{conduit}; the peer has {self._peer_conduits_count}, from 0 on"
            raise InvalidValueError("conduit", text)
        self._active = True
        return self.conduits.send(make, now_ns, conduit=conduit, fragment=fragment, flush=flush)

    def receive(self, marked: Marked, length: int, now_ns: int) -> None:
        """A message of the peer. A Close is to be checked for the peer's pid before."""
        if self.state is State.CLOSED:
            return
        self._received_ns = self.spoke_ns = now_ns
        message = marked.message
        if isinstance(message, Ping):
            self._out += (encode(Pong(hash=message.hash)),)
        elif isinstance(message, Pong):
            self._pong(message, now_ns)
        elif isinstance(message, Close):
            self._recv_close(message, now_ns)
        else:
            self._channel(marked, length, now_ns)

    def sleep(self, now_ns: int, *, asleep: bool) -> None:
        """The peer sleeps from now on, or is awake again: what it missed is told at once."""
        if self.asleep and not asleep:
            self.conduits.wake(now_ns)
        self.asleep = asleep

    def touch(self, now_ns: int) -> None:
        """Something came from the peer that says no more than that it lives."""
        self._received_ns = now_ns

    def repeated(self, now_ns: int) -> None:
        """The Open of the peer came again, and it says in no other way who it is (A-14)."""
        if self.doubt is None:
            copy_ns = max(self._settings.duplicate_ns, 4 * self.conduits.round_trip.rto_ns)
            self.doubt = Doubt(copy_ns)
        self._received_ns = self.spoke_ns = now_ns

    def judged(self, marked: Marked, length: int, now_ns: int) -> list[Arrival] | None:
        """Look at a message before it is received.

        Returns:
            None if it is to be received; nothing if it is kept until more is known; otherwise what
            a peer said that began anew.
        """
        if self.doubt is None:
            return None
        channel = self.conduits.incoming(marked.conduit)
        match self.doubt.judge(channel, marked, length, now_ns):
            case Verdict.GOES_ON:
                self.doubt = None
            case Verdict.ANEW:
                return [*self.doubt.arrivals(), (marked, length)]
            case Verdict.HELD:
                self._received_ns = self.spoke_ns = now_ns
                return []
            case Verdict.UNDECIDED:
                pass
        return None

    def silent(self, now_ns: int) -> list[Arrival] | None:
        """As `judged`, if nothing came that would show that the peer goes on."""
        if self.doubt is None or self.doubt.decide_ns is None or now_ns < self.doubt.decide_ns:
            return None
        return self.doubt.arrivals()

    def violated(self, error: ProtocolError, now_ns: int, *, unsaid: bool = False) -> None:
        """The peer broke a rule: malformed octets end the session with 255 (19.1).

        Args:
            unsaid: Say nothing before that: no acknowledgement of what was not kept.
        """
        reason = CloseReason.GENERIC if isinstance(error, DecodeError) else error.close_reason
        self._end(Input.VIOLATED, reason, str(error), now_ns, announce=True, unsaid=unsaid)

    def expire(self, text: str, now_ns: int) -> None:
        """The peer does not live any more; it is told, in case it does (8.3)."""
        self._end(Input.EXPIRED, CloseReason.SUCCESS, text, now_ns, announce=True)

    def close(self, now_ns: int) -> None:
        """End the session in order."""
        if self.state is State.OPEN:
            self._move(Input.CLOSE)
            self._wait_ns = now_ns + self._settings.drain_ns
            self._drained(now_ns)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due."""
        if self.state is State.CLOSED:
            return
        if self.peer_lease_ns and now_ns > self._received_ns + self.peer_lease_ns:
            self.expire(
                f"nothing came for {self.peer_lease_ns / 1e9:g} s, the peer's lease", now_ns
            )
            return
        self.conduits.handle_timer(now_ns, asleep=self.asleep)
        if not self.asleep and self.conduits.is_stalled(now_ns):
            text = "the peer acknowledges nothing"
            self._end(Input.VIOLATED, CloseReason.GENERIC, text, now_ns, announce=True)
            return
        self._drained(now_ns)
        if self.state is State.CLOSING and now_ns >= self._wait_ns:
            self._end(Input.TIMEOUT, CloseReason.SUCCESS, "closed", now_ns)
            return
        ping_ns = self._next_ping_ns()
        if ping_ns is not None and now_ns >= ping_ns:
            self._ping(now_ns)
        keep_ns = self._keep_ns()
        if keep_ns is not None and now_ns >= keep_ns:
            self._out += (encode(KeepAlive(pid=self._settings.pid)),)
            self._sent_ns = now_ns

    # Outputs.

    def data_to_send(self, now_ns: int) -> list[bytes]:
        """Frames for the peer, in order."""
        channel = [] if self.state is State.CLOSED else self.conduits.data_to_send()
        # A Close goes last: what is before it counts, what is behind it would not.
        out = [*self._out, *channel, *self._last]
        self._out = self._last = ()
        frames = pack(out, self.frame_len)
        if frames:
            self._sent_ns = now_ns
        return frames

    def best_effort_to_send(self, now_ns: int) -> list[bytes]:
        """Of these frames, those that need no answer, if they go another way."""
        frames = pack(self.conduits.best_effort_to_send(), self.frame_len)
        if frames:
            self._sent_ns = now_ns
        return frames

    def take_events(self) -> list[SessionEvent]:
        """What happened, oldest first."""
        events, self._events = self._events, _NO_EVENTS
        return events

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        if self.state is State.CLOSED:
            return None
        channels_ns = self.conduits.next_timer_ns(asleep=self.asleep)
        due = [channels_ns, self._keep_ns(), self._next_ping_ns()]
        if self.doubt is not None:
            due.append(self.doubt.decide_ns)
        if self.peer_lease_ns:
            due.append(self._received_ns + self.peer_lease_ns + 1)
        if self.state is not State.OPEN:
            due.append(self._wait_ns)
        return min((at for at in due if at is not None), default=None)

    @property
    def fragments_seen(self) -> bool:
        """Whether the peer sends fragments, so that it reads them."""
        return self._fragments is not None

    @property
    def dropped_fragments_count(self) -> int:
        """Series of fragments that did not become a message."""
        return self._fragments.dropped_count if self._fragments is not None else 0

    # Handlers.

    def _channel(self, marked: Marked, length: int, now_ns: int) -> None:
        whole = self.conduits.receive(marked, length, now_ns)
        if marked.fragment is not None and self._fragments is None:
            self._fragments = self._reassembly()
        if self._fragments is not None:
            whole = [done for one in whole for done in self._fragments.receive(one, now_ns)]
            message = marked.message
            if isinstance(message, Synch):
                told = self._fragments.synch(marked.conduit, message.sn, reliable=message.reliable)
                whole += told
        for done in whole:
            if isinstance(done.message, NUMBERED):  # others say nothing to an application
                self._active = True
                self._tell(Delivered(done))
        self._drained(now_ns)

    def _reassembly(self) -> Reassembly:
        limits = self._settings.limits
        return Reassembly(
            Serial.of(self.peer.bits),
            message_len=limits.xrce_message_len,
            session_len=limits.xrce_fragments_len,
            idle_ns=limits.xrce_fragment_idle_ns,
            strict=not self._settings.drops_long,
        )

    def _pong(self, message: Pong, now_ns: int) -> None:
        if self._ping_sent_ns is not None and message.hash == self._ping_hash:
            self.conduits.round_trip.sample(now_ns - self._ping_sent_ns)
            self._ping_sent_ns = None

    def _next_ping_ns(self) -> int | None:
        """Every few seconds while there is traffic. The first one is repeated until it is answered:
        a session in which nothing comes after its Open is not kept (19.3)."""
        if self.asleep:
            return None
        if self.conduits.round_trip.samples_count == 0:
            again = self._pings_count < self._settings.open_count
            return self._pinged_ns + self._settings.open_ns if again else None
        return self._pinged_ns + self._settings.ping_ns if self._active else None

    def ping(self, now_ns: int) -> bool:
        """Ask whether the peer is there, unless it was asked already; whether it was asked."""
        if self._ping_sent_ns is not None or self.state is not State.OPEN:
            return False
        self._ping(now_ns)
        return True

    def _ping(self, now_ns: int) -> None:
        self._pings_count += 1
        self._ping_hash = (self._ping_hash + 1) % _HASHES
        self._ping_sent_ns = self._pinged_ns = now_ns
        self._active = False
        self._out += (encode(Ping(hash=self._ping_hash)),)

    def _recv_close(self, message: Close, now_ns: int) -> None:
        if message.reason != CloseReason.SUCCESS:
            text = f"the peer closed with reason {message.reason}"
            self._end(Input.RECV_ERROR, message.reason, text, now_ns)
        elif self.state is State.CLOSING:  # the answer to ours
            self._end(Input.RECV_CLOSE, CloseReason.SUCCESS, "closed", now_ns)
        else:
            self._move(Input.RECV_CLOSE)
            self._wait_ns = now_ns + self._settings.drain_ns
            self._drained(now_ns)

    def _drained(self, now_ns: int) -> None:
        """Go on with closing, if nothing is awaited any more."""
        if self.state not in (State.DRAINING, State.ANSWERING):
            return
        if self.conduits.unacknowledged_count and now_ns < self._wait_ns:
            return
        if self.state is State.ANSWERING:
            text = "the peer closed"
            self._end(Input.DRAINED, CloseReason.SUCCESS, text, now_ns, announce=True)
            return
        self._move(Input.DRAINED)
        self._say_close(CloseReason.SUCCESS)
        self._wait_ns = now_ns + self._settings.close_ns

    def _end(
        self,
        input_: Input,
        reason: int,
        text: str,
        now_ns: int,
        *,
        announce: bool = False,
        unsaid: bool = False,
    ) -> None:
        if self.state is State.CLOSED:
            return
        self._out = () if unsaid else (*self._out, *self.conduits.data_to_send())
        self._move(input_)
        if announce:
            self._say_close(reason)
        self._tell(Ended(reason, text))

    def _tell(self, event: SessionEvent) -> None:
        self._events = self._events or []
        self._events.append(event)

    def _say_close(self, reason: int) -> None:
        self._last += (encode(Close(pid=self._settings.pid, reason=reason)),)

    def _move(self, input_: Input) -> None:
        self.state = TRANSITIONS[self.state, input_]

    def _keep_ns(self) -> int | None:
        lease_ns = self._settings.lease_ns
        return self._sent_ns + lease_ns // 3 if lease_ns else None
