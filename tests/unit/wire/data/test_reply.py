"""REPLY, inside a RESPONSE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.data.reply import Reply, describe
from elea.wire.extensions import Extension, Extras

EXAMPLES: Examples = {
    "put": ("5b0101 04 01 01 61", Reply(Put(b"a"))),
    "del": ("5b0101 04 02", Reply(Del())),
    "consolidation": ("5b0101 24 02 02", Reply(Del(), 2)),
    "extension and reserved bit": (
        "5b0101 c4 0e 02",
        Reply(Del(), extras=Extras(unknown=(Extension(0x0E),), reserved=0x40)),
    ),
}
REFUSED: Refusals = {
    "a query inside": ("5b0101 04 03", "REPLY holds PUT .0x01. or DEL .0x02., got 0x03"),
    "unknown mandatory extension": ("5b0101 84 1e 02", "REPLY: unknown mandatory extension 0x1e"),
    "33 extensions": ("5b0101 84" + "8e" * 33, "REPLY has more than 32 extensions"),
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


def test_consolidation_is_described_by_name() -> None:
    assert describe(Reply(Del(), 2))["consolidation_name"] == "monotonic"
