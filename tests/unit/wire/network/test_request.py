"""REQUEST."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.data.query import Query
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.request import Request, describe
from elea.wire.shared_extensions import StackRecord, TimestampStack

KEY = WireExpr(1)

EXAMPLES: Examples = {
    "plain": ("5c 07 01 03", Request(7, KEY, Query())),
    "text": ("7c 00 00 01 61 03", Request(0, WireExpr(0, "a"), Query())),
    "largest id": ("5c ffffffff0f 01 03", Request(2**32 - 1, KEY, Query())),
    "QoS and timeout": (
        "dc 01 01 a1 0d 26 8827 03",
        Request(1, KEY, Query(), 0x0D, timeout_ms=5000),
    ),
    "timeout 0 is a timeout": ("dc 01 01 26 00 03", Request(1, KEY, Query(), timeout_ms=0)),
    "target": ("dc 01 01 34 02 03", Request(1, KEY, Query(), target=2)),
    "budget": ("dc 01 01 25 ffffffff0f 03", Request(1, KEY, Query(), budget=2**32 - 1)),
    "defaults written out": (
        "dc 01 01 a1 05 b4 00 a5 00 33 00 03",
        Request(1, KEY, Query(), extras=Extras(b"\x21\x34\x25\x33")),
    ),
    "all": (
        "dc 01 01 a1 0d c2 03 05 01 aa b4 01 a5 02 a6 03 b3 04 47 04 01 01 01 00 03",
        Request(
            1,
            KEY,
            Query(),
            0x0D,
            target=1,
            budget=2,
            timeout_ms=3,
            timestamp=Stamp(5, b"\xaa"),
            node_id=4,
            ts_stack=TimestampStack.of(1, (StackRecord(1, b""),)),
        ),
    ),
    "unknown extension": (
        "dc 01 01 0e 03",
        Request(1, KEY, Query(), extras=Extras(unknown=(Extension(14),))),
    ),
}
REFUSED: Refusals = {
    "target 3": ("dc 01 01 34 03 03", "target is 3, legal are 0 to 2"),
    "target 2^64-1": ("dc 01 01 34" + "ff" * 9 + "03", "target is 18446744073709551615"),
    "id of 33 bits": ("5c 8080808010 01 03", "request id is 4294967296"),
    "budget of 33 bits": ("dc 01 01 25 8080808010 03", "budget is 4294967296"),
    "a PUT inside": ("5c 01 01 01 00", "REQUEST holds QUERY .0x03., got 0x01"),
    "unknown mandatory extension": (
        "dc 01 01 35 00 03",
        "REQUEST: unknown mandatory extension 0x35",
    ),
    "33 extensions": ("dc 01 01" + "8e" * 33, "REQUEST has more than 32 extensions"),
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


def test_targets_are_described_by_name() -> None:
    tree = describe(Request(1, KEY, Query(), target=2))
    assert tree["ext"] == [{"ext": "target", "value": 2, "target": "all_complete"}]
