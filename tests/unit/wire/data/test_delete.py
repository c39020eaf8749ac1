"""DEL, inside a PUSH."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.data.delete import Del
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp
from elea.wire.shared_extensions import SourceRef

AA = b"\xaa"

EXAMPLES: Examples = {
    "plain": ("5d01 02", Del()),
    "timestamp": ("5d01 22 05 01 aa", Del(Stamp(5, AA))),
    "attachment under an id of its own": ("5d01 82 42 02 7a7a", Del(attachment=b"zz")),
    "source": ("5d01 82 41 04 00 aa 06 07", Del(source=SourceRef(AA, 6, 7))),
    "reserved bit": ("5d01 42", Del(extras=Extras(reserved=0x40))),
    "the attachment of a PUT is unknown": (
        "5d01 82 43 01 61",
        Del(extras=Extras(unknown=(Extension(0x43, b"a"),))),
    ),
}
REFUSED: Refusals = {
    "timestamp without id": ("5d01 22 05 00", "1 to 16 octets, got 0"),
    "attachment longer than the message": ("5d01 82 42 05 61", "attachment needs 5"),
    "unknown mandatory extension": ("5d01 82 12", "DEL: unknown mandatory extension 0x12"),
    "33 extensions": ("5d01 82" + "8e" * 33, "DEL has more than 32 extensions"),
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
