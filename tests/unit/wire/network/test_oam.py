"""The OAM of the network layer; link state has a test of its own."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import Oam, describe

EXAMPLES: Examples = {
    "unit": ("1f 05", Oam(5, None)),
    "number": ("3f 05 ac02", Oam(5, 300)),
    "octets": ("5f ffff03 02 6162", Oam(0xFFFF, b"ab")),
    "no link state": ("df 01 21 08 01 00", Oam(1, LinkStateList(), 8)),
    "link state": ("5f 01 05 01 00 02 03 00", Oam(1, LinkStateList([LinkState(2, 3)]))),
    "id 1 with a number is no link state": ("3f 01 07", Oam(1, 7)),
    "timestamp": ("9f 05 42 03 05 01 aa", Oam(5, None, timestamp=Stamp(5, b"\xaa"))),
    "QoS written out": ("9f 05 21 05", Oam(5, None, extras=Extras(b"\x21"))),
    "unknown extension": ("9f 05 0e", Oam(5, None, extras=Extras(unknown=(Extension(14),)))),
}
REFUSED: Refusals = {
    "reserved encoding": ("7f 01", "0b11 is reserved"),
    "id of 17 bits": ("1f 808004", "OAM id is 65536"),
    "body longer than the batch": ("5f 05 ffffffff0f 00", "needs 4294967295"),
    "link state longer than the batch": (
        "5f 01" + "ff" * 9,
        "link state needs 18446744073709551615",
    ),
    "link state without a count": ("5f 01 00", "record count needs 1"),
    "link state with a tail": ("5f 01 02 00 00", "link state ends 1"),
    "a NodeId has no place here": ("9f 05 33 00", "OAM: unknown mandatory extension 0x33"),
    "33 extensions": ("9f 05" + "8e" * 33, "OAM has more than 32 extensions"),
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


def test_octets_are_described_by_their_digest_when_they_are_many() -> None:
    assert describe(Oam(5, b"ab"))["value"] == "6162"
    assert describe(Oam(5, bytes(512)))["value"] == "00" * 512
    long = describe(Oam(5, bytes(513)))["value"]
    assert isinstance(long, dict)
    assert long["len"] == 513
