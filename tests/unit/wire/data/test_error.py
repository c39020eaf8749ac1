"""ERR, inside a RESPONSE."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.data.error import Err
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import WireEncoding
from elea.wire.shared_extensions import SourceRef

AA = b"\xaa"

EXAMPLES: Examples = {
    "plain": ("5b0101 05 03 626164", Err(b"bad")),
    "encoding": ("5b0101 45 08 00", Err(b"", WireEncoding(4))),
    "source": ("5b0101 85 41 04 00 aa 06 07 00", Err(b"", source=SourceRef(AA, 6, 7))),
    "the payload stays one with Shm": ("5b0101 85 12 01 61", Err(b"a", shm=True)),
    "extension and reserved bit": (
        "5b0101 a5 2e 07 00",
        Err(b"", extras=Extras(unknown=(Extension(0x2E, 7),), reserved=0x20)),
    ),
}
REFUSED: Refusals = {
    "payload longer than the message": ("5b0101 05 05 61", "payload needs 5"),
    "payload of 33 bits": ("5b0101 05 8080808010", "payload length is 4294967296"),
    "unknown mandatory extension": ("5b0101 85 13 00", "ERR: unknown mandatory extension 0x13"),
    "33 extensions": ("5b0101 85" + "8e" * 33, "ERR has more than 32 extensions"),
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
