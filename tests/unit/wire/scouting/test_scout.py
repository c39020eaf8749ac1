"""SCOUT."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.batches import decode_scouting
from elea.wire.extensions import Extension, Extras
from elea.wire.scouting.scout import Scout

EXAMPLES: Examples = {
    "routers and peers": ("01 09 03", Scout(3)),
    "with an id": ("01 09 1c aabb", Scout(4, b"\xaa\xbb")),
    "nobody": ("01 08 00", Scout(0, version=8)),
    "reserved bits": ("61 09 07", Scout(7, extras=Extras(reserved=0x60))),
    "an unknown mandatory extension is skipped": (
        "81 09 01 b5 07 1f",
        Scout(1, extras=Extras(unknown=(Extension(0x35, 7), Extension(0x1F)))),
    ),
}
REFUSED: Refusals = {
    "no datagram": ("", "header needs 1"),
    "no scouting message": ("03 09 03", "0x03 is no scouting message"),
    "zero id": ("01 09 18 0000", "all zero"),
    "extension with the reserved encoding": ("81 09 01 65", "0b11 is reserved"),
    "33 extensions": ("81 09 01" + "80" * 33, "more than 32 extensions"),
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


def test_an_absent_id_has_no_length() -> None:
    assert decode_scouting(bytes.fromhex("0109f3")) == Scout(3)


def test_octets_after_the_message_are_ignored() -> None:
    assert decode_scouting(bytes.fromhex("010903ffff")) == Scout(3)
