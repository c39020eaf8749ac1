"""INIT, both ways, with each of its extensions."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.batches import decode_batch, encode_batch
from elea.wire.codec import BatchDecoder
from elea.wire.extensions import Extension, Extras
from elea.wire.transport.establishment import PublicKey, QosLink, ShmProbe
from elea.wire.transport.init import Init, describe

AA = b"\xaa"

EXAMPLES: Examples = {
    "syn": ("01 09 02 77", Init(b"\x77", 2)),
    "syn with sizes": ("41 09 02 aa 0a c8ff", Init(AA, 2, batch_len=65480)),
    "syn of another version": ("01 08 00 aa", Init(AA, 0, version=8)),
    "ack with an empty cookie": ("21 09 00 aa 00", Init(AA, 0, cookie=b"")),
    "ack with sizes": (
        "61 09 01 aa 05 0000 02 c0c1",
        Init(AA, 1, resolution=5, batch_len=0, cookie=b"\xc0\xc1"),
    ),
    "QoS and patch": ("81 09 02 22 81 27 01", Init(b"\x22", 2, qos=True, patch=1)),
    "QoS link": ("81 09 02 aa 21 96d020", Init(AA, 2, qos_link=QosLink(False, (2, 5), True))),
    "QoS link without a restriction": (
        "81 09 02 aa 21 01",
        Init(AA, 2, qos_link=QosLink(qos=True)),
    ),
    "shared memory, syn": ("81 09 02 aa 42 02 ac02", Init(AA, 2, shm=ShmProbe(300))),
    "shared memory, ack": (
        "a1 09 00 aa 01 cc 42 03 07 ac02",
        Init(AA, 0, cookie=b"\xcc", shm=ShmProbe(300, 7)),
    ),
    "auth": (
        "81 09 02 aa 43 06 82 b2 09 41 01 ff",
        Init(AA, 2, auth=(Extension(0x02), Extension(0x32, 9), Extension(0x41, b"\xff"))),
    ),
    "multilink, syn": (
        "81 09 02 aa 44 05 02 0102 01 03",
        Init(AA, 2, multilink=PublicKey(b"\1\2", b"\3")),
    ),
    "multilink, ack": (
        "a1 09 02 aa 00 44 04 01 01 00 00",
        Init(AA, 2, cookie=b"", multilink=PublicKey(b"\1", b"", b"")),
    ),
    "low latency and compression": (
        "81 09 02 aa 85 06",
        Init(AA, 2, low_latency=True, compression=True),
    ),
    "region": ("81 09 02 aa 48 03 636c69", Init(AA, 2, region_name="cli")),
    "region of 32 octets": ("81 09 02 aa 48 20" + "c3a9" * 16, Init(AA, 2, region_name="é" * 16)),
    "another order, a default and an unknown one": (
        "81 09 02 aa a7 00 ce 01 05 01",
        Init(AA, 2, qos=True, extras=Extras(b"\x27\x4e\x01", (Extension(0x4E, b"\5"),))),
    ),
}
REFUSED: Refusals = {
    "role 3": ("01 09 03 aa", "role index 3 is reserved"),
    "zero id": ("01 09 12 0000", "all zero"),
    "id cut": ("01 09 f2" + "01" * 15, "zid needs 16"),
    "cookie of 65536": (
        "21 09 00 aa 808004" + "00" * 65536,
        "cookie length is 65536, legal is below 2.16",
    ),
    "cookie longer than the batch": ("21 09 00 aa ffff03 00", "cookie needs 65535"),
    "empty region": ("81 09 02 aa 48 00", "1 to 32 octets, got 0"),
    "region of 33": ("81 09 02 aa 48 21" + "61" * 33, "1 to 32 octets, got 33"),
    "region that is no UTF-8": ("81 09 02 aa 48 01 ff", "not UTF-8"),
    "priorities 5-2": ("81 09 02 aa 21 aa20", "priority range 5-2"),
    "priorities 0-8": ("81 09 02 aa 21 828001", "priority range 0-8"),
    "segment of 33 bits": (
        "81 09 02 aa 42 05 8080808010",
        "segment is 4294967296, legal is below 2.32",
    ),
    "probe with a tail": ("81 09 02 aa 42 02 0101", "shared-memory probe ends 1"),
    "empty auth": ("81 09 02 aa 43 00", "extension needs 1"),
    "auth with a tail": ("81 09 02 aa 43 02 0102", "auth ends 1"),
    "33 auth methods": ("81 09 02 aa 43 21" + "82" * 32 + "02", "auth has more than 32"),
    "auth longer than itself": ("81 09 02 aa 43 03 42 05 01", "needs 5"),
    "nonce in a syn": ("81 09 02 aa 44 06 01 01 01 02 01 03", "public key ends 2"),
    "modulus longer than the body": ("81 09 02 aa 44 02 05 01", "modulus needs 5"),
    "unknown mandatory extension": ("81 09 02 aa 11", "INIT_SYN: unknown mandatory extension 0x11"),
    "33 extensions": ("81 09 02 aa" + "8e" * 33, "INIT_SYN has more than 32 extensions"),
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


def test_octets_after_init_are_ignored_and_counted() -> None:
    decoder = BatchDecoder(bytes.fromhex("010902aa0400ff"))
    assert decoder.next() == Init(AA, 2)
    assert decoder.next() is None
    assert decoder.ignored == 3


def test_sizes_that_are_the_defaults_are_not_written() -> None:
    messages = decode_batch(bytes.fromhex("410902aa0affff"))
    assert messages == [Init(AA, 2)]
    assert encode_batch(messages) == bytes.fromhex("010902aa")


def test_the_last_of_repeated_extensions_wins_and_is_written_once() -> None:
    messages = decode_batch(bytes.fromhex("810902aa a705 81 2701"))
    assert encode_batch(messages) == bytes.fromhex("810902aa 81 2701")
    assert decode_batch(encode_batch(messages)) == messages


def test_a_known_id_with_another_encoding_is_unknown() -> None:
    [message] = decode_batch(bytes.fromhex("810902aa4101ff"))
    assert message == Init(AA, 2, extras=Extras(unknown=(Extension(0x41, b"\xff"),)))


@pytest.mark.parametrize(
    ("entry", "method"),
    [
        (Extension(0x02), {"ext": "usrpwd"}),
        (Extension(0x22, 7), {"ext": "usrpwd", "nonce": 7}),
        (Extension(0x42, b"\1u\1p"), {"ext": "usrpwd", "user": "75", "hmac": "70"}),
        (Extension(0x01), {"ext": "pubkey"}),
        (Extension(0x41, b"\5"), {"ext": "pubkey", "value": "05"}),
        # A malformed proof is for the authenticator to refuse: describing must not fail.
        (
            Extension(0x42, b"\x09"),
            {"ext": "unknown", "id": 2, "mandatory": False, "enc": "zbuf", "value": "09"},
        ),
    ],
)
def test_auth_methods_are_described(entry: Extension, method: dict[str, object]) -> None:
    assert describe(Init(AA, 2, auth=(entry,)))["ext"] == [{"ext": "auth", "methods": [method]}]
