"""What every decoder is, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.columns.types import TEXT, as_text, fit, table_type
from elea.decode.formats import Read
from elea.decode.json_text import check_depth
from elea.decode.layout import Layout

_UNFIT: Final = (ValueError, RecursionError, ArithmeticError, TypeError, KeyError, IndexError)


@dataclass(slots=True)
class Outcome:
    """What payloads became: values with the row of the payload each is from, and failures."""

    rows: pa.Array
    values: pa.Array
    failed: dict[int, str] = field(default_factory=dict)


class Decoder:
    """Payloads of one kind to values of one layout. It never raises for what a payload is."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.type: pa.DataType = table_type(layout)

    def decode(self, payloads: pa.Array) -> Outcome:
        """All payloads; as columns where that can be, the others one by one."""
        parts, rest = self.fast(payloads)
        failed: dict[int, str] = {}
        rows: list[int] = []
        values: list[object] = []
        for row in sorted(rest):
            try:
                value = fit(self.value(payloads[row].as_py()), self.layout)
            except _UNFIT as error:
                failed[row] = str(error) or type(error).__name__
                continue
            rows.append(row)
            values.append(value)
        if rows:
            parts.append((pa.array(rows, pa.int64()), self._column(values)))
        return Outcome(*joined(parts, self.type), failed)

    def fast(self, payloads: pa.Array) -> tuple[list[tuple[pa.Array, pa.Array]], Iterable[int]]:
        """Rows and their values, and the rows that `value` has to look at."""
        return [], range(len(payloads))

    def value(self, payload: bytes) -> object:
        """One payload as plain values.

        Raises:
            ValueError: it is none of this kind.
        """
        raise AssertionError("each decoder has its own")

    def unknown(self, payload: bytes) -> object:
        """A payload that describes itself, to find what the layout does not know; else None."""
        return None

    def _column(self, values: list[object]) -> pa.Array:
        return pa.array(values, self.type)


def joined(parts: list[tuple[pa.Array, pa.Array]], type: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The rows of several parts with their values, by row."""
    if not parts:
        return pa.array([], pa.int64()), pa.array([], type)
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_arrays([rows for rows, _ in parts])
    values = pa.concat_arrays([values for _, values in parts])
    order = pc.sort_indices(rows)
    return rows.take(order), values.take(order)


class ValueDecoder(Decoder):
    """Payloads that describe themselves, one by one; without a layout each is given as JSON."""

    def __init__(self, read: Read, layout: Layout | None) -> None:
        super().__init__(layout or TEXT)
        self._read = read
        self._as_text = layout is None

    def value(self, payload: bytes) -> object:
        value = check_depth(self._read(payload))
        return as_text(value) if self._as_text else value

    def unknown(self, payload: bytes) -> object:
        return None if self._as_text else self._read(payload)
