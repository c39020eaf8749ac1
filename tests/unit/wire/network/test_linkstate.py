"""Link state: records as they are given, refused, and bounded."""

from __future__ import annotations

import pytest

from elea.errors import DecodeError
from elea.limits import Limits
from elea.wire.buffer import Reader
from elea.wire.network.linkstate import LinkState, LinkStateList, decode, describe, to_bytes

EXAMPLES = {
    "nothing": ("00", LinkStateList()),
    "minimal": ("01 00 02 03 00", LinkStateList([LinkState(2, 3)])),
    "gateway": ("01 10 00 00 00", LinkStateList([LinkState(0, 0, gateway=True)])),
    "links": ("01 00 00 00 02 01 ac02", LinkStateList([LinkState(0, 0, links=(1, 300))])),
    "weights": (
        "01 08 00 00 02 01 02 0a ffff03",
        LinkStateList([LinkState(0, 0, links=[1, 2], weights=[10, 0xFFFF])]),
    ),
    "weights of no links": ("01 08 00 00 00", LinkStateList([LinkState(0, 0, weights=())])),
    "everything, and a second one": (
        "02 1f ffffffffffffffffff 01 02 a1a2 04 01 03 782f79 01 07 05 00 01 00 00",
        LinkStateList(
            [
                LinkState(2**64 - 1, 1, b"\xa1\xa2", 4, ("x/y",), (7,), (5,), True),
                LinkState(1, 0),
            ]
        ),
    ),
}
REFUSED = {
    "2049 records": ("8110" + "00000000" * 2049, "at most 2048 records, got 2049"),
    "2^64-1 records": ("ff" * 9, "at most 2048 records"),
    "fewer records than announced": ("02 00 00 00 00", "options needs 1"),
    "a tail": ("00 00", "link state ends 1"),
    "zid of 0": ("01 01 00 00 00 00", "1 to 16 octets, got 0"),
    "zid of 17": ("01 01 00 00 11" + "01" * 17 + "00", "1 to 16 octets, got 17"),
    "zid of zeros": ("01 01 00 00 01 00 00", "all zero"),
    "zid of 2^64-1": ("01 01 00 00" + "ff" * 9, "zid needs 18446744073709551615"),
    "role 3 is two bits": ("01 02 00 00 03 00", "role is 3, legal are 1"),
    "role 0": ("01 02 00 00 00 00", "role is 0"),
    "65 locators": ("01 04 00 00 41" + "03782f79" * 65 + "00", "at most 64 locators, got 65"),
    "8193 links": ("01 00 00 00 8140" + "00" * 8193, "at most 8192 links in all"),
    "links over two records": (
        "02 00 00 00 ff3f" + "00" * 8191 + "00 00 00 02 00 00",
        "at most 8192 links in all",
    ),
    "2^64-1 links": ("01 00 00 00" + "ff" * 9, "at most 8192 links"),
    "weight of 17 bits": ("01 08 00 00 01 00 808004", "link weight is 65536"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    text, states = EXAMPLES[name]
    octets = bytes.fromhex(text)
    decoded = decode(Reader(octets))
    assert decoded == states
    assert list(decoded) == list(states)
    assert len(decoded) == len(states)
    assert to_bytes(states) == to_bytes(decoded) == octets
    assert len(describe(decoded)) == len(states)
    for length in range(len(octets)):
        with pytest.raises(DecodeError):
            decode(Reader(octets[:length]))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(DecodeError, match=reason):
        decode(Reader(bytes.fromhex(text)))


def test_the_largest_message_inside_the_limits() -> None:
    octets = bytes.fromhex("8010") + bytes(4 * 2047) + bytes.fromhex("00 00 00 8040") + bytes(8192)
    states = decode(Reader(octets))
    assert len(states) == 2048
    assert sum(len(one.links) for one in states) == 8192


def test_limits_of_the_reader_are_kept_while_iterating() -> None:
    wide = Limits(linkstate_links_count=10_000, locators_count=100)
    locators = b"\x03x/y" * 65
    octets = bytes.fromhex("01 04 00 00 41") + locators + bytes.fromhex("904e") + bytes(10_000)
    [record] = decode(Reader(octets, limits=wide))
    assert record.locators == ("x/y",) * 65
    assert len(record.links) == 10_000


def test_a_list_can_be_walked_again() -> None:
    states = decode(Reader(bytes.fromhex("02 00 01 00 00 00 02 00 00")))
    assert [one.psid for one in states] == [one.psid for one in states] == [1, 2]
    assert repr(states) == repr(LinkStateList(states))
    assert states != LinkStateList([LinkState(1, 0)])
    assert states != [LinkState(1, 0)]


def test_one_weight_per_link() -> None:
    with pytest.raises(ValueError, match="one weight per link"):
        to_bytes(LinkStateList([LinkState(0, 0, links=(1, 2), weights=(1,))]))
