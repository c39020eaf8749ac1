"""Refusals: why whoever asked for rows of a log gets none, as JSON, over Zenoh and over Flight.

    {"error": "trimmed", "detail": "...", "first": 5, "end": 9}
    {"error": "damaged" | "unknown" | "busy" | "absent", "detail": "..."}

`busy` and `absent` (no such log is there, or not yet) are worth asking again.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from elea.errors import CorruptLogError, EleaError, OffsetError, StoreError
from elea.json5 import Json

BUSY: Final = "busy"
ABSENT: Final = "absent"
_LOG: Final = logging.getLogger("elea.store.log")
_SHOWN_LEN: Final = 200  # of an answer that nobody understands


def refusal_of(error: Exception) -> dict[str, Json]:
    """What is told of an error; one that nobody foresaw is logged too."""
    if isinstance(error, OffsetError):
        kind = "trimmed" if error.offset < error.first else "unknown"
        return {"error": kind, "detail": str(error), "first": error.first, "end": error.end}
    if isinstance(error, EleaError):
        kind = "damaged" if isinstance(error, CorruptLogError) else "unknown"
        return {"error": kind, "detail": str(error)}
    _LOG.error("a log could not be read", exc_info=error)
    return {"error": "unknown", "detail": repr(error)}


def told_by(octets: bytes, shard: int, first: int) -> str:
    """Why, in words, if asking again may help.

    Args:
        octets: The refusal.
        shard: What was asked for,
        first: from this row on.

    Raises:
        OffsetError: rows were trimmed.
        StoreError: they are damaged, or what was asked for cannot be.
    """
    text = octets.decode("utf-8", "replace")
    try:
        told = json.loads(text)
        kind, detail = str(told["error"]), str(told["detail"])
        if kind == "trimmed":
            raise OffsetError(shard, first, int(told["first"]), int(told["end"]))
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return text[:_SHOWN_LEN]
    if kind not in (BUSY, ABSENT):
        raise StoreError(f"{kind}: {detail}")
    return detail
