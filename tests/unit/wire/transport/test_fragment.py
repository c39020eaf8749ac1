"""FRAGMENT: everything after its chain is payload, so a cut there is a shorter fragment."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Refusals, check_cuts, check_example, check_refused, one

from elea.wire.extensions import Extension, Extras
from elea.wire.transport.fragment import Fragment

# Octets, message, and where the payload starts.
EXAMPLES: dict[str, tuple[str, Fragment, int]] = {
    "last": ("26 dd01 4141", Fragment(221, b"AA"), 3),
    "empty": ("06 00", Fragment(0, b"", reliable=False), 2),
    "first": ("e6 01 02 7d00", Fragment(1, b"\x7d\0", more=True, first=True), 3),
    "drop": ("a6 01 03", Fragment(1, b"", drop=True), 3),
    "all": (
        "e6 01 b1 02 82 03 ff",
        Fragment(1, b"\xff", more=True, priority=2, first=True, drop=True),
        6,
    ),
    "priority written out": ("a6 01 31 05", Fragment(1, b"", extras=Extras(b"\x31")), 4),
    "another order": (
        "a6 01 82 ae 00 31 01 aa",
        Fragment(
            1,
            b"\xaa",
            priority=1,
            first=True,
            extras=Extras(b"\x02\x2e\x31", (Extension(0x2E, 0),)),
        ),
        7,
    ),
}
REFUSED: Refusals = {
    "priority 8": ("a6 01 31 08 00", "priority is 8, legal is below 2.3"),
    "unknown mandatory extension": ("a6 01 12", "FRAGMENT: unknown mandatory extension 0x12"),
    "33 extensions": ("a6 01" + "8e" * 33, "FRAGMENT has more than 32 extensions"),
    "reserved encoding": ("a6 01 62", "0b11 is reserved"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    text, fragment, _ = EXAMPLES[name]
    check_example(text, fragment)


@pytest.mark.parametrize("name", EXAMPLES)
def test_cut_at_every_byte(name: str) -> None:
    text, fragment, payload_at = EXAMPLES[name]
    check_cuts(text, fragment, open_from=payload_at)
    octets = bytes.fromhex(text)
    for length in range(payload_at, len(octets)):
        shorter = one(octets[:length].hex())
        assert isinstance(shorter, Fragment)
        assert shorter.payload == octets[payload_at:length]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    check_refused(*REFUSED[name])
