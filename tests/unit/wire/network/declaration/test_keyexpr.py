"""D_KEYEXPR and U_KEYEXPR, inside a DECLARE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr

EXAMPLES: Examples = {
    "declare": ("1e 20 01 00 01 61", DeclareKeyExpr(1, WireExpr(0, "a"))),
    "without a suffix": ("1e 00 ffff03 ffff03", DeclareKeyExpr(0xFFFF, WireExpr(0xFFFF))),
    "extension and reserved bit": (
        "1e c0 01 00 0e",
        DeclareKeyExpr(1, WireExpr(0), Extras(unknown=(Extension(14),), reserved=0x40)),
    ),
    "undeclare": ("1e 01 01", UndeclareKeyExpr(1)),
    "undeclare with extension and reserved bits": (
        "1e e1 01 0e",
        UndeclareKeyExpr(1, Extras(unknown=(Extension(14),), reserved=0x60)),
    ),
}
REFUSED: Refusals = {
    "id of 17 bits": ("1e 20 808004 00 01 61", "expr id is 65536"),
    "scope of 17 bits": ("1e 00 01 808004", "key scope is 65536"),
    "undeclared id of 17 bits": ("1e 01 808004", "expr id is 65536"),
    "unknown mandatory extension": (
        "1e 80 01 00 1e",
        "D_KEYEXPR: unknown mandatory extension 0x1e",
    ),
    "undeclare: unknown mandatory extension": (
        "1e 81 01 5f 02 00 00",
        "U_KEYEXPR: unknown mandatory",
    ),
    "33 extensions": ("1e 81 01" + "8e" * 33, "U_KEYEXPR has more than 32 extensions"),
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
