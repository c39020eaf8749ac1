"""Two ends of one conversation wired back to back in memory: the default fixture for transports."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from elea.ids import Rng
from elea.limits import DEFAULT_LIMITS, Limits
from elea.transport.cookie import CookieJar
from elea.transport.events import Events
from elea.transport.handshake import Acceptor, Opener, State
from elea.transport.negotiation import Agreed, Offer
from elea.transport.unicast import Transport, adapt_stream
from elea.wire.buffer import Piece, Reader
from elea.wire.codec import NETWORK_ID_MIN, NetworkMessage, decode_network
from elea.wire.framing import StreamDecoder

LINK = 1  # the link id both ends use for the first link


def seeded(seed: int = 0) -> Rng:
    """A source of octets that repeats itself."""
    return random.Random(seed).randbytes


def opener_offer(**changes: object) -> Offer:
    """An offer of node 0a, a client, changed as a test needs it."""
    return _offer({"zid": b"\x0a", "whatami": 2, **changes})


def acceptor_offer(**changes: object) -> Offer:
    """An offer of node 0b, a router, changed as a test needs it."""
    return _offer({"zid": b"\x0b", "whatami": 0, **changes})


def _offer(fields: dict[str, object]) -> Offer:
    return Offer(**fields)  # type: ignore[arg-type]  # each test names its fields


def shake_hands(opener: Opener, acceptor: Acceptor, now_ns: int = 0) -> None:
    """Carry batches until neither side has one; go on and admit wherever a side stops."""
    while True:
        if opener.state is State.PEER_KNOWN:
            opener.proceed(now_ns)
        if acceptor.state is State.ADMITTING:
            acceptor.admit(now_ns)
        to_acceptor, to_opener = opener.outgoing(), acceptor.outgoing()
        if not to_acceptor and not to_opener:
            return
        for batch in to_acceptor:
            if acceptor.state not in (State.OPENED, State.CLOSED):
                acceptor.receive_batch(batch, now_ns)
        for batch in to_opener:
            if opener.state not in (State.OPENED, State.CLOSED):
                opener.receive_batch(batch, now_ns)


def agree(
    opening: Offer, accepting: Offer, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[Agreed, Agreed]:
    """What the two sides have after a handshake: the opener's view, then the acceptor's."""
    opener = Opener(opening, 0, limits=limits)
    acceptor = Acceptor(accepting, CookieJar(seeded()), "tcp/127.0.0.1:1", 0, limits=limits)
    shake_hands(opener, acceptor)
    assert opener.agreed is not None, opener.failure
    assert acceptor.agreed is not None, acceptor.failure
    return opener.agreed, acceptor.agreed


@dataclass
class Collector:
    """A sink that keeps what it is given, as (message, priority, reliable)."""

    got: list[tuple[NetworkMessage, int, bool]] = field(default_factory=list)

    def frame(self, reader: Reader, priority: int, reliable: bool) -> bool:
        while reader.remaining() and reader.peek() & 0x1F >= NETWORK_ID_MIN:
            self.got.append((decode_network(reader), priority, reliable))
        return True

    def pieces(self, pieces: list[Piece], reliable: bool) -> bool:
        return False

    def message(self, reader: Reader, priority: int, reliable: bool) -> None:
        self.got.append((decode_network(reader), priority, reliable))

    @property
    def messages(self) -> list[NetworkMessage]:
        return [message for message, _, _ in self.got]


@dataclass
class End:
    """One side: its transport, what it got, and what its peer's stream still holds."""

    transport: Transport
    sink: Collector = field(default_factory=Collector)
    streams: dict[int, StreamDecoder] = field(default_factory=dict)
    events: list[object] = field(default_factory=list)

    def take(self, link_id: int, data: bytes, now_ns: int) -> None:
        """Octets from the wire."""
        stream = self.streams[link_id]
        stream.feed(data)
        while (batch := stream.next_batch()) is not None:
            self.note(self.transport.receive_batch(link_id, batch, now_ns, self.sink))

    def note(self, events: Events) -> None:
        self.events += events


class Pair:
    """Two transports, `a` the opener's and `b` the acceptor's, on stream links in memory."""

    def __init__(
        self,
        opening: Offer | None = None,
        accepting: Offer | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.limits = limits
        self.views = agree(opening or opener_offer(), accepting or acceptor_offer(), limits=limits)
        self.a = End(Transport(self.views[0], limits=limits))
        self.b = End(Transport(self.views[1], limits=limits))
        self.add_link(LINK)

    def add_link(self, link_id: int, now_ns: int = 0) -> None:
        """Join a link with the same terms to both transports."""
        for end, agreed in zip((self.a, self.b), self.views, strict=True):
            end.transport.add_link(link_id, agreed, now_ns)
            end.streams[link_id] = StreamDecoder()
            adapt_stream(end.streams[link_id], agreed, self.limits)

    def carry(self, now_ns: int = 0) -> int:
        """Bring everything that waits to the other side; how many batches that were."""
        count = 0
        for sender, receiver in ((self.a, self.b), (self.b, self.a)):
            for link_id in sender.transport.link_ids:
                while (batch := sender.transport.pull(link_id, now_ns)) is not None:
                    count += 1
                    receiver.take(link_id, batch, now_ns)
        return count
