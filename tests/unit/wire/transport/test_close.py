"""CLOSE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.transport.close import Close, CloseReason, describe

EXAMPLES: Examples = {
    "a link": ("03 00", Close(CloseReason.GENERIC)),
    "the transport": ("23 07", Close(CloseReason.CONNECTION_TO_SELF, whole_transport=True)),
    "a reason only newer nodes know": ("03 ff", Close(0xFF)),
    "extension and reserved bit": (
        "c3 02 2e 8001",
        Close(2, extras=Extras(unknown=(Extension(0x2E, 128),), reserved=0x40)),
    ),
}
REFUSED: Refusals = {
    "unknown mandatory extension": ("83 00 11", "CLOSE: unknown mandatory extension 0x11"),
    "no reason": ("23", "reason needs 1"),
    "33 extensions": ("83 00" + "80" * 33, "CLOSE has more than 32 extensions"),
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


def test_reasons_have_names() -> None:
    assert [describe(Close(code))["reason_name"] for code in (2, 6, 8)] == [
        "invalid",
        "unresponsive",
        "unknown",
    ]
