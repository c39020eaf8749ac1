"""JOIN."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused
from tests.wire_kinds import decode, encode

from elea.wire.extensions import Extension, Extras
from elea.wire.transport.join import Join, NextSn, describe

EXAMPLES: Examples = {
    "plain": (
        "a7 09 01 a1 0a e0f7b166 afc7e917 27 01",
        Join(b"\xa1", 1, 10, NextSn(214727648, 49963951), patch=1),
    ),
    "sizes and milliseconds": (
        "47 09 10 a1a2 02 3412 8827 01 02",
        Join(
            b"\xa1\xa2",
            0,
            5000,
            NextSn(1, 2),
            lease_in_seconds=False,
            resolution=2,
            batch_len=0x1234,
        ),
    ),
    "QoS and shared memory": (
        "a7 09 02 a1 0a 00 00 d1 10 00010203040506070809101112131415 52 01 aa",
        Join(
            b"\xa1",
            2,
            10,
            NextSn(0, 0),
            qos=tuple(NextSn(a, a + 1) for a in (0, 2, 4, 6, 8, 16, 18, 20)),
            shm=b"\xaa",
        ),
    ),
    "patch 0 written out": (
        "a7 09 01 a1 01 00 00 27 00",
        Join(b"\xa1", 1, 1, NextSn(0, 0), extras=Extras(b"\x27")),
    ),
    "extension": (
        "a7 09 01 a1 01 00 00 0e",
        Join(b"\xa1", 1, 1, NextSn(0, 0), extras=Extras(unknown=(Extension(0x0E),))),
    ),
}
REFUSED: Refusals = {
    "role 3": ("27 09 03 a1 01 00 00", "role index 3"),
    "zero id": ("27 09 01 00 01 00 00", "all zero"),
    "seven pairs": ("a7 09 01 a1 01 00 00 51 0e" + "01" * 14, "needs 1"),
    "nine pairs": ("a7 09 01 a1 01 00 00 51 12" + "01" * 18, "2 octet.s. before its declared"),
    "unknown mandatory extension": (
        "a7 09 01 a1 01 00 00 37 01",
        "JOIN: unknown mandatory extension 0x37",
    ),
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


def test_sizes_that_are_the_defaults_are_not_written() -> None:
    with_defaults = bytes.fromhex("670901a10a00200100 00")
    message = decode(with_defaults, Join(b"\xa1", 1, 1, NextSn(0, 0)))
    assert message == Join(b"\xa1", 1, 1, NextSn(0, 0))
    assert encode(message) == bytes.fromhex("270901a1010000")


def test_eight_pairs_or_none() -> None:
    with pytest.raises(ValueError, match="8 pairs, got 1"):
        encode(Join(b"\xa1", 1, 1, NextSn(0, 0), qos=(NextSn(0, 0),)))


def test_lease_in_milliseconds() -> None:
    join = Join(b"\xa1", 1, 10, NextSn(0, 0))
    assert join.lease_ms == 10_000
    join.lease_in_seconds = False
    assert join.lease_ms == 10
    assert describe(join)["lease_unit"] == "ms"
