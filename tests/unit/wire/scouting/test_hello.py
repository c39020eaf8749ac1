"""HELLO."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.batches import decode_scouting
from elea.wire.extensions import Extension, Extras
from elea.wire.scouting.hello import Hello

EXAMPLES: Examples = {
    "without a list": ("02 09 01 aa", Hello(b"\xaa", 1)),
    "an empty list is not no list": ("22 09 00 aa 00", Hello(b"\xaa", 0, ())),
    "two locators": (
        "22 09 70 a8a7a6a5a4a3a2a1 02 07 7463702f613a31 03 782f79",
        Hello(bytes.fromhex("a8a7a6a5a4a3a2a1"), 0, ("tcp/a:1", "x/y")),
    ),
    "sixteen octets": ("02 09 f2" + "01" * 16, Hello(b"\x01" * 16, 2)),
    "a mandatory extension is skipped": (
        "c2 09 00 aa 51 01 05",
        Hello(b"\xaa", 0, extras=Extras(b"", (Extension(0x51, b"\x05"),), 0x40)),
    ),
    "64 locators": ("22 09 00 aa 40" + "03782f79" * 64, Hello(b"\xaa", 0, ("x/y",) * 64)),
}
REFUSED: Refusals = {
    "role 3": ("02 09 03 aa", "role index 3 is reserved"),
    "zero id": ("02 09 10 0000", "all zero"),
    "65 locators": ("22 09 00 aa 41" + "03782f79" * 65, "at most 64 locators, got 65"),
    "2^64-1 locators": ("22 09 00 aa" + "ff" * 9, "at most 64 locators"),
    "locator longer than 255": ("22 09 00 aa 01 8002" + "61" * 256, "locator length is 256"),
    "locator with a config": ("22 09 00 aa 01 05 782f792361", "refused"),
    "unsorted metadata": ("22 09 00 aa 01 0b 782f793f623d313b613d31", "not sorted"),
    "locator without address": ("22 09 00 aa 01 03 746370", "refused"),
    "locator that is no UTF-8": ("22 09 00 aa 01 03 782fff", "not UTF-8"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    check_example(*EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_cut_at_every_byte(name: str) -> None:
    check_cuts(*EXAMPLES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    check_refused(*REFUSED[name], scouting=True)


def test_octets_after_the_message_are_ignored() -> None:
    assert decode_scouting(bytes.fromhex("020901aa220900")) == Hello(b"\xaa", 1)
