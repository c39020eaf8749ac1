"""Every message kind, spoiled: cut anywhere, with extensions nobody may ignore, or too many."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests import strategies
from tests.wire_kinds import KINDS, Kind, decode, decorated, encode

from elea.errors import DecodeError
from elea.wire.batches import decode_batch, encode_batch
from elea.wire.codec import Message
from elea.wire.dialect import Dialect
from elea.wire.extensions import Extension, Extras
from elea.wire.framing import StreamDecoder, frame
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

FEW = settings(max_examples=12)
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
UNUSED = Extension(0x0E)  # no message defines it


@EACH
@FEW
@given(data=st.data())
def test_cut_at_every_byte(kind: Kind, data: st.DataObject) -> None:
    part = data.draw(decorated(kind, Dialect.ECLIPSE))
    octets = encode(part)
    # The empty batch is legal, and what remains of a FRAGMENT after its chain is its payload.
    stop = len(octets) - (len(part.payload) if isinstance(part, Fragment) else 0)
    for length in range(0 if kind.scouting else 1, stop):
        with pytest.raises(DecodeError) as caught:
            decode(octets[:length], part)
        assert 0 <= caught.value.offset <= length


@EACH
@FEW
@given(data=st.data())
def test_unknown_mandatory_extensions(kind: Kind, data: st.DataObject) -> None:
    part = data.draw(kind.plain(Dialect.ECLIPSE))
    one = data.draw(strategies.extensions(mandatory=True))
    assume(one.header not in kind.chain)
    part.extras = Extras(unknown=(one,))
    if kind.scouting:  # there they are skipped
        assert decode(encode(part), part) == part
    else:
        with pytest.raises(DecodeError, match=f"unknown mandatory extension 0x{one.header:02x}"):
            decode(encode(part), part)


@EACH
@FEW
@given(data=st.data())
def test_the_reserved_encoding(kind: Kind, data: st.DataObject) -> None:
    part = data.draw(kind.plain(Dialect.ECLIPSE))
    header = 0x60 | data.draw(st.integers(min_value=0, max_value=15))
    part.extras = Extras(unknown=(Extension(header),))
    with pytest.raises(DecodeError, match="0b11 is reserved"):
        decode(encode(part), part)


@EACH
@FEW
@given(data=st.data())
def test_the_number_of_extensions_is_bounded(kind: Kind, data: st.DataObject) -> None:
    part = data.draw(kind.plain(Dialect.ECLIPSE))
    part.extras = Extras(unknown=(UNUSED,) * 33)
    with pytest.raises(DecodeError, match="more than 32 extensions"):
        decode(encode(part), part)


@EACH
@FEW
@given(data=st.data())
def test_one_octet_changed(kind: Kind, data: st.DataObject) -> None:
    """It is another message or none; whatever it is, writing it is stable from then on."""
    octets = bytearray(encode(data.draw(decorated(kind, Dialect.ECLIPSE))))
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    try:
        messages = decode_batch(bytes(octets), bare=True)
    except DecodeError:
        return
    written = encode_batch(messages)
    assert encode_batch(decode_batch(written, bare=True)) == written


network_messages: st.SearchStrategy[Message] = st.one_of(
    strategies.pushes(),
    strategies.requests(),
    strategies.responses(),
    strategies.response_finals,
    strategies.declares,
    strategies.interests(),
    strategies.oams(),
)


@st.composite
def batches(draw: st.DrawFn) -> list[Message]:
    """FRAMEs with their messages, other messages between them, perhaps one that must be last."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 3))):
        messages.append(draw(strategies.frames))
        messages += draw(st.lists(network_messages, max_size=3))
        messages += draw(
            st.lists(st.one_of(strategies.keepalives, strategies.transport_oams), max_size=2)
        )
    if draw(st.booleans()):
        last: list[st.SearchStrategy[Message]] = [
            strategies.fragments,
            strategies.inits(ack=False),
            strategies.opens(ack=True),
        ]
        messages.append(draw(st.one_of(last)))
    return messages


@given(batches(), st.binary(max_size=3))
def test_whole_batches(messages: list[Message], rest: bytes) -> None:
    octets = encode_batch(messages)
    assert decode_batch(octets) == messages
    if messages and isinstance(messages[-1], (Init, Open)):
        assert decode_batch(octets + rest) == messages  # what follows these is ignored


@given(st.lists(batches(), max_size=4), st.integers(1, 64))
def test_batches_in_a_stream(sent: list[list[Message]], piece: int) -> None:
    stream = b"".join(frame(encode_batch(messages)) for messages in sent)
    decoder = StreamDecoder()
    received: list[list[Message]] = []
    for at in range(0, len(stream), piece):
        decoder.feed(stream[at : at + piece])
        received += [decode_batch(batch) for batch in iter(decoder.next_batch, None)]
    assert received == sent


@given(st.binary(max_size=64))
def test_any_octets(octets: bytes) -> None:
    for dialect in Dialect:
        for prefix in (b"", b"\x25\x00"):
            try:
                messages = decode_batch(prefix + octets, bare=True, dialect=dialect)
            except DecodeError:
                continue
            written = encode_batch(messages, dialect=dialect)
            again = decode_batch(written, bare=True, dialect=dialect)
            assert encode_batch(again, dialect=dialect) == written
            assert prefix == b"" or isinstance(messages[0], Frame)
