"""KEEP_ALIVE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.transport.keepalive import KeepAlive

EXAMPLES: Examples = {
    "plain": ("04", KeepAlive()),
    "reserved bits": ("64", KeepAlive(Extras(reserved=0x60))),
    "an unknown extension": (
        "84 4a 02 0102",
        KeepAlive(Extras(unknown=(Extension(0x4A, b"\1\2"),))),
    ),
}
REFUSED: Refusals = {
    "unknown mandatory extension": ("84 5a 00", "KEEP_ALIVE: unknown mandatory extension 0x5a"),
    "reserved encoding": ("84 6a", "0b11 is reserved"),
    "33 extensions": ("84" + "80" * 33, "KEEP_ALIVE has more than 32 extensions"),
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
