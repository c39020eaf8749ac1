"""OPEN, both ways, with each of its extensions."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.transport.establishment import PublicKey, ShmProbe
from elea.wire.transport.open import Open, describe

EXAMPLES: Examples = {
    "syn": ("42 0a e807 01 cc", Open(10, 1000, cookie=b"\xcc")),
    "syn with an empty cookie": ("02 0a 00 00", Open(10, 0, lease_in_seconds=False, cookie=b"")),
    "ack": ("62 0a 84ccae52", Open(10, 172729860)),
    "64-bit sequence number": ("62 0a" + "ff" * 9, Open(10, 2**64 - 1)),
    "QoS, low latency, compression": (
        "e2 0a 00 81 85 06",
        Open(10, 0, qos=True, low_latency=True, compression=True),
    ),
    "shared memory, syn": (
        "c2 0a 00 00 42 03 07 01 00",
        Open(10, 0, cookie=b"", shm=ShmProbe(None, 7, b"\1\0")),
    ),
    "shared memory, ack": ("e2 0a 00 42 01 00", Open(10, 0, shm=ShmProbe(counters=b"\0"))),
    "shared memory up to 1.9": ("e2 0a 00 22 01", Open(10, 0, shm_old=1)),
    "auth": ("e2 0a 00 43 01 02", Open(10, 0, auth=(Extension(2),))),
    "multilink, syn": (
        "c2 0a 00 00 44 02 01 ff",
        Open(10, 0, cookie=b"", multilink=PublicKey(nonce=b"\xff")),
    ),
    "multilink, ack": ("e2 0a 00 04", Open(10, 0, multilink=PublicKey())),
    "remote bound": ("e2 0a 00 27 00", Open(10, 0, remote_bound=0)),
    "the acknowledgement of a proof in a syn is unknown": (
        "c2 0a 00 00 04",
        Open(10, 0, cookie=b"", extras=Extras(unknown=(Extension(0x04),))),
    ),
    "a proof in an ack is unknown": (
        "e2 0a 00 44 01 00",
        Open(10, 0, extras=Extras(unknown=(Extension(0x44, b"\0"),))),
    ),
}
REFUSED: Refusals = {
    "cookie longer than the batch": ("42 0a 00" + "ff" * 9, "cookie needs 18446744073709551615"),
    "proof with a tail": ("c2 0a 00 00 44 02 00 00", "public key ends 1"),
    "no challenge": ("c2 0a 00 00 42 00", "challenge needs 1"),
    "empty auth": ("e2 0a 00 43 00", "extension needs 1"),
    "unknown mandatory extension": ("e2 0a 00 11", "OPEN_ACK: unknown mandatory extension 0x11"),
    "unknown mandatory extension in a syn": ("c2 0a 00 00 11", "OPEN_SYN: unknown mandatory"),
    "33 extensions": ("e2 0a 00" + "8e" * 33, "OPEN_ACK has more than 32 extensions"),
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


def test_lease_in_milliseconds() -> None:
    assert Open(10, 0).lease_ms == 10_000
    assert Open(10, 0, lease_in_seconds=False).lease_ms == 10


def test_shared_memory_of_an_open_syn_is_described() -> None:
    tree = describe(Open(10, 0, cookie=b"", shm=ShmProbe(None, 7, b"\1\0")))
    assert tree["ext"] == [{"ext": "shm", "challenge": 7, "tail": "0100"}]
