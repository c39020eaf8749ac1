"""Ticket: what is asked for over Arrow Flight, a range of a log.

It is JSON, and so is a descriptor that is a command, in which all but `v` and `log` may be missing.
No Flight is in here: who serves and who reads share it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elea.errors import EleaError, InvalidValueError
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS
from elea.store.log.ranges import ALL_TIME, COLUMNS, Span, checked_columns

VERSION: Final = 1
MEMBERS: Final = (
    *("v", "log", "id", "shard", "lo", "hi", "columns", "keyexpr", "from", "until", "lossy"),
)
_NUMBER_MAX: Final = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A range of a log; of a descriptor, what is wanted of it.

    Args:
        log: Its name.
        log_id: It and no other of this name.
        shard: One of its shards.
        first: From this row on,
        end: and to before this one.
        columns: Of `COLUMNS`, in this order.
        key_exprs: Rows of keys that one of these matches, only; all if there is none.
        span: Rows of this time, only.
        lossy: Pass rows that are damaged.

    Example:
        >>> Ticket(log="fleet", shard=0, first=7, end=9, columns=("key", "seq")).encode()
        b'{"v": 1, "log": "fleet", "shard": 0, "lo": 7, "hi": 9, "columns": ["key", "seq"]}'
    """

    log: str
    log_id: uuid.UUID | None = None
    shard: int | None = None
    first: int | None = None
    end: int | None = None
    columns: tuple[str, ...] = COLUMNS
    key_exprs: tuple[str, ...] = ()
    span: Span = ALL_TIME
    lossy: bool = False

    @property
    def is_filtered(self) -> bool:
        """Whether rows of the range may be left out."""
        return bool(self.key_exprs) or self.span != ALL_TIME or self.lossy

    def encode(self) -> bytes:
        """As JSON; what is not said is not there."""
        told: dict[str, object] = {
            "v": VERSION,
            "log": self.log,
            "id": None if self.log_id is None else str(self.log_id),
            "shard": self.shard,
            "lo": self.first,
            "hi": self.end,
            "columns": None if self.columns == COLUMNS else self.columns,
            "keyexpr": self.key_exprs or None,
            "from": None if self.span[0] == ALL_TIME[0] else self.span[0],
            "until": None if self.span[1] == ALL_TIME[1] else self.span[1],
            "lossy": self.lossy or None,
        }
        return json.dumps({name: one for name, one in told.items() if one is not None}).encode()

    @classmethod
    def decode(cls, octets: bytes, len_max: int = DEFAULT_LIMITS.flight_ticket_len) -> Ticket:
        """From JSON.

        Raises:
            InvalidValueError: it is no ticket; it says what is legal.
        """
        if len(octets) > len_max:
            reason = f"saw {len(octets)} octets; {len_max} at most are legal"
            raise InvalidValueError("ticket", reason)
        try:
            told = json.loads(octets)
        except (ValueError, RecursionError) as error:
            reason = f"saw {octets[:80]!a}; legal is JSON, as get_flight_info gives it"
            raise InvalidValueError("ticket", reason) from error
        if not isinstance(told, dict) or told.get("v") != VERSION:
            seen = told.get("v") if isinstance(told, dict) else type(told).__name__
            reason = f"saw version {seen!a}; legal is {VERSION}: ask get_flight_info for a new one"
            raise InvalidValueError("ticket", reason)
        unknown = [str(name) for name in told if name not in MEMBERS]
        if unknown:
            reason = f"saw {', '.join(unknown)[:80]!a}; legal are {', '.join(MEMBERS)}"
            raise InvalidValueError("ticket", reason)
        return cls._read(told)

    @classmethod
    def _read(cls, told: Mapping[str, object]) -> Ticket:
        columns = _texts(told, "columns")
        low, high = _number(told, "from"), _number(told, "until")
        lossy = told.get("lossy", False)
        if not isinstance(lossy, bool):
            raise _wrong("lossy", lossy, "true or false")
        key_exprs = []
        for text in _texts(told, "keyexpr") or ():
            try:
                key_exprs.append(str(KeyExpr.autocanonize(text)))
            except EleaError as error:
                raise _wrong("keyexpr", text, f"key expressions: {error}") from error
        return cls(
            log=_text(told, "log"),
            log_id=_id(told.get("id")),
            shard=_number(told, "shard"),
            first=_number(told, "lo"),
            end=_number(told, "hi"),
            columns=COLUMNS if columns is None else checked_columns(columns),
            key_exprs=() if "**" in key_exprs else tuple(key_exprs),
            span=(ALL_TIME[0] if low is None else low, ALL_TIME[1] if high is None else high),
            lossy=lossy,
        )


def _text(told: Mapping[str, object], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "a text")
    return value


def _texts(told: Mapping[str, object], name: str) -> list[str] | None:
    value = told.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise _wrong(name, value, "a list of texts")
    found = [one for one in value if isinstance(one, str)]
    if len(found) != len(value):
        raise _wrong(name, value, "a list of texts")
    return found


def _number(told: Mapping[str, object], name: str) -> int | None:
    value = told.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _NUMBER_MAX:
        raise _wrong(name, value, f"a number from 0 to {_NUMBER_MAX}")
    return value


def _id(value: object) -> uuid.UUID | None:
    if value is None:
        return None
    try:
        return uuid.UUID(str(value))
    except ValueError:
        raise _wrong("id", value, "a UUID") from None


def _wrong(name: str, value: object, legal: str) -> InvalidValueError:
    return InvalidValueError("ticket", f"{name} is {str(value)[:80]!a}; legal is {legal}")
