"""Rows on their way in and out: as text, as columns, and checked before they are kept."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.formats import is_text
from elea.encoding import Encoding
from elea.errors import EleaError, ExchangeError
from elea.ids import ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.store.log.schema import SCHEMA, RowKind, from_columns

ROWS_COUNT: Final = 16_384  # that are gathered before they are handed on
ROWS_LEN: Final = 16 * 1024 * 1024  # and their octets
NEEDED: Final = ("key", "payload")  # what a file must have; the rest has defaults
Value = str | bytes | int | None
DEFAULTS: Final[dict[str, Value]] = {"kind": int(RowKind.PUT), "encoding": "zenoh/bytes", "qos": 5}
Tell = Callable[[str], None]  # a line for people: what is left out, what is changed
Progress = Callable[[int], None]  # how many rows are done

_SN_MAX: Final = 0xFFFF_FFFF
_QOS_MAX: Final = 0x3F
_TIME_US_MAX: Final = (1_000_000 << 32) - 1  # 1970 to 2106, as timestamps


def text_of(octets: bytes, encoding: str) -> str | None:
    """A payload as text, if its encoding says that it is some or says nothing, and it is."""
    name = encoding.partition(";")[0]
    if not is_text(name) and name != "zenoh/bytes":
        return None
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return None
    plain = text.replace("\n", "").replace("\r", "").replace("\t", "")
    return text if plain.isprintable() else None


def base64_of(octets: bytes) -> str:
    """Octets as text."""
    return base64.b64encode(octets).decode("ascii")


def octets_of(text: str) -> bytes:
    """The octets of such a text.

    Raises:
        ValueError: it is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from error


class Gathering:
    """Rows that come one by one, handed on in batches of bounded length."""

    __slots__ = ("_columns", "_length", "rows_count")

    def __init__(self) -> None:
        self.rows_count = 0
        self._clear()

    def add(self, row: Mapping[str, Value]) -> None:
        """Take a row; what it has not is null."""
        for name, column in self._columns.items():
            column.append(row.get(name))
        for name in ("payload", "attachment"):
            octets = row.get(name)
            self._length += len(octets) if isinstance(octets, bytes) else 0
        self.rows_count += 1

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take`."""
        return len(self._columns["key"]) >= ROWS_COUNT or self._length >= ROWS_LEN

    def take(self) -> pa.RecordBatch:
        """What was gathered; times are numbers of microseconds."""
        batch = from_columns(self._columns.values())
        self._clear()
        return batch

    def _clear(self) -> None:
        self._columns: dict[str, list[Value]] = {name: [] for name in SCHEMA.names}
        self._length = 0


def checked_rows(batch: pa.RecordBatch, where: Callable[[int], str]) -> pa.RecordBatch:
    """Rows that are about to be kept.

    Args:
        batch: Of `SCHEMA`.
        where: What to call the place of a row, by its number in the batch.

    Raises:
        ExchangeError: a value is one that no sample can have.
    """
    for name, parse in _TEXT_CHECKS.items():
        column = batch.column(name)
        if column.null_count and not SCHEMA.field(name).nullable:
            row = pc.index(column.is_null(), True).as_py()
            raise ExchangeError(where(row), f"saw no {name}; every row has one")
        for code, text in enumerate(column.dictionary.to_pylist()):
            row = pc.index(column.indices, code).as_py()
            if row < 0:
                continue
            try:
                parse(text)
            except (EleaError, ValueError) as error:
                raise ExchangeError(where(row), f"saw {name} {text[:80]!a}: {error}") from error
    for name, most in _NUMBER_CHECKS.items():
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.view(pa.int64())
        wrong = pc.or_(pc.less(column, 0), pc.greater(column, most))
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            raise ExchangeError(where(row), f"saw {name} {column[row]}; legal are 0 to {most}")
    return batch


def _key(text: str) -> object:
    if "*" in str(KeyExpr(text)):
        raise ValueError("a key of a row has no wildcard")
    return text


_TEXT_CHECKS: Final[dict[str, Callable[[str], object]]] = {
    "key": _key,
    "encoding": Encoding,
    "hlc_id": ZenohId.parse,
    "zid": ZenohId.parse,
}
_NUMBER_CHECKS: Final = {
    "kind": max(RowKind),
    "eid": _SN_MAX,
    "sn": _SN_MAX,
    "qos": _QOS_MAX,
    "recv_ts": _TIME_US_MAX,
}


def plain_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Value]]:
    """Rows as Python values; times are numbers of microseconds."""
    columns = []
    for name in batch.schema.names:
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.view(pa.int64())
        columns.append(column.to_pylist())
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))
