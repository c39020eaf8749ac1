"""RESPONSE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.reply import Reply
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.response import Response
from elea.wire.shared_extensions import EntityRef, StackRecord, TimestampStack

KEY = WireExpr(1)
BODY = Reply(Del())

EXAMPLES: Examples = {
    "reply": ("5b 07 01 04 02", Response(7, KEY, BODY)),
    "error without a key": ("5b 07 00 05 00", Response(7, WireExpr(0), Err(b""))),
    "responder": (
        "db 01 01 43 04 10 bbbb 07 04 02",
        Response(1, KEY, BODY, responder=EntityRef(b"\xbb\xbb", 7)),
    ),
    "all": (
        "fb 01 00 01 61 a1 0d c2 03 05 01 aa c3 03 00 aa 00 47 04 01 01 01 00 04 02",
        Response(
            1,
            WireExpr(0, "a"),
            BODY,
            0x0D,
            EntityRef(b"\xaa", 0),
            Stamp(5, b"\xaa"),
            TimestampStack.of(1, (StackRecord(1, b""),)),
        ),
    ),
    "QoS written out": ("db 01 01 21 05 04 02", Response(1, KEY, BODY, extras=Extras(b"\x21"))),
    "unknown extension": (
        "db 01 01 0e 04 02",
        Response(1, KEY, BODY, extras=Extras(unknown=(Extension(14),))),
    ),
}
REFUSED: Refusals = {
    "a PUT inside": ("5b 01 01 01 00", "RESPONSE holds REPLY .0x04. or ERR .0x05., got 0x01"),
    "id of 33 bits": ("5b 8080808010 01 04 02", "request id is 4294967296"),
    "responder with a tail": ("db 01 01 43 04 00 aa 07 00 04 02", "responder id ends 1"),
    "responder of zeros": ("db 01 01 43 03 00 00 07 04 02", "all zero"),
    "responder longer than its body": ("db 01 01 43 03 f0 aa 07 04 02", "zid needs 16"),
    "a NodeId has no place here": (
        "db 01 01 33 00 04 02",
        "RESPONSE: unknown mandatory extension 0x33",
    ),
    "33 extensions": ("db 01 01" + "8e" * 33, "RESPONSE has more than 32 extensions"),
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
