"""CBOR payloads for people and for programs.

`diagnose` writes the diagnostic notation of RFC 8949, indented; `to_json` gives the JSON that its
section 6.1 advises.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Final

from elea.cbor import Item, Map, Simple, Tagged
from elea.operate.text import Json

_SHOWN_LEN_MAX: Final = 512  # octets of one byte string; what follows is counted


def diagnose(item: Item) -> str:
    """The item in diagnostic notation, indented like JSON.

    Example:
        >>> diagnose([1, b"a", Tagged(0, "2013"), math.inf]).splitlines()
        ['[', '  1,', "  h'61',", '  0("2013"),', '  Infinity', ']']
    """
    return "".join(_notation(item, 0))


def to_json(item: Item) -> Json:
    """The item as JSON: octets as base64url, tags dropped, what is no number as null.

    Raises:
        ValueError: a name in a map is no text, or is there twice.
    """
    match item:
        case bytes():
            return base64.urlsafe_b64encode(item).decode("ascii").rstrip("=")
        case list():
            return [to_json(one) for one in item]
        case Map():
            found: dict[str, Json] = {}
            for name, value in item.pairs:
                if not isinstance(name, str) or name in found:
                    raise ValueError("JSON names are texts, each there once")
                found[name] = to_json(value)
            return found
        case Tagged():
            return to_json(item.value)
        case Simple():
            return None
        case float():
            return item if math.isfinite(item) else None
        case _:
            return item


def _notation(item: Item, depth: int) -> Iterator[str]:
    match item:
        case list() if item:
            yield from _lines("[", [_notation(one, depth + 1) for one in item], "]", depth)
        case Map() if item.pairs:
            pairs = [_pair(name, value, depth + 1) for name, value in item.pairs]
            yield from _lines("{", pairs, "}", depth)
        case Tagged():
            yield f"{item.tag}("
            yield from _notation(item.value, depth)
            yield ")"
        case _:
            yield _atom(item)


def _lines(start: str, parts: list[Iterator[str]], end: str, depth: int) -> Iterator[str]:
    yield start
    for number, part in enumerate(parts):
        yield ",\n" if number else "\n"
        yield "  " * (depth + 1)
        yield from part
    yield "\n" + "  " * depth + end


def _pair(name: Item, value: Item, depth: int) -> Iterator[str]:
    yield from _notation(name, depth)
    yield ": "
    yield from _notation(value, depth)


def _atom(item: Item) -> str:
    match item:
        case bytes():
            more = len(item) - _SHOWN_LEN_MAX
            return f"h'{item[:_SHOWN_LEN_MAX].hex()}'" + (f" ...{more} more" if more > 0 else "")
        case Simple():
            return "undefined" if item.number == 23 else f"simple({item.number})"
        case list():
            return "[]"
        case Map():
            return "{}"
        case float() if not math.isfinite(item):
            return "NaN" if math.isnan(item) else ("Infinity" if item > 0 else "-Infinity")
        case _:
            return json.dumps(item, ensure_ascii=False)
