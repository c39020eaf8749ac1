"""Texts, and the numbers and truth values that they write."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.columns.base import Decoder
from elea.decode.columns.types import TEXT
from elea.decode.layout import Layout, Primitive


class TextDecoder(Decoder):
    """A text in UTF-8, or the number or truth value that it writes."""

    def __init__(self, layout: Layout = TEXT) -> None:
        super().__init__(layout)
        self._is_signed_number = isinstance(layout, Primitive) and layout.name in (
            *("i8", "i16", "i32", "i64", "f32", "f64"),
        )

    def fast(self, payloads: pa.Array) -> tuple[list[tuple[pa.Array, pa.Array]], Iterable[int]]:
        """All of them in one step; if one does not fit, each for itself."""
        everything = range(len(payloads))
        if self.layout is not TEXT and not self._is_signed_number:
            return [], everything
        try:
            values = payloads.cast(pa.string())
            if self._is_signed_number:
                values = pc.utf8_trim_whitespace(values).cast(self.type)
        except pa.ArrowInvalid:
            return [], everything
        return [(pa.array(everything, pa.int64()), values)], ()

    def value(self, payload: bytes) -> object:
        text = payload.decode()
        if not isinstance(self.layout, Primitive) or self.layout is TEXT:
            return text
        text = text.strip()
        match self.layout.name[0]:
            case "i" | "u":
                return int(text) if text.isascii() else _no_number(text)
            case "f":
                return float(text)
            case "b" if self.layout.name == "bool":
                if text.lower() not in ("true", "false", "1", "0"):
                    raise ValueError(f"saw {text[:40]!a}, legal is true, false, 1 or 0")
                return text.lower() in ("true", "1")
            case "b":
                return payload
            case _:
                return text


def _no_number(text: str) -> int:
    raise ValueError(f"saw {text[:40]!a}, legal is an integer")
