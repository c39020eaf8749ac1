"""PUT, inside a PUSH."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused
from tests.wire_kinds import encode

from elea.wire.batches import decode_batch
from elea.wire.data.put import Put, describe
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp, WireEncoding, WireExpr
from elea.wire.network.push import Push
from elea.wire.shared_extensions import SourceRef
from elea.wire.shm import ShmDescriptor

AA = b"\xaa"

EXAMPLES: Examples = {
    "empty": ("5d01 01 00", Put(b"")),
    "payload": ("5d01 01 03 6f6e65", Put(b"one")),
    "timestamp": ("5d01 21 05 01 aa 00", Put(b"", Stamp(5, AA))),
    "encoding": ("5d01 41 0a 00", Put(b"", encoding=WireEncoding(5))),
    "the default encoding written out": ("5d01 41 00 00", Put(b"", encoding=WireEncoding(0))),
    "schema": ("5d01 41 0b 02 7631 00", Put(b"", encoding=WireEncoding(5, b"v1"))),
    "custom encoding": (
        "5d01 41 ffff07 01 78 00",
        Put(b"", encoding=WireEncoding(0xFFFF, b"x")),
    ),
    "attachment alone": ("5d01 81 43 02 6162 01 63", Put(b"c", attachment=b"ab")),
    "empty attachment": ("5d01 81 43 00 00", Put(b"", attachment=b"")),
    "source": ("5d01 81 41 04 00 aa 06 07 01 78", Put(b"x", source=SourceRef(AA, 6, 7))),
    "source and attachment": (
        "5d01 81 c1 05 10 aabb 06 07 43 01 61 00",
        Put(b"", attachment=b"a", source=SourceRef(b"\xaa\xbb", 6, 7)),
    ),
    "slices": (
        "5d01 81 12 02 00 02 6162 01 07 8827 899601 00 00",
        Put(b"", slices=(b"ab", ShmDescriptor(5000, 19209, 0, 0))),
    ),
    "all, out of order, with one more": (
        "5d01 e1 05 01 aa 02 c3 00 ae 07 92 41 04 00 aa 00 00 00",
        Put(
            b"",
            Stamp(5, AA),
            WireEncoding(1),
            b"",
            SourceRef(AA, 0, 0),
            (),
            Extras(b"\x43\x2e\x12\x41", (Extension(0x2E, 7),)),
        ),
    ),
}
REFUSED: Refusals = {
    "neither PUT nor DEL": ("5d01 03", "PUSH holds PUT .0x01. or DEL .0x02., got 0x03"),
    "payload longer than the message": ("5d01 01 05 61", "payload needs 5"),
    "payload of 33 bits": ("5d01 01 8080808010", "payload length is 4294967296"),
    "timestamp without id": ("5d01 21 05 00 00", "1 to 16 octets, got 0"),
    "timestamp id of 17": ("5d01 21 05 11" + "01" * 17 + "00", "1 to 16 octets, got 17"),
    "timestamp id of zeros": ("5d01 21 05 02 0000 00", "all zero"),
    "timestamp id length of 9 bits": ("5d01 21 05 8002", "id length is 256, legal is below 2.8"),
    "encoding of 33 bits": ("5d01 41 8080808010 00", "encoding is 4294967296"),
    "schema of 256": ("5d01 41 01 8002" + "00" * 256 + "00", "schema length is 256"),
    "source with a tail": ("5d01 81 41 05 00 aa 06 07 00 00", "source info ends 1"),
    "source without a number": ("5d01 81 41 03 00 aa 06 00", "source sn needs 1"),
    "entity of 33 bits": ("5d01 81 41 08 00 aa 8080808010 07 00", "entity id is 4294967296"),
    "source of zeros": ("5d01 81 41 04 00 00 06 07 00", "all zero"),
    "65 slices": ("5d01 81 12 41" + "0000" * 65, "at most 64 slices, got 65"),
    "slices of kind 2": ("5d01 81 12 01 02 00", "slice kind is 2"),
    "slice count of 33 bits": ("5d01 81 12 8080808010", "slice count is 4294967296"),
    "descriptor with a tail": ("5d01 81 12 01 01 05 00000000 00", "descriptor ends 1"),
    "segment of 17 bits": ("5d01 81 12 01 01 06 00 808004 00 00", "metadata segment is 65536"),
    "unknown mandatory extension": ("5d01 81 13 00", "PUT: unknown mandatory extension 0x13"),
    "attachment longer than the message": ("5d01 81 43 ffffffff0f", "attachment needs 4294967295"),
    "33 extensions": ("5d01 81" + "8e" * 33, "PUT has more than 32 extensions"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    check_example(*EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_cut_at_every_byte(name: str) -> None:
    check_cuts(*EXAMPLES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    check_refused(*REFUSED[name])


def test_an_encoding_keeps_sixteen_bits() -> None:
    [message] = decode_batch(bytes.fromhex("5d01 41 808008 00"), bare=True)
    assert message == Push(WireExpr(1), Put(b"", encoding=WireEncoding(0)))


def test_an_empty_schema_is_no_schema() -> None:
    [message] = decode_batch(bytes.fromhex("5d01 41 0b00 00"), bare=True)
    assert message == Push(WireExpr(1), Put(b"", encoding=WireEncoding(5)))


def test_a_schema_too_long_is_not_written() -> None:
    with pytest.raises(ValueError, match="at most 255 octets, got 256"):
        encode(Put(b"", encoding=WireEncoding(1, bytes(256))))


def test_slices_are_described_one_by_one() -> None:
    tree = describe(Put(b"", slices=(b"ab", ShmDescriptor(5, 1, 2, 3))))
    assert tree["slices"] == [
        {"kind": "raw", "value": "6162"},
        {"kind": "descriptor", "data_len": 5, "segment": 1, "index": 2, "generation": 3},
    ]


def test_messages_are_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(Put(b""))
