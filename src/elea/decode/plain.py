"""Values of payloads and tables as JSON and CBOR have them."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Final

from elea.cbor import Plain
from elea.decode.values import Enumerator

_INT_MAX: Final = 1 << 64  # CBOR has no larger ones, and few readers of JSON have


def plain(value: object, *, cbor: bool = False, zone: tzinfo | None = None) -> Plain:
    """A value as JSON has it: times as RFC 3339, octets in base64, what is not a number as null.

    Integers past 64 bits are texts.

    Args:
        cbor: As CBOR has it: octets and odd numbers as they are.
        zone: Of times that name none; they are shown without one if it is not given.

    Example:
        >>> plain({"at": datetime(2024, 7, 1), "raw": b"ok", "ratio": math.nan})
        {'at': '2024-07-01T00:00:00', 'raw': 'b2s=', 'ratio': None}
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -_INT_MAX <= value < _INT_MAX else str(value)
        case float():
            return value if cbor or math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return value if cbor else base64.b64encode(value).decode()
        case dict():
            return {str(name): plain(one, cbor=cbor, zone=zone) for name, one in value.items()}
        case list() | tuple():
            return [plain(one, cbor=cbor, zone=zone) for one in value]
        case datetime() if zone is not None:
            moment = value.replace(tzinfo=zone) if value.tzinfo is None else value
            return moment.astimezone(zone).isoformat().replace("+00:00", "Z")
        case datetime() | date() | time():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case Enumerator():
            names = [name for name, number in value.members.items() if number == value.number]
            return names[0] if names else value.number
        case _:
            return str(value)
