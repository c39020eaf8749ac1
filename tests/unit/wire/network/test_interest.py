"""INTEREST."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.batches import decode_batch
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.interest import Interest, InterestMode, describe

CURRENT, FUTURE = InterestMode.CURRENT, InterestMode.FUTURE
BOTH, FINAL = InterestMode.CURRENT_FUTURE, InterestMode.FINAL

EXAMPLES: Examples = {
    "final": ("19 01", Interest(1, FINAL)),
    "current, of everything": ("39 01 0f", Interest(1, CURRENT, 0x0F)),
    "future, aggregated": ("59 01 82", Interest(1, FUTURE, 0x82)),
    "both, on an alias": ("79 01 53 01", Interest(1, BOTH, 0x03, WireExpr(1))),
    "on an alias of the receiver": ("79 01 13 01", Interest(1, BOTH, 0x03, WireExpr(1, "", False))),
    "on a text": ("39 02 79 02 02 2f2a", Interest(2, CURRENT, 0x09, WireExpr(2, "/*"))),
    "final with extensions": (
        "99 01 a1 08 c2 03 05 01 aa 33 04",
        Interest(1, FINAL, qos=8, timestamp=Stamp(5, b"\xaa"), node_id=4),
    ),
    "defaults written out": ("99 01 a1 05 33 00", Interest(1, FINAL, extras=Extras(b"\x21\x33"))),
    "unknown extension": ("99 01 0e", Interest(1, FINAL, extras=Extras(unknown=(Extension(14),)))),
}
REFUSED: Refusals = {
    "id of 33 bits": ("19 8080808010", "interest id is 4294967296"),
    "scope of 17 bits": ("79 01 53 808004", "key scope is 65536"),
    "unknown mandatory extension": ("99 01 11", "INTEREST: unknown mandatory extension 0x11"),
    "33 extensions": ("99 01" + "8e" * 33, "INTEREST has more than 32 extensions"),
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


def test_key_flags_mean_nothing_without_a_restriction() -> None:
    assert decode_batch(bytes.fromhex("79 01 63"), bare=True) == [Interest(1, BOTH, 0x03)]


def test_options_are_described_by_name() -> None:
    tree = describe(Interest(1, BOTH, 0x8A, WireExpr(1)))
    assert tree["mode"] == "current_future"
    assert tree["options"] == ["subscribers", "tokens"]
    assert tree["aggregate"] is True
