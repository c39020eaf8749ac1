"""Acceptor: the side that is opened to, with all its sessions (8.3 to 8.5).

Only an Open makes it remember anybody. A message that carries a pid belongs to that pid's session,
wherever it comes from, and moves the session there; every other message belongs to the session at
its source address. A source is whatever the caller tells sources apart by.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from elea.errors import ClosedError, ProtocolError, RemoteProtocolError
from elea.xrce.channel.conduits import NUMBERED, Numbered
from elea.xrce.closing import CloseReason, violation
from elea.xrce.encode import encode
from elea.xrce.framing import Marked, read_frame
from elea.xrce.message_records import (
    Close,
    Frag,
    KeepAlive,
    Message,
    Open,
    Ping,
    Pong,
    Scout,
    Synch,
)
from elea.xrce.properties import AUTHENTICATION, SessionProperties, first_of_each
from elea.xrce.session.incarnation import Arrival
from elea.xrce.session.opening import fingerprint, has_nonce, read_open
from elea.xrce.session.rates import Last, RateLimit
from elea.xrce.session.scouting import Role, ScoutAnswerer, fitted
from elea.xrce.session.session import Delivered, Ended, Session, State
from elea.xrce.session.settings import SessionSettings, accept_of

_Source = TypeVar("_Source")
_ANEW: Final = "the device began anew"


@dataclass(slots=True)
class Accepted:
    """A device has a session now."""

    properties: SessionProperties
    locators: tuple[bytes, ...]


AcceptorEvent = tuple[bytes, Accepted | Delivered | Ended]  # and the pid it is about


@dataclass(slots=True)
class _Entry(Generic[_Source]):
    session: Session
    sources: list[_Source]  # where it is reached, the last one heard from at the end
    opened_ns: int
    asked_ns: int  # by the last Open
    opening: int  # the fingerprint of its Open
    locators: tuple[bytes, ...]
    host: Hashable | None = None
    proof: bytes | None = None  # property 12 of the last Open
    groups: dict[int, bytes] | None = None  # conduits by which it writes to a group
    gone: _Source | None = None  # a source that is no more, until there is another one
    former: tuple[_Source, ...] = ()  # sources of the incarnation before this one
    accepts_count: int = 0
    heard: bool = False  # anything came after the Open
    used: bool = False  # and not only KeepAlives
    timer_ns: int | None = None  # when it is looked at next, by the heap of all


class Acceptor(Generic[_Source]):
    """All sessions that others opened with us.

    Args:
        settings: Who we are.
        scouting: What is answered to Scouts; None answers nothing.
        authenticate: Told the Open and its property 12, says whether that is good enough. None if
            that property proves nothing.
        moves: Whether a session follows its pid to another source (A-15).
        host_of: What sources of one host have in common, to bound their sessions; None: no bound.
        is_stream: Whether a source is a stream. Of a device that has one of each kind, reliable
            messages go by its stream and the rest by its datagrams (8.5).
        frame_len_of: The longest frame for a pid, None while it is not known, at a source; None if
            it is the same for all.
    """

    def __init__(
        self,
        settings: SessionSettings,
        *,
        scouting: ScoutAnswerer | None = None,
        authenticate: Callable[[Open, bytes | None], bool] | None = None,
        moves: bool = True,
        host_of: Callable[[_Source], Hashable | None] = lambda _source: None,
        is_stream: Callable[[_Source], bool] = lambda _source: False,
        frame_len_of: Callable[[bytes | None, _Source], int | None] = lambda _pid, _source: None,
    ) -> None:
        self.strays_count = 0  # messages and frames that belong to no session
        self._settings = settings
        self._scouting = scouting
        self._authenticate = authenticate
        self._moves = moves
        self._host_of = host_of
        self._is_stream = is_stream
        self._frame_len_of = frame_len_of
        self._stopping = False
        self._by_host: Counter[Hashable] = Counter()  # sessions, by where they began
        limits = settings.limits
        self._opens = RateLimit(
            limits.xrce_scouts_source_count, limits.xrce_scouts_count, limits.scout_sources_count
        )
        self._pings = RateLimit(
            limits.xrce_pings_source_count, limits.xrce_pings_count, limits.scout_sources_count
        )
        self._entries: dict[bytes, _Entry[_Source]] = {}
        self._pids: dict[_Source, bytes] = {}
        self._touched: dict[bytes, None] = {}  # sessions that may have something to say, in order
        self._timers: list[tuple[int, bytes]] = []  # a heap; entries of the past may be in it
        self._out: list[tuple[_Source, bytes]] = []
        # Sources that speak as if they had a session, and pids that were told to begin anew.
        self._lost: Last[_Source] = Last(limits.scout_sources_count)
        self._told: Last[bytes] = Last(limits.scout_sources_count)
        self._past: Last[int] = Last(limits.scout_sources_count)  # Opens with a nonce, of the past
        self._events: deque[AcceptorEvent] = deque()

    def session(self, pid: bytes) -> Session | None:
        """The session of a device, while it lives."""
        entry = self._entries.get(pid)
        return entry.session if entry is not None else None

    def pids(self) -> list[bytes]:
        """The devices that have a session."""
        return list(self._entries)

    def pid_at(self, source: _Source) -> bytes | None:
        """The device at a source, if it has a session."""
        return self._pids.get(source)

    def source_of(self, pid: bytes) -> _Source | None:
        """Where a device was heard from last."""
        entry = self._entries.get(pid)
        return entry.sources[-1] if entry is not None and entry.sources else None

    def group_of(self, pid: bytes, conduit: int) -> bytes | None:
        """The group that hears a conduit of a device, as its locator."""
        entry = self._entries.get(pid)
        return entry.groups.get(conduit) if entry is not None and entry.groups else None

    # Inputs.

    def stop(self) -> None:
        """Answer no Scout and refuse every Open from now on."""
        self._stopping = True

    def lost(self, source: _Source, now_ns: int) -> None:
        """A source is no more; the session uses another one, waits for one, or ends (8.5)."""
        pid = self._pids.get(source)
        entry = self._entries.get(pid) if pid is not None else None
        if pid is None or entry is None:
            return
        if len(entry.sources) > 1:
            entry.sources.remove(source)
            del self._pids[source]
        elif not entry.session.peer_lease_ns:  # nothing else would ever end it
            self._drop(pid, "its connection ended", now_ns)
        else:
            entry.gone = source

    def receive(
        self, frame: bytes, source: _Source, now_ns: int, *, group: bytes | None = None
    ) -> bytes | None:
        """A frame from a source, to a group if one is named. Messages before an error in it count.

        Returns:
            The pid of the device at that source, if it has a session.
        """
        try:
            for marked in read_frame(frame):
                if group is not None and isinstance(marked.message, NUMBERED):
                    self._written_to(group, marked.conduit, source)
                self._message(marked, len(frame), source, now_ns)
        except ProtocolError as error:
            entry = self._entry_at(source)
            if entry is None:
                self.strays_count += 1
            else:
                entry.session.violated(error, now_ns)
                self._touched[entry.session.peer_pid] = None
        self._collect(now_ns)
        return self._pids.get(source)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due in the sessions whose time has come."""
        while self._timers and self._timers[0][0] <= now_ns:
            at, pid = heapq.heappop(self._timers)
            entry = self._entries.get(pid)
            if entry is None or entry.timer_ns != at:
                continue
            entry.timer_ns = None
            self._touched[pid] = None
            anew = entry.session.silent(now_ns)
            if anew is not None:
                self._begin_anew(pid, entry, anew, now_ns)
            entry.session.handle_timer(now_ns)
            if not entry.heard and now_ns > entry.asked_ns + self._silence_ns(entry):
                entry.session.expire("it said nothing after its Open", now_ns)
        self._collect(now_ns)

    def send(
        self,
        pid: bytes,
        make: Callable[[int], Numbered],
        now_ns: int,
        *,
        conduit: int = 0,
        fragment: Callable[[int], Frag] | None = None,
        flush: bool = False,
    ) -> bool:
        """Send a message to a device; see `Session.send`.

        Raises:
            ClosedError: It has no session, or one that is closing.
        """
        entry = self._entries.get(pid)
        if entry is None:
            raise ClosedError(f"no session with {pid.hex()}")
        self._touched[pid] = None
        return entry.session.send(make, now_ns, conduit=conduit, fragment=fragment, flush=flush)

    def close(self, pid: bytes, now_ns: int) -> None:
        """End a session in order."""
        entry = self._entries.get(pid)
        if entry is not None:
            entry.session.close(now_ns)
            self._touched[pid] = None
            self._collect(now_ns)

    def end(self, pid: bytes, text: str, now_ns: int) -> None:
        """End a session without waiting for anything; its device is told."""
        entry = self._entries.get(pid)
        if entry is not None:
            entry.session.expire(text, now_ns)
            self._touched[pid] = None
            self._collect(now_ns)

    def ping(self, pid: bytes, now_ns: int) -> bool:
        """Have a device say something; whether it was asked."""
        entry = self._entries.get(pid)
        asked = entry is not None and entry.session.ping(now_ns)
        if asked:
            self._touched[pid] = None
        return asked

    def violated(
        self, pid: bytes, error: ProtocolError, now_ns: int, *, unsaid: bool = False
    ) -> None:
        """A device broke a rule: its session ends for that reason, `unsaid` what it has to say."""
        entry = self._entries.get(pid)
        if entry is not None:
            if unsaid:
                self._out = [one for one in self._out if one[0] not in entry.sources]
            entry.session.violated(error, now_ns, unsaid=unsaid)
            self._touched[pid] = None
            self._collect(now_ns)

    def sleep(self, pid: bytes, now_ns: int, *, asleep: bool) -> None:
        """A device is not to be woken from now on, or is awake again."""
        entry = self._entries.get(pid)
        if entry is not None and entry.session.asleep is not asleep:
            entry.session.sleep(now_ns, asleep=asleep)
            self._touched[pid] = None
            self._collect(now_ns)

    # Outputs.

    def data_to_send(self, now_ns: int) -> list[tuple[_Source, bytes]]:
        """Frames and where they go, in order."""
        self._collect(now_ns)
        out, self._out = self._out, []
        return out

    def next_event(self) -> AcceptorEvent | None:
        """What happened, oldest first."""
        return self._events.popleft() if self._events else None

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        while self._timers:
            at, pid = self._timers[0]
            entry = self._entries.get(pid)
            if entry is not None and entry.timer_ns == at:
                return at
            heapq.heappop(self._timers)
        return None

    def _due_ns(self, entry: _Entry[_Source]) -> int | None:
        at = entry.session.next_timer_ns()
        if not entry.heard:
            silence_ns = entry.asked_ns + self._silence_ns(entry) + 1
            return silence_ns if at is None else min(at, silence_ns)
        return at

    def _silence_ns(self, entry: _Entry[_Source]) -> int:
        lease_ns = entry.session.peer_lease_ns
        return min(lease_ns, self._settings.idle_ns) if lease_ns else self._settings.idle_ns

    # Messages.

    def _message(self, marked: Marked, length: int, source: _Source, now_ns: int) -> None:
        message = marked.message
        match message:
            case Open():
                self._open(message, source, now_ns)
            case Scout():
                self._scout(message, source, now_ns)
            case KeepAlive() | Close():
                self._named(marked, message.pid, length, source, now_ns)
            case _:
                self._unnamed(marked, length, source, now_ns)

    def _scout(self, message: Scout, source: _Source, now_ns: int) -> None:
        entry = self._entry_at(source)
        if entry is not None:
            # Peers look for others for as long as they live, and say nothing else when idle. A
            # Hello would make them open again, and forget where our numbers are. But one that has
            # said nothing else for a lease may have been started anew, and look for us.
            quiet_ns = now_ns - entry.session.spoke_ns
            entry.heard = True
            entry.session.touch(now_ns)
            if message.mask & Role.PEER and quiet_ns <= self._silence_ns(entry):
                return
        if self._scouting is not None and not self._stopping:
            stream = self._is_stream(source)
            answer = self._scouting.answer(message, source, now_ns, is_stream=stream)
            if answer is not None:
                limit = self._frame_len_of(None, source) or self._settings.frame_len
                self._say(source, fitted(answer, limit))

    def _named(self, marked: Marked, pid: bytes, length: int, source: _Source, now_ns: int) -> None:
        """A message that says whose it is."""
        entry = self._entries.get(pid)
        if entry is None or (source not in entry.sources and not self._moves):
            self.strays_count += 1
            return
        entry.heard = True
        if isinstance(marked.message, KeepAlive):
            self._reached_at(pid, entry, source, now_ns)
        self._touched[pid] = None
        entry.session.receive(marked, length, now_ns)

    def _unnamed(self, marked: Marked, length: int, source: _Source, now_ns: int) -> None:
        entry = self._entry_at(source)
        if entry is not None:
            entry.heard = entry.used = True
            self._touched[entry.session.peer_pid] = None
            anew = entry.session.judged(marked, length, now_ns)
            if anew is None:
                entry.session.receive(marked, length, now_ns)
            elif anew:
                self._begin_anew(entry.session.peer_pid, entry, anew, now_ns)
        elif isinstance(marked.message, Ping) and self._pings.allows(source, now_ns):
            self._say(source, Pong(hash=marked.message.hash))
        else:
            self.strays_count += 1
            if isinstance(marked.message, (*NUMBERED, Synch)):
                self._lost.add(source)

    def _written_to(self, group: bytes, conduit: int, source: _Source) -> None:
        """A conduit is mapped to a group, for as long as the session lasts (10.3)."""
        entry = self._entry_at(source)
        if entry is not None and conduit < self._settings.limits.xrce_conduits_count:
            entry.groups = entry.groups or {}
            entry.groups[conduit] = group

    def _open(self, message: Open, source: _Source, now_ns: int) -> None:
        pid = message.pid
        if pid == self._settings.pid:
            return  # our own, by multicast
        entry = self._entries.get(pid)
        # Before anything else is heard the number of Accepts has a bound of its own.
        if (entry is None or entry.heard) and not self._opens.allows(source, now_ns):
            return
        if self._stopping:
            self._say(source, Close(pid=self._settings.pid, reason=CloseReason.RESOURCES))
            return
        host = self._host_of(source)
        proof = first_of_each(message.properties).get(AUTHENTICATION)
        opening = fingerprint(message)
        if entry is not None and opening != entry.opening and opening in self._past:
            self.strays_count += 1  # a copy that comes late: the device has gone on since
            return
        known = entry is not None and source in entry.sources
        repeated = entry is not None and self._is_repeated(
            entry, message, opening, proof, source, now_ns
        )
        # Its proof is good once. The Open itself may come again, from where it came.
        again = entry is not None and repeated and known and proof == entry.proof
        try:
            properties, lease_ns = self._checked(
                message, host, known=entry is not None, proven=again
            )
        except RemoteProtocolError as error:
            # To who has a session here, a Close would end it: an old Open may come very late.
            if not known or error.close_reason != CloseReason.AUTHENTICATION:
                self._say(source, Close(pid=self._settings.pid, reason=error.close_reason))
            return
        if entry is None and self._is_lost(message, properties, source):
            self._say(source, Close(pid=self._settings.pid, reason=CloseReason.SUCCESS))
            return
        former: tuple[_Source, ...] = ()
        if entry is not None and not repeated:
            quiet_ns = now_ns - entry.session.spoke_ns
            if source in entry.former and quiet_ns < self._settings.duplicate_ns:
                self.strays_count += 1  # a copy from where it was before; it speaks elsewhere now
                return
            former = tuple(entry.sources)
            self._drop(pid, _ANEW, now_ns, anew=True)
            entry = None
        if entry is None:
            limit = self._frame_len_of(pid, source)
            session = Session(self._settings, pid, lease_ns, properties, now_ns, frame_len=limit)
            entry = _Entry(session, [], now_ns, now_ns, opening, message.locators, host)
            entry.former = tuple(one for one in former if one != source)
            self._entries[pid] = entry
            if host is not None:
                self._by_host[host] += 1
            self._events.append((pid, Accepted(properties, message.locators)))
        elif entry.used and not self._says_when(proof, properties):
            entry.session.repeated(now_ns)
        entry.proof, entry.asked_ns = proof, now_ns
        self._reached_at(pid, entry, source, now_ns)
        entry.accepts_count += not entry.heard
        if entry.accepts_count > self._settings.accept_count:
            self._drop(pid, "its Open came too often", now_ns)
            return
        entry.session.touch(now_ns)
        self._touched[pid] = None
        self._say(source, accept_of(self._settings, pid, entry.session.frame_len))

    def _is_repeated(
        self,
        entry: _Entry[_Source],
        message: Open,
        opening: int,
        proof: bytes | None,
        source: _Source,
        now_ns: int,
    ) -> bool:
        """Whether an Open is the one that began the session, said again (A-14)."""
        if entry.session.state is not State.OPEN or opening != entry.opening:
            return False
        if not entry.used:  # nothing would be lost
            return True
        nonce = has_nonce(entry.session.peer)
        if source in entry.sources:
            return nonce or proof == entry.proof
        # One more transport is another kind of source; one of a kind that is known is a device that
        # was started anew, and says 0 where its last life was further.
        kinds = {self._is_stream(one) for one in entry.sources}
        young = now_ns - entry.opened_ns < self._settings.duplicate_ns
        return self._is_stream(source) not in kinds and (nonce or young)

    def _is_lost(self, message: Open, properties: SessionProperties, source: _Source) -> bool:
        """Whether a peer has a session that we lost, so that it would declare nothing again.

        Peers open again to whoever says Hello, and go on if they had a session with it. Such a one
        is told once that it is over.
        """
        told = message.pid in self._told
        lost = source in self._lost and bool(message.locators) and not properties.is_ours
        self._lost.discard(source)
        self._told.discard(message.pid)
        if lost and not told:
            self._told.add(message.pid)
        return lost and not told

    def _says_when(self, proof: bytes | None, properties: SessionProperties) -> bool:
        """Whether the Open of another incarnation would differ, so that its numbers need no look.

        A proof that is checked has a time in it. One that is not may be the same for ever.
        """
        return has_nonce(properties) or (self._authenticate is not None and proof is not None)

    def _begin_anew(
        self, pid: bytes, entry: _Entry[_Source], arrivals: list[Arrival], now_ns: int
    ) -> None:
        """The numbers of a device began anew: so does its session, with these messages."""
        old = entry.session
        self._events += [(pid, event) for event in old.take_events()]
        self._events.append((pid, Ended(CloseReason.SUCCESS, _ANEW, anew=True)))
        session = Session(
            self._settings, pid, old.peer_lease_ns, old.peer, now_ns, frame_len=old.frame_len
        )
        entry.session, entry.opened_ns, entry.timer_ns = session, now_ns, None
        self._events.append((pid, Accepted(old.peer, entry.locators)))
        self._touched[pid] = None
        try:
            for marked, length in arrivals:
                session.receive(marked, length, now_ns)
        except ProtocolError as error:  # also by the timer, where nobody else would look
            session.violated(error, now_ns)

    def _checked(
        self, message: Open, host: Hashable | None, *, known: bool, proven: bool
    ) -> tuple[SessionProperties, int]:
        """What an Open says, if we can have a session with it; the order is that of 7.3."""
        limits = self._settings.limits
        authenticate = None if proven else self._authenticate
        said = read_open(message, authenticate, limits)
        if not known and len(self._entries) >= limits.xrce_sessions_count:
            text = f"there are {limits.xrce_sessions_count} sessions already"
            raise violation(CloseReason.RESOURCES, text)
        if not known and self._by_host[host] >= limits.xrce_sessions_host_count:
            text = f"there are {limits.xrce_sessions_host_count} sessions of this host already"
            raise violation(CloseReason.RESOURCES, text)
        return said

    # The tables.

    def _entry_at(self, source: _Source) -> _Entry[_Source] | None:
        pid = self._pids.get(source)
        return self._entries.get(pid) if pid is not None else None

    def _reached_at(self, pid: bytes, entry: _Entry[_Source], source: _Source, now_ns: int) -> None:
        other = self._pids.get(source)
        if other is not None and other != pid:  # two sessions never share an address (8.5)
            self._drop(other, "another device has its address", now_ns)
        for old in (source, entry.gone):
            if old is not None and old in entry.sources:
                entry.sources.remove(old)
                self._pids.pop(old, None)
        entry.gone = None
        entry.sources.append(source)
        for old in entry.sources[: -self._settings.limits.xrce_locators_count]:
            entry.sources.remove(old)
            self._pids.pop(old, None)
        self._pids[source] = pid

    def _drop(self, pid: bytes, text: str, now_ns: int, *, anew: bool = False) -> None:
        """End a session without a word to its device."""
        entry = self._entries.get(pid)
        if entry is not None:
            self._flush(pid, entry, now_ns)
            self._forget(pid)
            if entry.session.state is not State.CLOSED:
                self._events.append((pid, Ended(CloseReason.SUCCESS, text, anew=anew)))

    def _forget(self, pid: bytes) -> None:
        entry = self._entries.pop(pid)
        if entry.used and has_nonce(entry.session.peer):
            self._past.add(entry.opening)
        if entry.host is not None:
            self._by_host[entry.host] -= 1
            if not self._by_host[entry.host]:
                del self._by_host[entry.host]
        for source in entry.sources:
            self._pids.pop(source, None)

    def _collect(self, now_ns: int) -> None:
        """Take over what sessions want to say, and forget those that ended."""
        touched, self._touched = self._touched, {}
        for pid in touched:
            entry = self._entries.get(pid)
            if entry is None:
                continue
            self._flush(pid, entry, now_ns)
            if entry.session.state is State.CLOSED:
                self._forget(pid)
                continue
            at = self._due_ns(entry)
            if at is not None and (entry.timer_ns is None or at < entry.timer_ns):
                entry.timer_ns = at
                heapq.heappush(self._timers, (at, pid))

    def _flush(self, pid: bytes, entry: _Entry[_Source], now_ns: int) -> None:
        self._events += [(pid, event) for event in entry.session.take_events()]
        last = entry.sources[-1]
        stream = self._last_of(entry, last, is_stream=True)
        datagrams = self._last_of(entry, last, is_stream=False)
        if stream != datagrams:
            for frame in entry.session.best_effort_to_send(now_ns):
                self._out.append((datagrams, frame))
        for frame in entry.session.data_to_send(now_ns):
            self._out.append((stream, frame))

    def _last_of(self, entry: _Entry[_Source], last: _Source, *, is_stream: bool) -> _Source:
        """The source of a kind that was heard from last, or of the other kind if there is none."""
        if len(entry.sources) == 1:
            return last
        found = (one for one in reversed(entry.sources) if self._is_stream(one) is is_stream)
        return next(found, last)

    def _say(self, source: _Source, message: Message) -> None:
        self._out.append((source, encode(message)))
