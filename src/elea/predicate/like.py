"""LIKE: patterns where `%` or `*` is any sequence and `_` or `?` any one character.

A pattern is cut at its `%`. What is between is looked for from left to right, each piece as early
as it can be: no other choice finds more, so nothing is ever tried again. A piece without `_` is
looked for in linear time; one with `_` costs its length times the text's, and has a budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

Matcher: TypeAlias = Callable[[str], bool | None]

_CANONICAL: Final = str.maketrans("*?", "%_")
_DATA_PATTERNS_COUNT: Final = 64  # patterns that came with data, kept ready


def canonical_pattern(pattern: str) -> str:
    """The pattern with `%` and `_` alone.

    Example:
        >>> canonical_pattern("a*b?")
        'a%b_'
    """
    return pattern.translate(_CANONICAL)


def matcher(pattern: str, budget: int) -> Matcher:
    """Whether a text is like a pattern; None if finding out may cost more than `budget`.

    Example:
        >>> is_like = matcher("m%_s_c%", 1_000)
        >>> is_like("music"), is_like("muc"), is_like("mu" * 1_000)
        (True, False, None)
    """
    pattern = canonical_pattern(pattern)
    if "_" not in pattern:
        return _literal_matcher(pattern.split("%"))
    pieces = pattern.split("%")
    if len(pieces) == 1:  # one place to look at
        return _fixed_matcher(pattern)
    return _general_matcher(pieces, budget)


@lru_cache(_DATA_PATTERNS_COUNT)
def cached_matcher(pattern: str, budget: int) -> Matcher:
    """The same, for patterns that come with the data."""
    return matcher(pattern, budget)


def _literal_matcher(pieces: list[str]) -> Matcher:
    first, *middle, last = pieces if len(pieces) > 1 else [pieces[0], pieces[0]]
    if len(pieces) == 1:
        return lambda text: text == first
    middle = [piece for piece in middle if piece]
    if not middle and not last:
        return lambda text: text.startswith(first)
    if not middle and not first:
        return lambda text: text.endswith(last)
    if middle and not first and not last and len(middle) == 1:
        [only] = middle
        return lambda text: only in text

    def is_like(text: str) -> bool:
        if not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in middle:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return at <= end

    return is_like


def _fixed_matcher(pattern: str) -> Matcher:
    whole = _expression(pattern)
    return lambda text: whole.fullmatch(text) is not None


def _general_matcher(pieces: list[str], budget: int) -> Matcher:
    first, last = _expression(pieces[0]), _expression(pieces[-1])
    first_len, last_len = len(pieces[0]), len(pieces[-1])
    middle = [(_expression(piece), len(piece)) for piece in pieces[1:-1] if piece]
    # Pieces are looked for in what those before them left over: together they cost no more than
    # the longest of them all over the text, and each once more where it is found.
    longest = max((length for _, length in middle), default=0)

    def is_like(text: str) -> bool | None:
        at, end = first_len, len(text) - last_len
        if at > end or first.match(text) is None or last.match(text, end) is None:
            return False
        if longest * len(text) > budget:
            return None
        for expression, length in middle:
            found = expression.search(text, at, end)
            if found is None:
                return False
            at = found.start() + length
        return at <= end

    return is_like


def _expression(piece: str) -> re.Pattern[str]:
    """A piece as a regular expression of fixed length: no repetition, nothing to go back to."""
    return re.compile(".".join(map(re.escape, piece.split("_"))), re.DOTALL)
