"""DECLARE; its declarations have tests of their own."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declare import Declare

BODY = DeclareFinal()

EXAMPLES: Examples = {
    "plain": ("1e 1a", Declare(BODY)),
    "answer to interest 0": ("3e 00 1a", Declare(BODY, 0)),
    "all": (
        "be ffffffff0f a1 08 c2 03 05 01 aa 33 04 1a",
        Declare(BODY, 2**32 - 1, 0x08, Stamp(5, b"\xaa"), 4),
    ),
    "defaults written out": ("9e a1 05 33 00 1a", Declare(BODY, extras=Extras(b"\x21\x33"))),
    "extension and reserved bit": (
        "de 0e 1a",
        Declare(BODY, extras=Extras(unknown=(Extension(14),), reserved=0x40)),
    ),
}
REFUSED: Refusals = {
    "no declaration": ("1e 08", "0x08 is no declaration"),
    "interest id of 33 bits": ("3e 8080808010 1a", "interest id is 4294967296"),
    "node id of 17 bits": ("9e 33 808004 1a", "node id is 65536"),
    "unknown mandatory extension": ("9e 11 1a", "DECLARE: unknown mandatory extension 0x11"),
    "33 extensions": ("9e" + "8e" * 33, "DECLARE has more than 32 extensions"),
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
