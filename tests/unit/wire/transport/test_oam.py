"""The OAM of the transport layer."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.extensions import Extension, Extras
from elea.wire.transport.oam import TransportOam

EXAMPLES: Examples = {
    "unit": ("00 05", TransportOam(5)),
    "number": ("20 05 ac02", TransportOam(5, 300)),
    "octets": ("40 ffff03 02 6162", TransportOam(0xFFFF, b"ab")),
    "no octets": ("40 00 00", TransportOam(0, b"")),
    "priority": ("80 01 31 02", TransportOam(1, priority=2)),
    "priority written out": ("a0 01 31 05 07", TransportOam(1, 7, extras=Extras(b"\x31"))),
    "extension": ("80 01 0e", TransportOam(1, extras=Extras(unknown=(Extension(0x0E),)))),
}
REFUSED: Refusals = {
    "reserved encoding": ("60 01", "0b11 is reserved"),
    "id of 17 bits": ("00 808004", "OAM id is 65536, legal is below 2.16"),
    "priority 8": ("80 01 31 08", "priority is 8, legal is below 2.3"),
    "body longer than the batch": ("40 01 ffffffff0f 00", "needs 4294967295"),
    "unknown mandatory extension": ("80 01 12", "T_OAM: unknown mandatory extension 0x12"),
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
