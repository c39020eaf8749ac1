"""Hostile batches cost no more than they should: eight times their length and a fixed allowance.

Decoding goes message by message, as a node does.
"""

from __future__ import annotations

import contextlib
import sys
import tracemalloc
from collections.abc import Callable

import pytest

from elea.errors import DecodeError
from elea.wire.batches import decode_scouting
from elea.wire.codec import BatchDecoder, decode_one

BATCH_LEN = 65_535
PER_OCTET = 8
ALLOWANCE = 16 * 1024


def vle(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*octets, value))


def fill(prefix: bytes, unit: bytes, length: int = BATCH_LEN) -> bytes:
    """`prefix`, then `unit` as often as it fits."""
    return prefix + unit * ((length - len(prefix)) // len(unit))


def linkstate(records: int, record: bytes) -> bytes:
    """A FRAME with an OAM of so many records."""
    body = vle(records) + record * records
    return b"\x25\x00\x5f\x01" + vle(len(body)) + body


def chain(message: bytes, unit: bytes, count: int = 32) -> bytes:
    """A message with `count` extensions, the last of which ends the chain."""
    return message + unit * (count - 1) + bytes((unit[0] & 0x7F,)) + unit[1:]


LINKS = vle(8192)
DENSE = {
    "KEEP_ALIVEs": b"\x04" * BATCH_LEN,
    "KEEP_ALIVEs with reserved bits": b"\x64" * BATCH_LEN,
    "CLOSEs": fill(b"", b"\x03\x00"),
    "FRAMEs": fill(b"", b"\x05\x00"),
    "FRAMEs with a priority": fill(b"", b"\x85\x00\x31\x01"),
    "RESPONSE_FINALs": fill(b"\x25\x00", b"\x1a\x01"),
    "D_FINALs": fill(b"\x25\x00", b"\x1e\x1a"),
    "DELs": fill(b"\x25\x00", b"\x1d\x00\x02"),
    "empty PUTs": fill(b"\x25\x00", b"\x1d\x00\x01\x00"),
    "INTERESTs": fill(b"\x25\x00", b"\x19\x00"),
    "transport OAMs": fill(b"", b"\x00\x00"),
    "chains of units": fill(b"", chain(b"\x84", b"\x80")),
    "chains of numbers": fill(b"", chain(b"\x84", b"\xae\xff\x7f")),
    "chains of octets": fill(b"", chain(b"\x84", b"\xce\x01\xff")),
    "one large PUT": b"\x25\x00\x1d\x00\x01" + vle(65_000) + bytes(65_000),
    "a large attachment and payload": b"\x25\x00\x1d\x00\x81\x43"
    + vle(32_000) + bytes(32_000) + vle(32_000) + bytes(32_000),
    "a large suffix": b"\x25\x00\x3d\x00" + vle(65_000) + b"a" * 65_000 + b"\x02",
    "a suffix that turns wide at its end": b"\x25\x00\x3d\x00"
    + vle(65_004) + b"a" * 65_000 + "\U0001f600".encode() + b"\x02",
    "a suffix that is wide at once": b"\x25\x00\x3d\x00"
    + vle(65_004) + "\U0001f600".encode() + b"a" * 65_000 + b"\x02",
    "a suffix that is no UTF-8": b"\x25\x00\x3d\x00" + vle(65_000) + b"a" * 64_999 + b"\xff\x02",
    "wide parameters": b"\x25\x00\x1c\x00\x00\x43"
    + vle(65_004) + b"a" * 65_000 + "\U0001f600".encode(),
    "one large FRAGMENT": b"\x26\x00" + bytes(65_000),
    "one large unknown extension": b"\x84\x4e" + vle(65_000) + bytes(65_000),
    "an INIT with a large cookie": b"\x21\x09\x00\xaa" + vle(65_000) + bytes(65_000),
    "32 authentication methods": b"\x81\x09\x02\xaa\x43\x40" + chain(b"", b"\xc2\x00"),
    "a stack of 255": b"\x25\x00\x9d\x00\x47"
    + vle(513) + b"\x07\xff\x01" + b"\x01\x00" * 255 + b"\x02",
    "a stack of 255 wide ones": b"\x25\x00\x9d\x00\x47"
    + vle(3 + 255 * 4) + b"\x07\xff\x01" + b"\x01\x02\xff\xff" * 255 + b"\x02",
    "64 slices": b"\x25\x00\x1d\x00\x81\x12\x40" + b"\x00\x00" * 64,
    "64 wide descriptors": b"\x25\x00\x1d\x00\x81\x12\x40"
    + (b"\x01\x08" + vle(300) * 4) * 64,
    "2048 records": linkstate(2048, bytes(4)),
    "2048 records with ids": linkstate(
        2048, b"\x03\x81\x02\x81\x02\x10" + b"\x01" * 16 + b"\x01\x00"
    ),
    "8192 links": linkstate(1, b"\x00\x00\x00" + LINKS + bytes(8192)),
    "8192 wide links": linkstate(1, b"\x00\x00\x00" + LINKS + vle(300) * 8192),
    "8192 wide links with weights": linkstate(1, b"\x08\x00\x00" + LINKS + vle(300) * 16384),
    "records full of links": linkstate(32, b"\x08\x00\x00" + vle(256) + bytes(512)),
    "records full of locators": linkstate(200, b"\x04\x00\x00\x40" + b"\x03x/y" * 64 + b"\x00"),
}  # fmt: skip

# Everything a peer can announce without sending it.
GIANT = b"\xff" * 9
GIANT_32 = b"\xff\xff\xff\xff\x0f"
REFUSED = {
    "33 extensions": chain(b"\x84", b"\x80", 33),
    "2049 records": linkstate(2049, bytes(4)),
    "2^64-1 records": b"\x25\x00\x5f\x01\x0a" + GIANT + b"\x00",
    "8193 links": linkstate(1, b"\x00\x00\x00" + vle(8193) + bytes(8193)),
    "2^64-1 links": b"\x25\x00\x5f\x01\x0e\x01\x00\x00\x00" + GIANT + b"\x00",
    "2^64-1 locators": b"\x25\x00\x5f\x01\x0e\x01\x04\x00\x00" + GIANT + b"\x00",
    "link state": b"\x25\x00\x5f\x01" + GIANT,
    "OAM body": b"\x25\x00\x5f\x02" + GIANT_32,
    "transport OAM body": b"\x40\x02" + GIANT_32,
    "payload": b"\x25\x00\x1d\x00\x01" + GIANT_32,
    "attachment": b"\x25\x00\x1d\x00\x81\x43" + GIANT_32,
    "source": b"\x25\x00\x1d\x00\x81\x41" + GIANT_32,
    "slices": b"\x25\x00\x1d\x00\x81\x12" + GIANT_32,
    "slice": b"\x25\x00\x1d\x00\x81\x12\x01\x00" + GIANT_32,
    "schema": b"\x25\x00\x1d\x00\x41\x01\xff\x01",
    "timestamp id": b"\x25\x00\x1d\x00\x21\x00\xff\x01",
    "suffix": b"\x25\x00\x3d\x00\xff\xff\x03",
    "parameters": b"\x25\x00\x1c\x00\x00\x43" + GIANT,
    "query body": b"\x25\x00\x1c\x00\x00\x83\x43" + GIANT_32,
    "error payload": b"\x25\x00\x1b\x00\x00\x05" + GIANT_32,
    "responder": b"\x25\x00\x9b\x00\x00\x43" + GIANT_32,
    "stack": b"\x25\x00\x9d\x00\x47\x0a\x07" + GIANT,
    "stack record": b"\x25\x00\x9d\x00\x47\x0c\x07\x01\x01" + GIANT,
    "key of an undeclaration": b"\x25\x00\x1e\x87\x00\x5f" + GIANT_32,
    "extension": b"\x84\x4e" + GIANT_32,
    "init cookie": b"\x21\x09\x00\xaa\xff\xff\x03",
    "open cookie": b"\x02\x0a\x00" + GIANT,
    "auth": b"\x81\x09\x02\xaa\x43" + GIANT_32,
    "modulus": b"\x81\x09\x02\xaa\x44\x0a" + GIANT + b"\x00",
    "JOIN QoS": b"\x87\x09\x01\xaa\x01\x00\x00\x51" + GIANT_32,
}


def walk(data: bytes) -> None:
    decoder = BatchDecoder(data)
    while decoder.next() is not None:
        pass


def excess(attempt: Callable[[bytes], object], data: bytes, per_byte: int = PER_OCTET) -> int:
    """Return the bytes at peak beyond the bound, 0 if it held; a DecodeError is a good answer.

    The least of up to five runs: the first one fills caches, and other threads of the process
    count.
    """
    bound, least = per_byte * len(data) + ALLOWANCE, sys.maxsize
    for _ in range(5):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(DecodeError):
                attempt(data)
            most = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        least = min(least, most)
        if least <= bound:
            return 0
    return least - bound


@pytest.mark.parametrize("name", DENSE)
def test_dense_batches(name: str) -> None:
    data = DENSE[name]
    assert len(data) <= BATCH_LEN
    if "no UTF-8" not in name:
        walk(data)  # legal to its last octet
    assert excess(walk, data) == 0


@pytest.mark.parametrize("name", REFUSED)
def test_announced_lengths(name: str) -> None:
    data = REFUSED[name]
    with pytest.raises(DecodeError):
        walk(data)
    assert excess(walk, data) == 0


@pytest.mark.parametrize("locators", [64, 65, 16_000])
def test_hello_with_many_locators(locators: int) -> None:
    data = b"\x22\x09\x00\xaa" + vle(locators) + b"\x03x/y" * locators
    assert excess(decode_scouting, data) == 0


def test_a_large_reassembled_message() -> None:
    data = b"\x1d\x00\x01" + vle(4_000_000) + bytes(4_000_000)
    assert excess(decode_one, data, per_byte=2) == 0
