"""D_QUERYABLE and U_QUERYABLE, inside a DECLARE, in both dialects."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.batches import decode_batch, describe_batch
from elea.wire.dialect import Dialect
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable

KEY = WireExpr(2)

EXAMPLES: Examples = {
    "declare": ("1e 44 02 02", DeclareQueryable(2, KEY)),
    "complete": ("1e c4 02 02 21 01", DeclareQueryable(2, KEY, complete=True)),
    "complete at distance 3": ("1e c4 02 02 21 8106", DeclareQueryable(2, KEY, True, 3)),
    "far away": ("1e c4 02 02 21 80feff07", DeclareQueryable(2, KEY, False, 0xFFFF)),
    "info written out": ("1e c4 02 02 21 00", DeclareQueryable(2, KEY, extras=Extras(b"\x21"))),
    "unknown extension first": (
        "1e c4 02 02 8e 21 01",
        DeclareQueryable(2, KEY, True, extras=Extras(b"\x0e\x21", (Extension(14),))),
    ),
    "undeclare": ("1e 85 02 5f 02 00 00", UndeclareQueryable(2, WireExpr(0, "", False))),
    "undeclare by key": ("1e 85 00 5f 04 03 01 2f2a", UndeclareQueryable(0, WireExpr(1, "/*"))),
}
REFUSED: Refusals = {
    "info of 25 bits": ("1e c4 02 02 21 80808008", "queryable info is 16777216"),
    "id of 33 bits": ("1e 44 8080808010 02", "entity id is 4294967296"),
    "unknown mandatory extension": ("1e c4 02 02 31 00", "D_QUERYABLE: unknown mandatory"),
    "undeclare: unknown mandatory extension": ("1e 85 02 1e", "U_QUERYABLE: unknown mandatory"),
    "33 extensions": ("1e c4 02 02" + "8e" * 33, "D_QUERYABLE has more than 32 extensions"),
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


@pytest.mark.parametrize(
    ("distance", "complete", "eclipse", "specification"),
    [
        (0, True, "01", "01"),
        (3, True, "8106", "07"),
        (3, False, "8006", "06"),
        (0xFFFF, True, "81feff07", "ffff07"),
    ],
)
def test_distance_in_both_dialects(
    distance: int, complete: bool, eclipse: str, specification: str
) -> None:
    message = DeclareQueryable(2, KEY, complete, distance)
    check_example(f"1ec4020221{eclipse}", message, Dialect.ECLIPSE)
    check_example(f"1ec4020221{specification}", message, Dialect.SPECIFICATION)


def test_a_value_means_something_else_in_the_other_dialect() -> None:
    # wire.md 12, row 2: what the specification means by 7, Eclipse reads as distance 0.
    octets = bytes.fromhex("1ec402022107")
    for dialect, distance in ((Dialect.ECLIPSE, 0), (Dialect.SPECIFICATION, 3)):
        messages = decode_batch(octets, bare=True, dialect=dialect)
        [tree] = describe_batch(messages)
        body = tree["body"]
        assert isinstance(body, dict)
        assert body["ext"] == [{"ext": "info", "complete": True, "distance": distance}]
