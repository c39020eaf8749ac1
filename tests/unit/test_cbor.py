"""What the reader of CBOR refuses; what it reads is in `tests/unit/decode/test_cbor_text.py`."""

from __future__ import annotations

import pytest

from elea import cbor
from elea.decode.cbor_text import plain_value


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("", "0 octets are left"),
        ("1901", "1 octets are left"),
        ("1c", "28 is reserved"),
        ("41", "0 octets are left"),
        ("61ff", "utf-8"),
        ("81", "0 octets are left"),
        ("9b7fffffffffffffff", "0 octets are left"),  # a list of 2^63 items
        ("bb7fffffffffffffff", "0 octets are left"),
        ("5b7fffffffffffffff00", "1 octets are left"),
        ("a101", "1 octets are left"),
        ("5f", "0 octets are left"),
        ("5f00ff", "another kind"),
        ("5f5f4100ffff", "another kind"),  # a piece of pieces
        ("9f", "0 octets are left"),
        ("bf01ff", "31 is reserved"),
        ("1f", "no indefinite length"),
        ("df00ff", "no indefinite length"),
        ("ff", "31 is reserved"),
        ("f801", "simple value 1 in two octets"),
        ("0000", "1 octets after the item"),
        ("81" * 40 + "00", "deeper than 32"),
    ],
)
def test_what_is_no_cbor_is_refused(octets: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cbor.loads(bytes.fromhex(octets))


@pytest.mark.parametrize(
    "value", [0, 23, 24, 255, 256, 65_535, 65_536, -1, -500, 1.5, True, "ä", [1, [2]], {"a": {}}]
)
def test_what_is_written_is_read_back(value: cbor.Plain) -> None:
    assert plain_value(cbor.loads(cbor.dumps(value))) == value
