"""The relations exactly as wire.md 10.4 words them: slow, obvious, and written apart from `src`."""

from __future__ import annotations

from functools import cache


def intersects(a: str, b: str) -> bool:
    return _intersects(tuple(a.split("/")), tuple(b.split("/")))


@cache
def _intersects(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    if not a and not b:
        return True
    if not a or not b:
        return (a or b) == ("**",)
    if a[0] == "**":
        if len(a) == 1:
            return not _has_verbatim(b)
        return _intersects(a[1:], b) or (not _is_verbatim(b[0]) and _intersects(a, b[1:]))
    if b[0] == "**":
        return _intersects(b, a)
    return _chunks_intersect(a[0], b[0]) and _intersects(a[1:], b[1:])


def includes(a: str, b: str) -> bool:
    return _includes(tuple(a.split("/")), tuple(b.split("/")))


@cache
def _includes(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    if not a:
        return not b
    if a[0] == "**":
        if len(a) == 1:
            return not _has_verbatim(b)
        if _includes(a[1:], b):
            return True
        return bool(b) and not _is_verbatim(b[0]) and _includes(a, b[1:])
    if not b or b[0] == "**":
        return False
    return _chunk_includes(a[0], b[0]) and _includes(a[1:], b[1:])


def _is_verbatim(chunk: str) -> bool:
    return chunk.startswith("@")


def _has_verbatim(chunks: tuple[str, ...]) -> bool:
    return any(_is_verbatim(chunk) for chunk in chunks)


def _chunks_intersect(x: str, y: str) -> bool:
    if x == y:
        return True
    if _is_verbatim(x) or _is_verbatim(y):
        return False
    if x == "*" or y == "*":
        return True
    return _letters_intersect(tuple(_letters(x)), tuple(_letters(y)))


@cache
def _letters_intersect(x: tuple[str, ...], y: tuple[str, ...]) -> bool:
    if not x and not y:
        return True
    if x and x[0] == "$*":
        return _letters_intersect(x[1:], y) or (bool(y) and _letters_intersect(x, y[1:]))
    if y and y[0] == "$*":
        return _letters_intersect(y, x)
    return bool(x) and bool(y) and x[0] == y[0] and _letters_intersect(x[1:], y[1:])


def _letters(chunk: str) -> list[str]:
    """The characters of a chunk, each `$*` as one."""
    pieces = [list(piece) for piece in chunk.split("$*")]
    letters = pieces[0]
    for piece in pieces[1:]:
        letters += ["$*", *piece]
    return letters


def _chunk_includes(x: str, y: str) -> bool:
    if x == y:
        return True
    if _is_verbatim(x) or _is_verbatim(y):
        return False
    if x == "*":
        return True
    return "$*" in x and y != "*" and _letters_include(tuple(_letters(x)), tuple(_letters(y)))


@cache
def _letters_include(x: tuple[str, ...], y: tuple[str, ...]) -> bool:
    if not x:
        return not y
    if x[0] == "$*":
        return _letters_include(x[1:], y) or (bool(y) and _letters_include(x, y[1:]))
    return bool(y) and x[0] == y[0] and _letters_include(x[1:], y[1:])
