"""Opener and Acceptor: INIT and OPEN on one link, as two tables. behaviour.md 1.2, 1.3.

    opener    INIT_SENT --InitAck--> PEER_KNOWN --proceed--> OPEN_SENT --OpenAck--> OPENED
    acceptor  WAIT_INIT --InitSyn--> INIT_ANSWERED --OpenSyn--> ADMITTING --admit--> OPENED

Both stop once for their caller. The opener knows its peer after InitAck and goes on with `proceed`;
the acceptor has a valid OpenSyn and answers with `admit`. `refuse` says no at either stop: whether
a second link to one node joins, and how many neighbours there may be, is not decided here.

A message that the table does not list ends the handshake with CLOSE. The time running out ends it
without a word, and so does a CLOSE from the peer. Batches have no length prefix here; they are
never compressed.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from elea.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.records import dataclass, replace
from elea.transport.cookie import CookieJar
from elea.transport.exchange import (
    accept_init_ack,
    accept_open_ack,
    accept_open_syn,
    answer_init,
    init_ack,
    init_syn,
    open_ack,
    open_syn,
)
from elea.transport.negotiation import Agreed, Offer, Terms, refused
from elea.wire.codec import BatchDecoder, Message, encode_one
from elea.wire.transport.close import Close, CloseReason, reason_name
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open


class State(Enum):
    """Where a handshake stands."""

    INIT_SENT = "InitSyn sent"
    PEER_KNOWN = "InitAck received"
    OPEN_SENT = "OpenSyn sent"
    WAIT_INIT = "waiting for InitSyn"
    INIT_ANSWERED = "InitAck sent"
    ADMITTING = "OpenSyn received"
    OPENED = "opened"
    CLOSED = "closed"


class Input(Enum):
    """What can happen to a handshake."""

    INIT_SYN = "InitSyn"
    INIT_ACK = "InitAck"
    OPEN_SYN = "OpenSyn"
    OPEN_ACK = "OpenAck"
    CLOSE = "CLOSE"
    OTHER = "another message"
    GARBAGE = "no message"
    PROCEED = "proceed"
    ADMIT = "admit"
    REFUSE = "refuse"
    TIMEOUT = "time over"


FROM_CALLER: Final = frozenset({Input.PROCEED, Input.ADMIT, Input.REFUSE})
OPENER_STATES: Final = (
    State.INIT_SENT,
    State.PEER_KNOWN,
    State.OPEN_SENT,
    State.OPENED,
    State.CLOSED,
)
ACCEPTOR_STATES: Final = (
    State.WAIT_INIT,
    State.INIT_ANSWERED,
    State.ADMITTING,
    State.OPENED,
    State.CLOSED,
)

OPENER: Final[dict[tuple[State, Input], State]] = {
    (State.INIT_SENT, Input.INIT_ACK): State.PEER_KNOWN,
    (State.PEER_KNOWN, Input.PROCEED): State.OPEN_SENT,
    (State.PEER_KNOWN, Input.REFUSE): State.CLOSED,
    (State.OPEN_SENT, Input.OPEN_ACK): State.OPENED,
    **{
        (state, input_): State.CLOSED
        for state in (State.INIT_SENT, State.PEER_KNOWN, State.OPEN_SENT)
        for input_ in (Input.CLOSE, Input.TIMEOUT)
    },
}

ACCEPTOR: Final[dict[tuple[State, Input], State]] = {
    (State.WAIT_INIT, Input.INIT_SYN): State.INIT_ANSWERED,
    (State.INIT_ANSWERED, Input.OPEN_SYN): State.ADMITTING,
    (State.ADMITTING, Input.ADMIT): State.OPENED,
    (State.ADMITTING, Input.REFUSE): State.CLOSED,
    **{
        (state, input_): State.CLOSED
        for state in (State.WAIT_INIT, State.INIT_ANSWERED, State.ADMITTING)
        for input_ in (Input.CLOSE, Input.TIMEOUT)
    },
}

# On a datagram link nothing is kept before a valid cookie (T10): the acceptor that answered InitSyn
# is forgotten, and a new one takes OpenSyn as its first message.
ACCEPTOR_DATAGRAM: Final[dict[tuple[State, Input], State]] = {
    **ACCEPTOR,
    (State.WAIT_INIT, Input.OPEN_SYN): State.ADMITTING,
}


# What CLOSE during a handshake means to a user: the wire has no more than a number for it.
_PEER_REASONS: Final = {
    int(CloseReason.GENERIC): (
        "refused, most likely for user and password missing or wrong; the router's audit tells"
    ),
    int(CloseReason.MAX_SESSIONS): (
        "refused by the peer: it has as many sessions as transport/unicast/max_sessions allows"
    ),
    int(CloseReason.MAX_LINKS): (
        "refused by the peer: it has a session with this node's id already; give one of the nodes"
        " another id, or wait until the session expires"
    ),
    int(CloseReason.CONNECTION_TO_SELF): (
        "refused by the peer: it has the same id as this node; give one of them another id"
    ),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a handshake ended: a text, the reason in CLOSE if there was one, and whose it was."""

    reason: str
    close_reason: int | None
    by_peer: bool


class _Handshake:
    """What both sides share: the table walk, outgoing batches, the deadline and the outcome."""

    __slots__ = (
        "_deadline_ns",
        "_limits",
        "_offer",
        "_outgoing",
        "_table",
        "_terms",
        "agreed",
        "failure",
        "state",
    )

    def __init__(
        self,
        table: dict[tuple[State, Input], State],
        state: State,
        offer: Offer,
        now_ns: int,
        limits: Limits,
    ) -> None:
        self.state = state
        self.agreed: Agreed | None = None
        self.failure: Failure | None = None
        self._table = table
        self._offer = offer
        self._limits = limits
        self._deadline_ns = now_ns + limits.handshake_ns
        self._outgoing: list[bytes] = []
        self._terms: Terms | None = None

    def outgoing(self) -> list[bytes]:
        """The batches to send now, oldest first, without length prefix; taken once."""
        taken, self._outgoing = self._outgoing, []
        return taken

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called, or None once the handshake is over."""
        over = self.state in (State.OPENED, State.CLOSED)
        return None if over else self._deadline_ns

    def handle_timer(self, now_ns: int) -> None:
        """Give up silently when the time is over."""
        timer_ns = self.next_timer_ns()
        if timer_ns is not None and now_ns >= timer_ns:
            waited = self.state.value
            self._move(Input.TIMEOUT)
            self.failure = Failure(f"the handshake took too long: {waited}", None, by_peer=False)

    def refuse(self, close_reason: int, why: str = "") -> None:
        """Say no at the stop, with the reason that CLOSE shall carry, and one in words for here.

        Raises:
            LocalProtocolError: if the handshake is not at its stop.
        """
        self._move(Input.REFUSE)
        self._fail(f"refused here: {why or reason_name(close_reason)}", close_reason)

    def receive_batch(self, batch: bytes, now_ns: int) -> None:
        """Take the next batch of the link. What the peer does wrong ends in `failure`.

        Raises:
            LocalProtocolError: if the handshake is over.
        """
        if self.state in (State.OPENED, State.CLOSED):
            raise LocalProtocolError(f"the handshake is over: {self.state.value}")
        if not batch:
            return  # an empty batch means nothing (wire.md 3.1)
        try:
            message = BatchDecoder(batch, self._limits).next()
            assert message is not None  # the batch is not empty
            input_ = _classify(message)
        except DecodeError as error:
            self._illegal(Input.GARBAGE, f"no message: {error}")
            return
        if input_ is Input.CLOSE and isinstance(message, Close):
            self._receive_close(message)
        elif (self.state, input_) not in self._table:
            self._illegal(input_, f"{input_.value} is not legal here: {self.state.value}")
        else:
            try:
                self._receive(message, now_ns)
            except RemoteProtocolError as error:
                self._fail(str(error), error.close_reason)
            else:
                self._move(input_)

    def _receive(self, message: Message, now_ns: int) -> None:
        """Act on a message that the table lists; an exception refuses it."""
        if isinstance(message, Init):
            self._receive_init(message, now_ns)
        elif isinstance(message, Open):
            self._receive_open(message, now_ns)

    def _receive_init(self, message: Init, now_ns: int) -> None: ...

    def _receive_open(self, message: Open, now_ns: int) -> None: ...

    def _receive_close(self, message: Close) -> None:
        self._move(Input.CLOSE)
        reason = _PEER_REASONS.get(
            message.reason, f"closed by the peer: {reason_name(message.reason)}"
        )
        self.failure = Failure(reason, message.reason, by_peer=True)

    def _illegal(self, input_: Input, reason: str) -> None:
        assert (self.state, input_) not in self._table
        self._fail(reason, CloseReason.INVALID)

    def _fail(self, reason: str, close_reason: int) -> None:
        self._send(Close(close_reason))
        self.state = State.CLOSED
        self.failure = Failure(reason, close_reason, by_peer=False)

    def _move(self, input_: Input) -> None:
        following = self._table.get((self.state, input_))
        if following is None:
            raise LocalProtocolError(f"{input_.value} is not legal here: {self.state.value}")
        self.state = following

    def _send(self, message: Message) -> None:
        self._outgoing.append(encode_one(message))


class Opener(_Handshake):
    """The side that dialled. It has an InitSyn to send from the start.

    Args:
        offer: What this node is and wants.
        now_ns: The time.
        expected_zid: Whom the link was opened for, if that is known; anybody else is refused.
        limits: The node's bounds.
    """

    __slots__ = ("_cookie", "_expected_zid")

    def __init__(
        self,
        offer: Offer,
        now_ns: int,
        *,
        expected_zid: bytes | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(OPENER, State.INIT_SENT, offer, now_ns, limits)
        self._expected_zid = expected_zid
        self._cookie = b""
        self._send(init_syn(offer))

    @property
    def terms(self) -> Terms | None:
        """What was settled, and who is at the other end; from InitAck on."""
        return self._terms

    def proceed(self, now_ns: int, remote_bound: int | None = None) -> None:
        """Go on with OpenSyn after InitAck; `remote_bound`: where the peer is told to be.

        Raises:
            LocalProtocolError: if no InitAck has arrived, or the handshake went on already.
        """
        self._move(Input.PROCEED)
        assert self._terms is not None
        offer = _bounded(self._offer, remote_bound)
        self._send(open_syn(offer, self._terms, self._cookie))

    def _receive_init(self, message: Init, now_ns: int) -> None:
        terms = accept_init_ack(self._offer, message)
        if self._expected_zid is not None and terms.peer_zid != self._expected_zid:
            raise refused(
                f"node {terms.peer_zid.hex()} answers, {self._expected_zid.hex()} was expected",
                CloseReason.INVALID,
            )
        assert message.cookie is not None  # what makes it an InitAck
        self._terms = terms
        self._cookie = message.cookie

    def _receive_open(self, message: Open, now_ns: int) -> None:
        assert self._terms is not None
        self.agreed = accept_open_ack(self._offer, self._terms, message)


class Acceptor(_Handshake):
    """The side that was dialled.

    Args:
        offer: What this node is and wants.
        jar: The node's cookies.
        address: Whom the link leads to; a cookie opens for this address only.
        now_ns: The time.
        datagram: Whether OpenSyn may come first, its InitSyn answered by a forgotten Acceptor.
        limits: The node's bounds.
    """

    __slots__ = ("_address", "_jar", "proposed")

    def __init__(
        self,
        offer: Offer,
        jar: CookieJar,
        address: str,
        now_ns: int,
        *,
        datagram: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        table = ACCEPTOR_DATAGRAM if datagram else ACCEPTOR
        super().__init__(table, State.WAIT_INIT, offer, now_ns, limits)
        self._jar = jar
        self._address = address
        self.proposed: Agreed | None = None  # what admit() would put in force

    def admit(self, now_ns: int, remote_bound: int | None = None) -> None:
        """Answer a valid OpenSyn with OpenAck; `remote_bound`: where the peer is told to be.

        Raises:
            LocalProtocolError: if there is none to answer.
        """
        self._move(Input.ADMIT)
        assert self._terms is not None
        self._send(open_ack(_bounded(self._offer, remote_bound), self._terms))
        self.agreed = self.proposed

    def _receive_init(self, message: Init, now_ns: int) -> None:
        terms = answer_init(self._offer, message, self._jar.nonce())
        cookie = self._jar.seal(terms, self._address, now_ns)
        self._send(init_ack(self._offer, terms, cookie))
        self._terms = terms

    def _receive_open(self, message: Open, now_ns: int) -> None:
        assert message.cookie is not None  # what makes it an OpenSyn
        terms = self._jar.open(message.cookie, self._address, now_ns)
        if self._terms is not None and terms != self._terms:
            raise refused("the cookie belongs to another handshake", CloseReason.INVALID)
        self.proposed = accept_open_syn(self._offer, terms, message)
        self._terms = terms


def _bounded(offer: Offer, remote_bound: int | None) -> Offer:
    return offer if remote_bound is None else replace(offer, remote_bound=remote_bound)


def _classify(message: Message) -> Input:
    if isinstance(message, Init):
        return Input.INIT_SYN if message.cookie is None else Input.INIT_ACK
    if isinstance(message, Open):
        return Input.OPEN_ACK if message.cookie is None else Input.OPEN_SYN
    if isinstance(message, Close):
        return Input.CLOSE
    return Input.OTHER
