"""CBOR: as plain values, as JSON, and as text for people.

`plain_value` gives what Python has, `to_json` the JSON that section 6.1 of RFC 8949 advises,
`diagnose` its diagnostic notation, indented.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Final

from elea.cbor import Item, Map, Simple, Tagged, loads
from elea.json5 import Json

_READ_LEN_MAX: Final = 1 << 20
_SHOWN_LEN_MAX: Final = 512  # octets of one byte string; what follows is counted


def read(payload: bytes) -> object:
    """The value of a payload, for predicates.

    Raises:
        ValueError: it is no item of CBOR, or a name is in a map twice.
    """
    return plain_value(loads(payload))


def json_value(payload: bytes) -> Json:
    """A payload as JSON; raises as `to_json`, and ValueError if it is no item, or too long."""
    if len(payload) > _READ_LEN_MAX:
        raise ValueError(f"longer than {_READ_LEN_MAX} bytes")
    return to_json(loads(payload))


def notation(payload: bytes) -> str:
    """A payload in diagnostic notation, indented; ValueError if it is no item of CBOR."""
    return diagnose(loads(payload))


def plain_value(item: Item, *, by_text: bool = False) -> object:
    """An item as dicts, lists and scalars; tags are dropped, and what is not a number is None.

    Args:
        by_text: Names become texts, as columns have them, and one of which no text can be made is
            an error; else integers stay integers, and pairs with other names are left out.

    Raises:
        ValueError: a name is in a map twice.
    """
    match item:
        case Map():
            found: dict[object, object] = {}
            for name, value in item.pairs:
                if not isinstance(name, (str, int)) or isinstance(name, bool):
                    if by_text:
                        raise ValueError("the name in a map is neither text nor integer")
                    continue
                known = str(name) if by_text else name
                if known in found:
                    raise ValueError(f"the name {str(name)[:40]!a} is in a map twice")
                found[known] = plain_value(value, by_text=by_text)
            return found
        case list():
            return [plain_value(one, by_text=by_text) for one in item]
        case Tagged():
            return plain_value(item.value, by_text=by_text)
        case Simple():
            return None
        case _:
            return item


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
