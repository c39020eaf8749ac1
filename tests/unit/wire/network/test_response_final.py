"""RESPONSE_FINAL."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp
from elea.wire.network.response_final import ResponseFinal

EXAMPLES: Examples = {
    "plain": ("1a 4d", ResponseFinal(77)),
    "QoS and timestamp": ("9a 01 a1 0d 42 03 05 01 aa", ResponseFinal(1, 0x0D, Stamp(5, b"\xaa"))),
    "QoS written out": ("9a 01 21 05", ResponseFinal(1, extras=Extras(b"\x21"))),
    "extension and reserved bits": (
        "fa 01 0e",
        ResponseFinal(1, extras=Extras(unknown=(Extension(14),), reserved=0x60)),
    ),
}
REFUSED: Refusals = {
    "id of 33 bits": ("1a 8080808010", "request id is 4294967296"),
    "a NodeId has no place here": (
        "9a 01 33 00",
        "RESPONSE_FINAL: unknown mandatory extension 0x33",
    ),
    "33 extensions": ("9a 01" + "8e" * 33, "RESPONSE_FINAL has more than 32 extensions"),
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
