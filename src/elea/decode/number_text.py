"""Texts, and the numbers that they write."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(
    r"\s*(?:([+-]?[0-9]+)|[+-]?(?:[0-9]+|[0-9]*\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*"
)
_NUMBER_LEN_MAX: Final = 512  # a longer text is a text


def read(payload: bytes) -> object:
    """A number if the payload writes one, or else its text.

    Raises:
        ValueError: it is not UTF-8.

    Example:
        >>> read(b" 21.5 "), read(b"21.5 C")
        (21.5, '21.5 C')
    """
    text = payload.decode()
    match = _NUMBER.fullmatch(text) if len(text) <= _NUMBER_LEN_MAX else None
    if match is None:
        return text
    return int(match[1]) if match[1] else float(text)
