"""Hypothesis strategies for every wire message and the values inside it.

Each strategy yields messages as the decoder would build them, so that a round trip can be compared
with `==`. They hold no `extras`: those depend on what else stands in a chain, see `wire_kinds`.
"""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query, QueryBody
from elea.wire.data.reply import Reply
from elea.wire.extensions import Extension
from elea.wire.fields import Stamp, WireEncoding, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout
from elea.wire.shared_extensions import EntityRef, SourceRef, StackRecord, TimestampStack
from elea.wire.shm import ShmDescriptor, Slice
from elea.wire.transport.close import Close
from elea.wire.transport.establishment import PublicKey, QosLink, ShmProbe
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame
from elea.wire.transport.init import Init
from elea.wire.transport.join import Join, NextSn
from elea.wire.transport.keepalive import KeepAlive
from elea.wire.transport.oam import TransportOam
from elea.wire.transport.open import Open

# Integers: each width, with the ends of every encoded length drawn often.


def unsigned(bits: int) -> SearchStrategy[int]:
    """An unsigned integer below 2^bits."""
    edges = {edge for size in (7, 8, 14, 16, 21, 28, 32, 35, 42, 49, 56, 63, 64) if size <= bits
             for edge in (2**size - 1, 2**size) if edge < 2**bits}  # fmt: skip
    return st.one_of(
        st.sampled_from(sorted({0, 1, *edges})), st.integers(min_value=0, max_value=2**bits - 1)
    )


u8s = unsigned(8)
u16s = unsigned(16)
u32s = unsigned(32)
u64s = unsigned(64)
flags = st.booleans()

T = TypeVar("T")


# Octets and texts.

short_octets = st.binary(max_size=24)
payloads = st.one_of(short_octets, st.binary(min_size=120, max_size=300))
texts = st.text(st.characters(codec="utf-8"), max_size=24)
zids = st.binary(min_size=1, max_size=16).filter(any)
locators = st.sampled_from(
    ["tcp/127.0.0.1:7447", "udp/[::1]:7446", "tls/h:1?prio=2-5;rel=1", "x/y", "unixpipe//tmp/é"]
)
locator_lists = st.lists(locators, max_size=4).map(tuple)


@st.composite
def wire_exprs(draw: DrawFn, *, mapping: bool = True) -> WireExpr:
    """A key on the wire, of either mapping unless its message has none."""
    return WireExpr(draw(u16s), draw(texts), draw(flags) if mapping else True)


stamps = st.builds(Stamp, u64s, zids)
encodings = st.builds(WireEncoding, u16s, st.one_of(short_octets, st.binary(max_size=255)))
entities = st.builds(EntityRef, zids, u32s)
sources = st.builds(SourceRef, zids, u32s, u32s)
stacks = st.builds(
    TimestampStack.of,
    st.integers(min_value=1, max_value=255),
    st.lists(st.builds(StackRecord, u8s, short_octets), max_size=4).map(tuple),
)
descriptors = st.builds(ShmDescriptor, u64s, u16s, u16s, u32s)


@st.composite
def slice_lists(draw: DrawFn) -> tuple[Slice, ...]:
    """The slices of a payload in shared memory."""
    return tuple(draw(st.lists(st.one_of(short_octets, descriptors), max_size=4)))


@st.composite
def extensions(draw: DrawFn, *, mandatory: bool | None = None) -> Extension:
    """An extension of any id and encoding; optional, mandatory or either."""
    header = draw(st.integers(min_value=0, max_value=15))
    if draw(flags) if mandatory is None else mandatory:
        header |= 0x10
    match draw(st.sampled_from((0x00, 0x20, 0x40))):
        case 0x20:
            return Extension(header | 0x20, draw(u64s))
        case 0x40:
            return Extension(header | 0x40, draw(short_octets))
        case _:
            return Extension(header)


def maybe(strategy: SearchStrategy[T]) -> SearchStrategy[T | None]:
    """A value or its absence."""
    return st.one_of(st.none(), strategy)


# Data messages.


@st.composite
def puts(draw: DrawFn) -> Put:
    """A PUT; one in four has its payload in shared memory."""
    put = Put(
        draw(payloads),
        timestamp=draw(maybe(stamps)),
        encoding=draw(maybe(encodings)),
        attachment=draw(maybe(short_octets)),
        source=draw(maybe(sources)),
    )
    if draw(st.integers(min_value=0, max_value=3)) == 0:
        put.payload = b""
        put.slices = draw(slice_lists())
    return put


dels = st.builds(
    Del, timestamp=maybe(stamps), attachment=maybe(short_octets), source=maybe(sources)
)


@st.composite
def query_bodies(draw: DrawFn) -> QueryBody:
    """The value of a query, in the message or in shared memory."""
    if draw(flags):
        dishonest = 2**32 - 1 if draw(flags) else None
        return QueryBody(draw(encodings), b"", draw(slice_lists()), dishonest)
    return QueryBody(draw(encodings), draw(payloads))


queries = st.builds(
    Query,
    consolidation=u64s,
    parameters=texts,
    body=maybe(query_bodies()),
    attachment=maybe(short_octets),
    source=maybe(sources),
)
samples: SearchStrategy[Put | Del] = st.one_of(puts(), dels)
replies = st.builds(Reply, samples, consolidation=u64s)
errs = st.builds(Err, payloads, encoding=maybe(encodings), source=maybe(sources), shm=flags)


# Network messages. `eclipse` ones may carry what only that dialect knows.


def pushes(*, eclipse: bool = True) -> SearchStrategy[Push]:
    """A PUSH."""
    return st.builds(
        Push,
        wire_exprs(),
        samples,
        qos=u8s,
        timestamp=maybe(stamps),
        node_id=u16s,
        ts_stack=maybe(stacks) if eclipse else st.none(),
    )


def requests(*, eclipse: bool = True) -> SearchStrategy[Request]:
    """A REQUEST."""
    return st.builds(
        Request,
        u32s,
        wire_exprs(),
        queries,
        qos=u8s,
        target=st.integers(min_value=0, max_value=2),
        budget=u32s,
        timeout_ms=maybe(u64s),
        timestamp=maybe(stamps),
        node_id=u16s,
        ts_stack=maybe(stacks) if eclipse else st.none(),
    )


def responses(*, eclipse: bool = True) -> SearchStrategy[Response]:
    """A RESPONSE."""
    return st.builds(
        Response,
        u32s,
        wire_exprs(),
        st.one_of(replies, errs),
        qos=u8s,
        responder=maybe(entities),
        timestamp=maybe(stamps),
        ts_stack=maybe(stacks) if eclipse else st.none(),
    )


response_finals = st.builds(ResponseFinal, u32s, qos=u8s, timestamp=maybe(stamps))

declare_keyexprs = st.builds(DeclareKeyExpr, u16s, wire_exprs(mapping=False))
undeclare_keyexprs = st.builds(UndeclareKeyExpr, u16s)
declare_subscribers = st.builds(DeclareSubscriber, u32s, wire_exprs())
undeclare_subscribers = st.builds(UndeclareSubscriber, u32s, maybe(wire_exprs()))
declare_queryables = st.builds(DeclareQueryable, u32s, wire_exprs(), complete=flags, distance=u16s)
undeclare_queryables = st.builds(UndeclareQueryable, u32s, maybe(wire_exprs()))
declare_tokens = st.builds(DeclareToken, u32s, wire_exprs())
undeclare_tokens = st.builds(UndeclareToken, u32s, maybe(wire_exprs()))
declare_finals = st.builds(DeclareFinal)
declarations: SearchStrategy[Declaration] = st.one_of(
    declare_keyexprs,
    undeclare_keyexprs,
    declare_subscribers,
    undeclare_subscribers,
    declare_queryables,
    undeclare_queryables,
    declare_tokens,
    undeclare_tokens,
    declare_finals,
)
declares = st.builds(
    Declare,
    declarations,
    interest_id=maybe(u32s),
    qos=u8s,
    timestamp=maybe(stamps),
    node_id=u16s,
)


@st.composite
def interests(draw: DrawFn) -> Interest:
    """An INTEREST; a Final one has neither options nor key."""
    interest = Interest(
        draw(u32s),
        draw(st.sampled_from(InterestMode)),
        qos=draw(u8s),
        timestamp=draw(maybe(stamps)),
        node_id=draw(u16s),
    )
    if interest.mode is not InterestMode.FINAL:
        interest.options = draw(u8s) & 0x8F
        interest.key = draw(maybe(wire_exprs()))
    return interest


@st.composite
def link_states(draw: DrawFn) -> LinkState:
    """A link-state record."""
    links = tuple(draw(st.lists(u64s, max_size=4)))
    weights = tuple(draw(u16s) for _ in links) if draw(flags) else None
    return LinkState(
        draw(u64s),
        draw(u64s),
        zid=draw(maybe(zids)),
        whatami=draw(maybe(st.sampled_from((1, 2, 4)))),
        locators=draw(maybe(locator_lists)),
        links=links,
        weights=weights,
        gateway=draw(flags),
    )


link_state_lists = st.builds(LinkStateList, st.lists(link_states(), max_size=4))
oam_bodies = st.one_of(st.none(), u64s, payloads)


@st.composite
def oams(draw: DrawFn) -> Oam:
    """A network OAM; id 1 with octets is link state, whatever the octets were meant to be."""
    linkstate = draw(flags)
    oam_id = 1 if linkstate else draw(u16s)
    body = draw(link_state_lists) if linkstate else draw(oam_bodies)
    if oam_id == 1 and isinstance(body, bytes):
        body = None
    return Oam(oam_id, body, qos=draw(u8s), timestamp=draw(maybe(stamps)))


# Transport messages.

priorities = st.integers(min_value=0, max_value=7)
roles = st.integers(min_value=0, max_value=2)
auth_methods = st.lists(extensions(), min_size=1, max_size=4).map(tuple)
region_names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@st.composite
def qos_links(draw: DrawFn) -> QosLink:
    """What a link is restricted to."""
    first, last = sorted((draw(priorities), draw(priorities)))
    return QosLink(draw(flags), (first, last) if draw(flags) else None, draw(maybe(flags)))


@st.composite
def inits(draw: DrawFn, *, ack: bool) -> Init:
    """An InitSyn or an InitAck."""
    key = PublicKey(draw(short_octets), draw(short_octets), draw(short_octets) if ack else None)
    shm = ShmProbe(draw(u32s), draw(u64s) if ack else None)
    return Init(
        draw(zids),
        draw(roles),
        version=draw(u8s),
        resolution=draw(st.one_of(st.just(0x0A), u8s)),
        batch_len=draw(st.one_of(st.just(65_535), u16s)),
        cookie=draw(payloads) if ack else None,
        qos=draw(flags),
        qos_link=draw(maybe(qos_links())),
        shm=shm if draw(flags) else None,
        auth=draw(maybe(auth_methods)),
        multilink=key if draw(flags) else None,
        low_latency=draw(flags),
        compression=draw(flags),
        patch=draw(u64s),
        region_name=draw(maybe(region_names)),
    )


@st.composite
def opens(draw: DrawFn, *, ack: bool) -> Open:
    """An OpenSyn or an OpenAck."""
    shm = ShmProbe(challenge=None if ack else draw(u64s), counters=draw(short_octets))
    key = PublicKey() if ack else PublicKey(nonce=draw(short_octets))
    return Open(
        draw(u64s),
        draw(u64s),
        lease_in_seconds=draw(flags),
        cookie=None if ack else draw(payloads),
        qos=draw(flags),
        shm=shm if draw(flags) else None,
        shm_old=draw(maybe(u64s)),
        auth=draw(maybe(auth_methods)),
        multilink=key if draw(flags) else None,
        low_latency=draw(flags),
        compression=draw(flags),
        remote_bound=draw(maybe(u64s)),
    )


closes = st.builds(Close, u8s, flags)
keepalives = st.builds(KeepAlive)
frames = st.builds(Frame, u64s, flags, priorities)
fragments = st.builds(
    Fragment,
    u64s,
    payloads,
    reliable=flags,
    more=flags,
    priority=priorities,
    first=flags,
    drop=flags,
)
transport_oams = st.builds(TransportOam, u16s, oam_bodies, priority=priorities)
next_sns = st.builds(NextSn, u64s, u64s)
joins = st.builds(
    Join,
    zids,
    roles,
    u64s,
    next_sns,
    lease_in_seconds=flags,
    version=u8s,
    resolution=st.one_of(st.just(0x0A), u8s),
    batch_len=st.one_of(st.just(8_192), u16s),
    qos=maybe(st.lists(next_sns, min_size=8, max_size=8).map(tuple)),
    shm=maybe(short_octets),
    patch=u64s,
)


# Scouting messages.

scouts = st.builds(Scout, st.integers(min_value=0, max_value=7), zid=maybe(zids), version=u8s)
hellos = st.builds(Hello, zids, roles, locators=maybe(locator_lists), version=u8s)
