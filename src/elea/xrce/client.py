"""Client: the device's end of XRCE, for programs that hold no more than they say (8.2, 9, 12, 13).

It needs nothing but the standard library, opens no socket and starts no thread: frames and the time
go in, frames and events come out. What it keeps is bounded by `DEVICE_LIMITS`, or by limits of the
caller: a window of unacknowledged messages, messages that came too early, and what was declared.

    client.open(now_ns)
    rid = client.resource("/lab/t"); client.publisher(rid); client.commit()
    client.write(rid, b"21.5", now_ns)
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from elea.errors import ClosedError, InvalidValueError, LimitError, RemoteProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.xrce.batches import Batch
from elea.xrce.channel.conduits import Numbered
from elea.xrce.channel.serial import Serial
from elea.xrce.closing import CloseReason, violation
from elea.xrce.declaration_records import (
    PERIODIC_PULL_MODE_ID,
    PERIODIC_PUSH_MODE_ID,
    PULL_MODE_ID,
    PUSH_MODE_ID,
    BindingDecl,
    CommitDecl,
    Declaration,
    ForgetPublisherDecl,
    ForgetResourceDecl,
    ForgetSelectionDecl,
    ForgetSubscriberDecl,
    Property,
    PublisherDecl,
    ResourceDecl,
    ResultDecl,
    SelectionDecl,
    SubscriberDecl,
    SubscriberDeclParamsPart,
)
from elea.xrce.declarations import Changes, Declarations
from elea.xrce.fragments import slices
from elea.xrce.framing import Marked
from elea.xrce.message_records import (
    BatchedData,
    BatchedDataPayloadPart,
    Declare,
    Frag,
    Pull,
    StreamData,
    WriteData,
)
from elea.xrce.properties import PARAMETERS, texts
from elea.xrce.selections import resource_of
from elea.xrce.session.initiator import Initiator, Opened, Phase
from elea.xrce.session.session import Delivered, Ended, Session, State
from elea.xrce.session.settings import SessionSettings
from elea.xrce.status import RefusedError, Status
from elea.xrce.transactions import Incoming, Outgoing, Settled

DEVICE_LIMITS: Final = dataclasses.replace(
    DEFAULT_LIMITS,
    xrce_flight_count=16,
    xrce_window_count=32,
    xrce_window_len=4_096,
    xrce_store_count=32,
    xrce_store_len=4_096,
    xrce_message_len=8_192,
    xrce_fragments_len=16_384,  # one that is reliable, and one that is not
    xrce_names_count=256,
    xrce_endpoints_count=64,
    xrce_transaction_count=64,
)
"""What a device keeps at most; docs/topics/xrce.md says it in octets."""
_Piece: TypeAlias = tuple[Callable[[int], Numbered], Callable[[int], Frag] | None]
_NAMES: Final = (ResourceDecl, SelectionDecl, BindingDecl)


@dataclass(slots=True)
class Received:
    """A sample."""

    path: str  # of the resource, without the scheme
    id: int | None  # of our subscriber; None if it came by name
    payload: bytes
    reliable: bool


@dataclass(slots=True)
class PullEnded:
    """A Pull has all that there is, or all that it asked for."""

    id: int


@dataclass(slots=True)
class Interest:
    """A publisher of ours has a reader now, or none any more."""

    id: int
    matched: bool


ClientEvent: TypeAlias = Opened | Ended | Settled | Received | PullEnded | Interest


class Client:
    """One device.

    Args:
        settings: Who it is; its limits bound what it keeps.
        locators: Where else it can be reached.
        two_ways: Whether the broker is reached by a stream and by datagrams: see `ways_to_send`.
    """

    def __init__(
        self,
        settings: SessionSettings,
        locators: tuple[bytes, ...] = (),
        *,
        two_ways: bool = False,
    ) -> None:
        self.unmatched_count = 0  # samples that nobody reads, not sent
        self.unknown_count = 0  # samples that came under an id that means nothing here
        self._settings = settings
        self._initiator = Initiator(settings, locators, two_ways=two_ways)
        self._events: deque[ClientEvent] = deque()
        self._declared: list[Declaration] = []  # since the last commit
        self._next_rid = 2
        self._next_sid = 1
        self._reset(0)

    def _reset(self, commit_mode: int) -> None:
        limits = self._settings.limits
        self._mine = Declarations(vendor=True, limits=limits)
        self._theirs = Declarations(self._mine.names, global_ids=True, limits=limits)
        self._incoming = Incoming(self._settings.properties.commit_mode, limits)
        self._outgoing = Outgoing(commit_mode, self._frame_len)
        self._declares: deque[tuple[Declaration, ...]] = deque()  # at most one
        self._rest: deque[_Piece] = deque()  # what of one call waits for the window

    @property
    def is_open(self) -> bool:
        """Whether there is a session."""
        return self._initiator.phase is Phase.OPEN

    @property
    def unacknowledged_count(self) -> int:
        """Messages that the broker has not acknowledged, and fragments that were not sent."""
        session = self._initiator.session
        sent = session.conduits.unacknowledged_count if session is not None else 0
        return sent + len(self._rest)

    @property
    def incomplete_count(self) -> int:
        """Samples of this session whose fragments did not become a whole."""
        session = self._initiator.session
        return session.dropped_fragments_count if session is not None else 0

    @property
    def _frame_len(self) -> int:
        session = self._initiator.session
        return session.frame_len if session is not None else self._settings.frame_len

    # The session.

    def open(self, now_ns: int) -> None:
        """Ask for a session. What was declared in an earlier one has to be declared again."""
        self._initiator.open(now_ns)

    def close(self, now_ns: int) -> None:
        """End the session in order."""
        self._initiator.close(now_ns)
        self._collect(now_ns)

    def receive(self, frame: bytes, now_ns: int) -> None:
        """A frame of the broker."""
        self._initiator.receive(frame, now_ns)
        self._collect(now_ns)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due."""
        self._initiator.handle_timer(now_ns)
        self._collect(now_ns)

    def data_to_send(self, now_ns: int) -> list[bytes]:
        """Frames for the broker, in order."""
        self._pump(now_ns)
        return self._initiator.data_to_send(now_ns)

    def ways_to_send(self, now_ns: int) -> tuple[list[bytes], list[bytes]]:
        """Frames for the broker by a stream, and by datagrams; both ways lead to one session."""
        self._pump(now_ns)
        return self._initiator.ways_to_send(now_ns)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        return self._initiator.next_timer_ns()

    def next_event(self) -> ClientEvent | None:
        """What happened, oldest first."""
        return self._events.popleft() if self._events else None

    # Declarations. They are collected, and sent by `commit`.

    def resource(
        self, name: str, properties: Iterable[Property] = (), rid: int | None = None
    ) -> int:
        """Name a resource; its id."""
        if rid is None:
            rid, self._next_rid = self._next_rid, self._next_rid + 2
        listed = tuple(properties) or None
        self._declared.append(ResourceDecl(rid=rid, resource=name.encode(), properties=listed))
        return rid

    def selection(self, query: str, parameters: Iterable[str] = (), sid: int | None = None) -> int:
        """Name a selection; its id."""
        if sid is None:
            sid, self._next_sid = self._next_sid, self._next_sid + 2
        values = tuple(parameters)
        listed = (Property(id=PARAMETERS, value=texts(values)),) if values else None
        said = SelectionDecl(global_=False, sid=sid, query=query.encode(), properties=listed)
        self._declared.append(said)
        return sid

    def binding(self, old_id: int, new_id: int) -> None:
        """Give a selection another id."""
        self._declared.append(BindingDecl(global_=False, old_id=old_id, new_id=new_id))

    def publisher(self, id_: int, properties: Iterable[Property] = ()) -> None:
        """Say that data will be written under an id."""
        self._declared.append(PublisherDecl(rid=id_, properties=tuple(properties) or None))

    def subscriber(
        self,
        id_: int,
        *,
        pull: bool = False,
        window_ms: tuple[int, int, int] | None = None,
        properties: Iterable[Property] = (),
    ) -> None:
        """Ask for the data of an id: as it comes, when it is pulled, or in windows.

        Args:
            id_: A resource or a selection.
            pull: Whether samples wait for a `pull`.
            window_ms: Origin, period and duration of the windows, for a device that sleeps.
            properties: Reliability, durability, depth.
        """
        params = None
        mode = PULL_MODE_ID if pull else PUSH_MODE_ID
        if window_ms is not None:
            mode = PERIODIC_PULL_MODE_ID if pull else PERIODIC_PUSH_MODE_ID
            origin, period, duration = window_ms
            params = SubscriberDeclParamsPart(
                temporal_origin=origin, period=period, duration=duration
            )
        listed = tuple(properties) or None
        self._declared.append(SubscriberDecl(id=id_, mode=mode, params=params, properties=listed))

    def forget(self, id_: int) -> None:
        """Release an id, with its publisher and its subscriber."""
        odd = id_ % 2 == 1
        self._declared.append(ForgetSelectionDecl(sid=id_) if odd else ForgetResourceDecl(rid=id_))

    def forget_publisher(self, id_: int) -> None:
        """Write no more under an id."""
        self._declared.append(ForgetPublisherDecl(id=id_))

    def forget_subscriber(self, id_: int) -> None:
        """Want no more of an id."""
        self._declared.append(ForgetSubscriberDecl(id=id_))

    def commit(self) -> None:
        """Have all of this applied, or nothing; an event `Settled` says which.

        Raises:
            LimitError: Too many transactions wait already: try again. Or it is more than the device
                keeps: what was declared since the last commit is dropped.
            ClosedError: There is no session.
        """
        self._session()
        limits = self._settings.limits
        asked = [*self._outgoing.unsettled(), *self._declared]
        for kinds, known, count_max in (
            (_NAMES, self._mine.names, limits.xrce_names_count),
            (PublisherDecl, self._mine.publishers, limits.xrce_endpoints_count),
            (SubscriberDecl, self._mine.subscribers, limits.xrce_endpoints_count),
        ):
            count = len(known) + sum(isinstance(one, kinds) for one in asked)
            if count > count_max:
                self._declared = []
                raise LimitError("declarations of a device", count, count_max)
        self._outgoing.ask(self._declared)
        self._declared = []

    # Data.

    def is_matched(self, id_: int) -> bool:
        """Whether somebody reads what a publisher writes."""
        return id_ in self._theirs.subscribers

    def write(
        self,
        id_: int,
        payload: bytes,
        now_ns: int,
        *,
        prid: int | None = None,
        reliable: bool = True,
        sync: bool = False,
    ) -> bool:
        """Write a sample under an id. What nobody reads is not sent, and counted.

        Returns:
            False if the window is full: try again when something was received.

        Raises:
            ClosedError: There is no session.
            InvalidValueError: The payload does not go into the frames of the session.
        """
        session = self._session()
        if id_ in self._mine.publishers and not self.is_matched(id_):
            self.unmatched_count += 1
            return True
        message = StreamData(reliable=reliable, sync=sync, sn=0, id=id_, prid=prid, payload=payload)
        return self._data(session, message, now_ns)

    def write_to(
        self, name: str, payload: bytes, now_ns: int, *, reliable: bool = True, sync: bool = False
    ) -> bool:
        """Write a sample under a name, which needs no declaration; see `write`."""
        message = WriteData(
            reliable=reliable, sync=sync, sn=0, resource=name.encode(), payload=payload
        )
        return self._data(self._session(), message, now_ns)

    def write_batch(
        self, id_: int, payloads: Iterable[bytes], now_ns: int, *, reliable: bool = True
    ) -> bool:
        """Write several samples together under an id, in as few frames as they take; see `write`.

        Raises:
            InvalidValueError: One of them does not go into a frame; `write` cuts it.
        """
        session = self._session()
        together = tuple(payloads)
        if id_ in self._mine.publishers and not self.is_matched(id_):
            self.unmatched_count += len(together)
            return True
        if self._rest:
            return False
        batch = Batch(session.frame_len, Serial.of(session.conduits.bits))
        made: list[_Piece] = []
        for payload in together:
            one = StreamData(reliable=reliable, sync=False, sn=0, id=id_, payload=payload)
            if batch and not batch.takes(one):
                made.append((batch.take(), None))
            if not batch.takes(one):
                text = f"{len(payload)} octets do not go into a frame of {session.frame_len}"
                raise InvalidValueError("payload", text)
            batch.add(one)
        if batch:
            made.append((batch.take(), None))
        return self._pieces(session, made, now_ns)

    def pull(
        self, id_: int, now_ns: int, *, pull_id: int = 0, max_samples: int | None = None
    ) -> bool:
        """Ask for samples that wait, or that are at rest; see `write`."""
        return self._send(
            lambda sn: Pull(sync=False, sn=sn, id=id_, pull_id=pull_id, max_samples=max_samples),
            now_ns,
        )

    def _data(self, session: Session, message: StreamData | WriteData, now_ns: int) -> bool:
        if self._rest:
            return False
        serial = Serial.of(session.conduits.bits)
        cut = [(one.make, one.marker) for one in slices(message, session.frame_len, serial)]
        if not cut:
            text = f"{len(message.payload)} octets do not go into frames of {session.frame_len}"
            raise InvalidValueError("payload", text)
        return self._pieces(session, cut, now_ns)

    def _pieces(self, session: Session, pieces: Sequence[_Piece], now_ns: int) -> bool:
        """Send what belongs together; if the first is sent, the rest waits for the window."""
        self._rest.extend(pieces[:1])
        if not self._flush(session, now_ns):
            self._rest.clear()
            return False
        self._rest.extend(pieces[1:])
        self._flush(session, now_ns)
        return True

    def _send(self, make: Callable[[int], Numbered], now_ns: int) -> bool:
        """Nothing comes between the fragments of a message."""
        session = self._session()
        return not self._rest and session.send(make, now_ns)

    def _session(self) -> Session:
        session = self._initiator.session
        if session is None or not self.is_open:
            raise ClosedError("there is no session; call open, and wait for Opened")
        return session

    # What the broker says.

    def _collect(self, now_ns: int) -> None:
        while (event := self._initiator.next_event()) is not None:
            match event:
                case Opened():
                    self._reset(event.properties.commit_mode)
                    self._events.append(event)
                case Ended():
                    self._reset(0)
                    self._events.append(event)
                case Delivered():
                    self._message(event.marked, now_ns)
        self._pump(now_ns)

    def _message(self, marked: Marked, now_ns: int) -> None:
        message = marked.message
        match message:
            case Declare():
                try:
                    self._declare(message, marked.conduit)
                except RemoteProtocolError as error:
                    if self._initiator.session is not None:
                        self._initiator.session.violated(error, now_ns)
                        self._initiator.handle_timer(now_ns)  # it takes over the end
            case StreamData():
                self._received(message.id, message.prid, message.payload, message.reliable)
            case BatchedData():
                for part in message.payload:
                    if isinstance(part, BatchedDataPayloadPart):
                        self._received(message.id, part.prid, part.payload, message.reliable)
                    else:
                        self._received(message.id, None, part, message.reliable)
            case WriteData():
                try:
                    path = resource_of(message.resource).path
                except RefusedError:
                    self.unknown_count += 1
                    return
                self._events.append(Received(path, None, message.payload, message.reliable))
            case _:
                pass  # a device is asked nothing else

    def _received(self, id_: int, prid: int | None, payload: bytes, reliable: bool) -> None:
        if prid == 0:
            self._events.append(PullEnded(id_))
            return
        named = self._mine.named(id_ if prid is None else prid)
        if named is None or not named.resource.is_trivial:
            self.unknown_count += 1
            return
        self._events.append(Received(named.resource.path, id_, payload, reliable))

    def _declare(self, message: Declare, conduit: int) -> None:
        for one in message.declarations:
            if isinstance(one, ResultDecl):
                self._settled(self._outgoing.result(one))
        if not message.committed:
            self._incoming.receive(message, conduit)
            return
        facts = [one for one in message.declarations if not isinstance(one, ResultDecl)]
        if any(isinstance(one, CommitDecl) for one in facts):
            raise violation(CloseReason.DECLARATION, "a Commit among facts")
        self._told(self._theirs.apply(facts))

    def _told(self, changes: Changes) -> None:
        for change in changes.subscribers:
            if (change.before is None) is not (change.after is None):
                self._events.append(Interest(change.id, change.after is not None))

    def _settled(self, settled: Settled | None) -> None:
        if settled is None:
            return
        if settled.status is Status.SUCCESS:
            self._mine.apply(settled.declarations)
        self._events.append(settled)

    def _pump(self, now_ns: int) -> None:
        """Send what may be sent now: fragments, answers, then declarations of our own."""
        session = self._initiator.session
        if session is None or session.state is not State.OPEN or not self._flush(session, now_ns):
            return
        while True:
            if not self._declares:
                self._declares.extend(self._next_declares())
            if not self._declares:
                return
            if not session.send(_declare(self._declares[0]), now_ns):
                return
            self._declares.popleft()

    def _next_declares(self) -> Iterator[tuple[Declaration, ...]]:
        asked = self._incoming.next()
        if asked is not None:
            refused = None
            try:
                if asked.refused is None:
                    self._told(self._theirs.apply(asked.declarations))
            except RefusedError as error:
                refused = error
            yield (asked.result(refused),)
            return
        mine = self._outgoing.next()
        if mine is not None:
            yield mine

    def _flush(self, session: Session, now_ns: int) -> bool:
        """Send the rest of a message that was cut; whether all of it is gone."""
        while self._rest:
            make, marker = self._rest[0]
            if not session.send(make, now_ns, fragment=marker):
                return False
            self._rest.popleft()
        return True


def _declare(declarations: tuple[Declaration, ...]) -> Callable[[int], Numbered]:
    return lambda sn: Declare(sync=False, committed=False, sn=sn, declarations=declarations)
