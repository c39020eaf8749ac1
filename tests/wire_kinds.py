"""Every message kind with the chain it may carry, as Appendix A of the wire reference lists it.

`decorated` adds to a plain message what a chain may hold besides: unknown extensions, another
order, defaults written out, reserved bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from tests import strategies

from elea.errors import DecodeError
from elea.wire.batches import (
    ScoutingMessage,
    decode_batch,
    decode_scouting,
    encode_scouting,
)
from elea.wire.codec import BatchDecoder, Message, encode_one
from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.dialect import Dialect
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout
from elea.wire.trace import Note, Trace

Part = Message | Declaration | Put | Del | Query | Reply | Err | ScoutingMessage

_DECLARATIONS = (
    DeclareKeyExpr,
    UndeclareKeyExpr,
    DeclareSubscriber,
    UndeclareSubscriber,
    DeclareQueryable,
    UndeclareQueryable,
    DeclareToken,
    UndeclareToken,
    DeclareFinal,
)


@dataclass(frozen=True)
class Kind:
    """One message kind.

    `chain` holds the headers it defines, in the order they are written; `defaults` those of them
    that may be written out although they hold their default; `reserved` its reserved header bits.
    """

    name: str
    eclipse: SearchStrategy[Part]
    chain: bytes
    defaults: bytes = b""
    reserved: int = 0
    specification: SearchStrategy[Part] | None = None
    scouting: bool = False

    def plain(self, dialect: Dialect) -> SearchStrategy[Part]:
        """Messages of this kind that `dialect` can carry, without extras."""
        if dialect is Dialect.SPECIFICATION and self.specification is not None:
            return self.specification
        return self.eclipse


def _kind(
    name: str,
    messages: SearchStrategy[Part],
    chain: str = "",
    defaults: str = "",
    reserved: int = 0,
    *,
    specification: SearchStrategy[Part] | None = None,
    scouting: bool = False,
) -> Kind:
    return Kind(
        name,
        messages,
        bytes.fromhex(chain),
        bytes.fromhex(defaults),
        reserved,
        specification,
        scouting,
    )


KINDS = [
    _kind("SCOUT", strategies.scouts, reserved=0x60, scouting=True),
    _kind("HELLO", strategies.hellos, reserved=0x40, scouting=True),
    _kind("INIT_SYN", strategies.inits(ack=False), "01 21 42 43 44 05 06 27 48", "27"),
    _kind("INIT_ACK", strategies.inits(ack=True), "01 21 42 43 44 05 06 27 48", "27"),
    _kind("OPEN_SYN", strategies.opens(ack=False), "01 42 22 43 44 05 06 27"),
    _kind("OPEN_ACK", strategies.opens(ack=True), "01 42 22 43 04 05 06 27"),
    _kind("CLOSE", strategies.closes, reserved=0x40),
    _kind("KEEP_ALIVE", strategies.keepalives, reserved=0x60),
    _kind("FRAME", strategies.frames, "31", "31", 0x40),
    _kind("FRAGMENT", strategies.fragments, "31 02 03", "31"),
    _kind("T_OAM", strategies.transport_oams, "31", "31"),
    _kind("JOIN", strategies.joins, "51 52 27", "27"),
    _kind(
        "PUSH",
        strategies.pushes(),
        "21 42 33 47",
        "21 33",
        specification=strategies.pushes(eclipse=False),
    ),
    _kind(
        "REQUEST",
        strategies.requests(),
        "21 42 34 25 26 33 47",
        "21 34 25 33",
        specification=strategies.requests(eclipse=False),
    ),
    _kind(
        "RESPONSE",
        strategies.responses(),
        "21 42 43 47",
        "21",
        specification=strategies.responses(eclipse=False),
    ),
    _kind("RESPONSE_FINAL", strategies.response_finals, "21 42", "21", 0x60),
    _kind("DECLARE", strategies.declares, "21 42 33", "21 33", 0x40),
    _kind("INTEREST", strategies.interests(), "21 42 33", "21 33"),
    _kind("OAM", strategies.oams(), "21 42", "21"),
    _kind("D_KEYEXPR", strategies.declare_keyexprs, reserved=0x40),
    _kind("U_KEYEXPR", strategies.undeclare_keyexprs, reserved=0x60),
    _kind("D_SUBSCRIBER", strategies.declare_subscribers),
    _kind("U_SUBSCRIBER", strategies.undeclare_subscribers, "5f", reserved=0x60),
    _kind("D_QUERYABLE", strategies.declare_queryables, "21", "21"),
    _kind("U_QUERYABLE", strategies.undeclare_queryables, "5f", reserved=0x60),
    _kind("D_TOKEN", strategies.declare_tokens),
    _kind("U_TOKEN", strategies.undeclare_tokens, "5f", reserved=0x60),
    _kind("D_FINAL", strategies.declare_finals, reserved=0x60),
    _kind("PUT", strategies.puts(), "41 12 43"),
    _kind("DEL", strategies.dels, "41 42", reserved=0x40),
    _kind("QUERY", strategies.queries, "41 04 43 45"),
    _kind("REPLY", strategies.replies, reserved=0x40),
    _kind("ERR", strategies.errs, "41 12", reserved=0x20),
]


def wrap(part: Part) -> Message:
    """The message that carries `part`, or `part` itself."""
    if isinstance(part, (Put, Del)):
        return Push(WireExpr(1), part)
    if isinstance(part, Query):
        return Request(1, WireExpr(1), part)
    if isinstance(part, (Reply, Err)):
        return Response(1, WireExpr(1), part)
    if isinstance(part, _DECLARATIONS):
        return Declare(part)
    assert not isinstance(part, (Scout, Hello)), "datagrams are not carried"
    return part


def encode(part: Part, dialect: Dialect = Dialect.ECLIPSE) -> bytes:
    """The octets of `part`, inside its carrier if it needs one."""
    if isinstance(part, (Scout, Hello)):
        return encode_scouting(part)
    return encode_one(wrap(part), dialect)


def decode(data: bytes, like: Part, dialect: Dialect = Dialect.ECLIPSE) -> Part:
    """What `encode` wrote, without the carrier that `like` needs."""
    if isinstance(like, (Scout, Hello)):
        return decode_scouting(data, dialect=dialect)
    [message] = decode_batch(data, dialect=dialect, bare=True)
    return unwrap(message, like)


def unwrap(message: Message, like: Part) -> Part:
    """`message`, or its body if `like` is a body."""
    if not isinstance(like, type(message)) and isinstance(
        message, (Push, Request, Response, Declare)
    ):
        return message.body
    return message


def notes(data: bytes, like: Part, dialect: Dialect = Dialect.ECLIPSE) -> tuple[Part, list[Note]]:
    """What a traced decoder makes of `data`, and its notes."""
    trace = Trace()
    if isinstance(like, (Scout, Hello)):
        return decode_scouting(data, dialect=dialect, trace=trace), trace.notes
    decoder = BatchDecoder(data, dialect=dialect, trace=trace, bare=True)
    message = decoder.next()
    assert message is not None
    if decoder.next() is not None:
        raise DecodeError("more than one message", decoder.reader.pos)
    return unwrap(message, like), trace.notes


def chain_of(part: Part, dialect: Dialect) -> bytes:
    """The headers of the chain that `part` is written with, from a trace of its octets."""
    depth = 1 if isinstance(part, (Scout, Hello)) or wrap(part) is part else 2
    octets = encode(part, dialect)
    _, found = notes(octets, part, dialect)
    headers = bytearray()
    for note in found:
        if note.depth < depth:
            headers.clear()  # still in the carrier
        elif note.depth == depth and note.field in _NAMES:
            break  # the body that `part` carries itself
        elif note.depth == depth and note.field.startswith("extension ") and note.value is None:
            headers.append(octets[note.start] & 0x7F)
    return bytes(headers)


_NAMES = {kind.name for kind in KINDS}


@st.composite
def decorated(draw: DrawFn, kind: Kind, dialect: Dialect) -> Part:
    """A message with an arbitrary chain, as the decoder would hand it over."""
    part = draw(kind.plain(dialect))
    present = chain_of(part, dialect)
    items: list[tuple[int, Extension | None]] = [(header, None) for header in present]
    explicit = [header for header in kind.defaults if header not in present and draw(st.booleans())]
    items += [(header, None) for header in explicit]
    for one in draw(st.lists(strategies.extensions(mandatory=None), max_size=3)):
        if one.header in kind.chain or (one.mandatory and not kind.scouting):
            continue
        items.append((one.header, one))
    items = _keep_pairs(draw(st.permutations(items)) if draw(st.booleans()) else items)
    order = bytes(header for header, _ in items)
    if not explicit and _ascending(order, kind.chain):
        order = b""
    unknown = tuple(one for _, one in items if one is not None)
    reserved = draw(strategies.u8s) & kind.reserved
    if order or unknown or reserved:
        part.extras = Extras(order, unknown, reserved)
    return part


def _keep_pairs(
    items: Iterable[tuple[int, Extension | None]],
) -> list[tuple[int, Extension | None]]:
    # QUERY's Shm marker stands immediately before the body it speaks of.
    kept = list(items)
    known = [header for header, one in kept if one is None]
    if 0x04 in known and 0x43 in known:
        marker = kept.pop(kept.index((0x04, None)))
        kept.insert(kept.index((0x43, None)), marker)
    return kept


def _ascending(order: bytes, chain: bytes) -> bool:
    ranks = [chain.index(header) if header in chain else len(chain) for header in order]
    return ranks == sorted(ranks)
