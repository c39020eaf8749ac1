"""Paths to what is inside a value: as they are written, and followed."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Step: TypeAlias = str | int  # a member's name, or a position
Path: TypeAlias = tuple[Step, ...]

KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "BETWEEN", "LIKE", "TRUE", "FALSE"})
_PLAIN_NAME: Final = re.compile(r"[^\W\d]\w*")


def follow(value: object, path: Path) -> object:
    """What is below a value; None where there is nothing.

    A position leads into lists, and into mappings whose names are numbers, as CBOR has them.
    """
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, (list, tuple)) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def path_text(path: Path) -> str:
    """A path as it is written: `loc.lat`, `tags[1]`, `"odd name"`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + name_text(step)
    return text


def name_text(name: str) -> str:
    """A name as it is written: in double quotes if it would not be read as one otherwise."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
