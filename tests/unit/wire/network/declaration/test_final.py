"""D_FINAL, inside a DECLARE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.network.declaration.final import DeclareFinal

EXAMPLES: Examples = {
    "plain": ("1e 1a", DeclareFinal()),
    "extension and reserved bits": (
        "1e fa 0e",
        DeclareFinal(Extras(unknown=(Extension(14),), reserved=0x60)),
    ),
}
REFUSED: Refusals = {
    "unknown mandatory extension": ("1e 9a 1e", "D_FINAL: unknown mandatory extension 0x1e"),
    "33 extensions": ("1e 9a" + "8e" * 33, "D_FINAL has more than 32 extensions"),
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
