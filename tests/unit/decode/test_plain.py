"""Values as JSON and CBOR have them."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest

from elea.cbor import dumps
from elea.decode.plain import plain
from elea.decode.values import Enumerator

MEMBERS = {"idle": 0, "moving": 1}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (1 << 70, str(1 << 70)),
        (1.5, 1.5),
        (math.inf, None),
        (b"\x00\xff", "AP8="),
        (Decimal("3.00"), 3),
        (Decimal("0.5"), 0.5),
        (date(2024, 7, 1), "2024-07-01"),
        (time(12, 30), "12:30:00"),
        (timedelta(seconds=90), 90.0),
        (datetime(2024, 7, 1, tzinfo=UTC), "2024-07-01T00:00:00Z"),
        (Enumerator(1, MEMBERS), "moving"),
        (Enumerator(7, MEMBERS), 7),
        ({1: (math.nan, [b""])}, {"1": [None, [""]]}),
        (complex(1, 2), "(1+2j)"),
    ],
)
def test_json(value: object, shown: object) -> None:
    found = plain(value)
    assert (found, type(found)) == (shown, type(shown))
    json.dumps(found, allow_nan=False)


def test_cbor_keeps_octets_and_odd_numbers() -> None:
    found = plain({"a": b"x", "b": math.inf, "c": 1 << 64, "d": -(1 << 64)}, cbor=True)
    assert found == {"a": b"x", "b": math.inf, "c": str(1 << 64), "d": -(1 << 64)}
    assert dumps(found)


def test_times_without_a_zone_are_given_one_if_that_is_asked_for() -> None:
    moment = datetime(2024, 7, 1, 12)
    assert plain(moment) == "2024-07-01T12:00:00"
    assert plain([moment], zone=UTC) == ["2024-07-01T12:00:00Z"]
    east = moment.replace(tzinfo=timezone(timedelta(hours=2)))
    assert plain(east, zone=UTC) == "2024-07-01T10:00:00Z"
