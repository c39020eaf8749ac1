"""D_TOKEN and U_TOKEN, inside a DECLARE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken

EXAMPLES: Examples = {
    "declare": ("1e 66 01 01 03 2f2a2a", DeclareToken(1, WireExpr(1, "/**"))),
    "on an alias of the receiver": (
        "1e 06 ffffffff0f 01",
        DeclareToken(2**32 - 1, WireExpr(1, "", False)),
    ),
    "extension": (
        "1e c6 01 01 21 01",
        DeclareToken(1, WireExpr(1), Extras(unknown=(Extension(0x21, 1),))),
    ),
    "undeclare by id": ("1e 07 01", UndeclareToken(1)),
    "an empty key is kept": ("1e 87 01 5f 02 00 00", UndeclareToken(1, WireExpr(0, "", False))),
    "undeclare by key": ("1e 87 00 5f 04 03 01 2f2a", UndeclareToken(0, WireExpr(1, "/*"))),
    "extension, key and reserved bits": (
        "1e e7 01 8e 5f 02 02 01",
        UndeclareToken(1, WireExpr(1), Extras(b"\x0e\x5f", (Extension(14),), 0x60)),
    ),
}
REFUSED: Refusals = {
    "id of 33 bits": ("1e 46 8080808010 01", "entity id is 4294967296"),
    "undeclared id of 33 bits": ("1e 07 8080808010", "entity id is 4294967296"),
    "unknown mandatory extension": ("1e c6 01 01 1e", "D_TOKEN: unknown mandatory extension 0x1e"),
    "undeclare: unknown mandatory extension": ("1e 87 01 1e", "U_TOKEN: unknown mandatory"),
    "an optional key is unknown": ("1e 87 01 4f 02 00", "needs 2"),
    "33 extensions": ("1e c6 01 01" + "8e" * 33, "D_TOKEN has more than 32 extensions"),
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
