"""Texts and numbers, and CBOR: what needs no definitions."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from elea import cbor
from elea.predicate.layout import Layout, Primitive
from elea.spark.decode.base import Decoder, check_depth
from elea.spark.decode.types import TEXT, as_text


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


class CborDecoder(Decoder):
    """One CBOR item; without a layout it is given as JSON, octets in base64."""

    def __init__(self, layout: Layout | None = None) -> None:
        super().__init__(layout or TEXT)
        self._as_text = layout is None

    def value(self, payload: bytes) -> object:
        value = check_depth(plain_item(cbor.loads(payload)))
        return as_text(value) if self._as_text else value

    def unknown(self, payload: bytes) -> object:
        return None if self._as_text else plain_item(cbor.loads(payload))


def plain_item(item: cbor.Item) -> object:
    """An item as dicts, lists and scalars: names become texts, tags are left out.

    Raises:
        ValueError: a name is there twice, or no text can be made of it.
    """
    match item:
        case cbor.Map():
            found: dict[object, object] = {}
            for name, value in item.pairs:
                if not isinstance(name, (str, int)) or isinstance(name, bool):
                    raise ValueError("the name in a map is neither text nor integer")
                if str(name) in found:
                    raise ValueError(f"the name {str(name)[:40]!a} is in a map twice")
                found[str(name)] = plain_item(value)
            return found
        case list():
            return [plain_item(one) for one in item]
        case cbor.Tagged():
            return plain_item(item.value)
        case cbor.Simple():
            return None
        case _:
            return item
