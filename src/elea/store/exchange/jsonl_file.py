"""JSON lines: one object per row; what is written is read back the same.

{"key": "fleet/1", "kind": "put", "payload": "{\\"x\\":1}", "encoding": "application/json",
 "ts": "2024-07-01T13:51:12.129693Z", "hlc": "7386690599959157260", "hlc_id": "33", "qos": 5,
 "recv_ts": "2024-07-01T13:51:12.130000Z"}

A payload is text where its encoding says so, or says nothing, and it is printable UTF-8; else it is
`payload_base64`. What a row has not is left out. `hlc` is a text of digits, as most readers of JSON
have no integers of 64 bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from elea.errors import ExchangeError
from elea.json5 import Json
from elea.store.exchange.rows import (
    DEFAULTS,
    Gathering,
    Tell,
    Value,
    base64_of,
    checked_rows,
    octets_of,
    plain_rows,
    text_of,
)
from elea.store.log.schema import POSITION, SCHEMA, RowKind
from elea.timestamp import NANOS_PER_SECOND, format_rfc3339

_LINE_LEN_MAX: Final = 1 << 30  # a payload has at most 2^30 octets; as text, mostly no more
_KINDS: Final = {int(kind): kind.name.lower() for kind in RowKind}
_KIND_CODES: Final = {name: code for code, name in _KINDS.items()}
_OCTETS: Final = ("payload", "attachment")
_TIMES: Final = ("ts", "recv_ts")
_IGNORED: Final = frozenset(field.name for field in POSITION)
_HLC_SIGN: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT_US_MAX: Final = 253_402_300_800_000_000  # the year 10 000


class JsonlRows:
    """Writes rows as JSON lines."""

    def __init__(self, stream: BinaryIO, columns: Sequence[str]) -> None:
        self._stream = stream
        self._columns = columns

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        for row in plain_rows(batch):
            shown = row_json(row)
            if len(self._columns) < len(SCHEMA.names):
                names = shown.keys()
                keep = [one for one in names if one.removesuffix("_base64") in self._columns]
                shown = {name: shown[name] for name in keep}
            line = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
            self._stream.write(line.encode() + b"\n")

    def finish(self) -> None:
        """There is nothing left to write."""


def row_json(row: dict[str, Value]) -> dict[str, Json]:
    """A row for programs; what it has not is left out."""
    shown: dict[str, Json] = {}
    encoding = str(row.get("encoding"))
    for name, value in row.items():
        if value is None:
            continue
        if isinstance(value, bytes):
            text = text_of(value, encoding if name == "payload" else "")
            if text is None:
                shown[f"{name}_base64"] = base64_of(value)
            else:
                shown[name] = text
        elif name == "kind":
            assert isinstance(value, int)
            shown[name] = _KINDS.get(value, value)
        elif name == "hlc":
            assert isinstance(value, int)
            shown[name] = str(value % (1 << 64))
        elif name in _TIMES:
            assert isinstance(value, int)
            shown[name] = time_text(value)
        else:
            assert isinstance(value, int | str)
            shown[name] = value
    return shown


def time_text(us: int) -> str | int:
    """RFC 3339 of microseconds since 1970; outside of the years 1970 to 9999 the number itself."""
    if not 0 <= us < _TEXT_US_MAX:
        return us
    return f"{_second_text(us // 1_000_000)}.{us % 1_000_000:06}Z"


@lru_cache(4_096)
def _second_text(seconds: int) -> str:
    """Rows that follow each other are mostly of the same seconds."""
    return format_rfc3339(seconds * NANOS_PER_SECOND).removesuffix("Z")


def read_jsonl(path: Path, tell: Tell) -> Iterator[pa.RecordBatch]:
    """The rows of a file, checked.

    Raises:
        ExchangeError: a line is no row.
    """
    told: set[str] = set()
    gathering = Gathering()
    lines: list[int] = []
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LINE_LEN_MAX + 1):
            number += 1
            if not line.strip():
                continue
            where = f"{path}: line {number}"
            if len(line) > _LINE_LEN_MAX:
                raise ExchangeError(where, f"it is longer than {_LINE_LEN_MAX} octets")
            seen = parse_object(line, where)
            others = seen.keys() - _PARSERS.keys() - _IGNORED - told
            if others:
                told |= others
                tell(f"{where}: names that a row has not are left out: {', '.join(sorted(others))}")
            gathering.add(whole_row(seen, where))
            lines.append(number)
            if gathering.is_full:
                yield _checked(gathering, path, lines)
                lines = []
    if lines:
        yield _checked(gathering, path, lines)


def _checked(gathering: Gathering, path: Path, lines: list[int]) -> pa.RecordBatch:
    return checked_rows(gathering.take(), lambda row: f"{path}: line {lines[row]}")


def parse_object(line: bytes, where: str) -> dict[str, object]:
    """The names and values of a line.

    Raises:
        ExchangeError: it is no JSON object.
    """
    try:
        seen = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExchangeError(where, f"no JSON: {error}") from error
    if not isinstance(seen, dict):
        reason = f"saw {type(seen).__name__}; legal is an object for each row"
        raise ExchangeError(where, reason)
    return seen


def columns_of(seen: dict[str, object], where: str) -> dict[str, Value]:
    """The columns that names and values stand for.

    Raises:
        ExchangeError: a value is none of its column.
    """
    row: dict[str, Value] = {}
    for name, value in seen.items():
        parse = _PARSERS.get(name)
        if parse is None or value is None:
            continue
        try:
            row[name.removesuffix("_base64")] = parse(value)
        except ValueError as error:
            raise ExchangeError(where, f"{name}: {error}") from error
    return row


def whole_row(seen: dict[str, object], where: str) -> dict[str, Value]:
    """A row, with defaults for what it may lack.

    Raises:
        ExchangeError: it lacks something else, or a value is none of its column.
    """
    row = {**DEFAULTS, **columns_of(seen, where)}
    if row.get("recv_ts") is None:
        row["recv_ts"] = row.get("ts")
    for name in ("key", "payload", "recv_ts"):
        if row.get(name) is None:
            hint = " (or ts)" if name == "recv_ts" else ""
            raise ExchangeError(where, f"saw no {name}{hint}; every row has one")
    return row


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"saw {_shown(value)}; legal is a text")
    value.encode()  # half a character is none
    return value


def _kind(value: object) -> int:
    if not isinstance(value, str):
        return _small(value)
    if value not in _KIND_CODES:
        raise ValueError(f"saw {_shown(value)}; legal are {', '.join(_KIND_CODES)}")
    return _KIND_CODES[value]


def _time(value: object) -> int:
    """Microseconds since 1970."""
    if not isinstance(value, str):
        return _large(value)
    try:
        when = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"saw {_shown(value)}; legal is 2024-07-01T13:51:12.129693Z") from error
    if when.tzinfo is None:
        raise ValueError(f"saw {_shown(value)} without a time zone; legal is one with Z")
    return (when - _EPOCH) // timedelta(microseconds=1)


def _hlc(value: object) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 64):
        raise ValueError(f"saw {_shown(value)}; legal are the digits of a number of 64 bits")
    bits = int(text)
    return bits - (1 << 64) if bits >= _HLC_SIGN else bits


def _whole_number(bits: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value >> bits <= 0:
            raise ValueError(f"saw {_shown(value)}; legal is a whole number of {bits} bits")
        return value

    return parse


def _shown(value: object) -> str:
    return ascii(value)[:80]


_small = _whole_number(7)
_large = _whole_number(63)
_PARSERS: Final[dict[str, Callable[[object], Value]]] = {
    **dict.fromkeys(("key", "encoding", "hlc_id", "zid"), _text),
    **dict.fromkeys(_OCTETS, lambda value: _text(value).encode()),
    **{f"{name}_base64": lambda value: octets_of(_text(value)) for name in _OCTETS},
    **dict.fromkeys(_TIMES, _time),
    **dict.fromkeys(("eid", "sn"), _large),
    "kind": _kind,
    "qos": _small,
    "hlc": _hlc,
}
assert _PARSERS.keys() >= set(SCHEMA.names)
