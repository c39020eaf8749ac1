"""JSON, strictly: NaN and Infinity are no JSON here, whatever Python's reader takes."""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn

from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS

_INDENT: Final = 2


def read(payload: bytes) -> object:
    """The value of a payload; of a name that is there twice, the last.

    Raises:
        ValueError: it is not UTF-8, or no JSON.
        RecursionError: it is nested too deeply for Python.
    """
    value: object = _JSON.decode(payload.decode())
    return value


def printable_value(payload: bytes) -> Json:
    """The value of a payload, if it can be printed as JSON again, indented or not.

    Raises:
        ValueError: it is no JSON, has a number that JSON cannot write, or is nested too deeply.
        RecursionError: as `read`.
    """
    value: Json = _PRINTABLE.decode(payload.decode())
    check_depth(value)  # indentation makes a deep text much longer than it was
    return value


def notation(payload: bytes) -> str:
    """A payload indented, for people; raises as `printable_value`."""
    return shown(printable_value(payload))


def shown(value: Json) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=_INDENT, ensure_ascii=False)


def check_depth(value: object, depth_max: int = DEFAULT_LIMITS.decode_depth) -> object:
    """A value that is not nested too deeply.

    Raises:
        ValueError: it is.
    """
    depth = 0
    level: list[object] = [value]
    while level:
        if depth > depth_max:
            raise ValueError(f"nested deeper than {depth_max}")
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = inner
        depth += 1
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond the numbers of JSON")
    return value


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_PRINTABLE: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
