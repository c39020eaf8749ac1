"""Patterns of devices as key expressions, and the keys that patterns are about (18.1).

Wildcards of devices stand for characters, those of key expressions for chunks. Most patterns have
key expressions that mean exactly the same; where not, a wider one is used and samples are held
against the pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from elea.errors import KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.xrce.names import Resource, match, to_key

EXPRESSIONS_COUNT_MAX: Final = 8  # of one pattern; beyond, one that covers them all
_PIECE: Final = re.compile(r"\*\*|[*?]|[^*?]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")  # a path that is its own key
_INSIDE: Final = "$*"
_VERBATIM: Final = "@"


@lru_cache(maxsize=1_024)
def key_expressions(path: str) -> tuple[str, ...]:
    """Key expressions that together match at least what the pattern does, and seldom more.

    Example:
        >>> key_expressions("a**b/c"), key_expressions("house/**"), key_expressions("a/?/b")
        (('a$*b/c', 'a$*/**/$*b/c'), ('house/*/**',), ('a/*/b',))
    """
    if _PLAIN.fullmatch(path):
        return (path,)  # the same text, so that it is there once
    unions = [_chunk(chunk) for chunk in path.split("/")]
    count = 1
    for union in unions:
        count *= len(union)
    if count > EXPRESSIONS_COUNT_MAX:
        unions = [[_cover(union)] for union in unions]
    found = [""]
    for union in unions:
        found = [f"{before}/{one}" for before in found for one in union]
    return tuple(dict.fromkeys(one for text in found if (one := _canonical(text[1:]))))


def selects(pattern: str, path: str) -> bool:
    """Whether a path belongs to a pattern. Chunks that begin with @ are matched by themselves only.

    Example:
        >>> selects("**", "a/b"), selects("**", "@xrce/rid/2"), selects("@xrce/**", "@xrce/rid/2")
        (True, False, True)
    """
    if pattern == path:
        return True
    if _VERBATIM not in path and _VERBATIM not in pattern:
        return match(pattern, path)
    wanted, wanted_between = _verbatim(pattern)
    found, found_between = _verbatim(path)
    return wanted == found and all(
        match(left, right) for left, right in zip(wanted_between, found_between, strict=True)
    )


def _verbatim(path: str) -> tuple[list[str], list[str]]:
    """The chunks that begin with @, and what stands around them."""
    chunks: list[str] = []
    between = [""]
    for number, chunk in enumerate(path.split("/")):
        between[-1] += "/" if number else ""
        if chunk.startswith(_VERBATIM):
            chunks.append(chunk)
            between.append("")
        else:
            between[-1] += chunk
    return chunks, between


def _chunk(chunk: str) -> list[str]:
    """The key expressions of one chunk, of which each may be several chunks."""
    pieces = _PIECE.findall(chunk)
    if "**" not in pieces:
        return [_literal(pieces)]
    parts: list[list[str]] = [[]]  # what stands between the double stars
    for piece in pieces:
        if piece == "**":
            parts.append([])
        else:
            parts[-1].append(piece)
    # Each double star stays in its chunk, or ends it, passes any number, and begins another one.
    found = [_literal(parts[0])]
    for number, part in enumerate(parts[1:], 1):
        text = _literal(part)
        last = number == len(parts) - 1
        if last and not text:
            found = [f"{before}$*/**" for before in found]
        elif number == 1 and not found[0]:
            found = [f"**/$*{text}"]
        else:
            found = [
                one for before in found for one in (f"{before}$*{text}", f"{before}$*/**/$*{text}")
            ]
            if len(found) > EXPRESSIONS_COUNT_MAX:
                return [_cover(found)]
    return found


def _cover(union: list[str]) -> str:
    """One for all: they begin the same, up to the first double star."""
    if len(union) == 1:
        return union[0]
    return union[0].partition(_INSIDE)[0] + "$*/**"


def _literal(pieces: list[str]) -> str:
    """Pieces without a double star: wildcards inside of one chunk, the rest without escapes."""
    return "".join(_INSIDE if piece[0] in "*?" else to_key(Resource(piece)) for piece in pieces)


def _canonical(text: str) -> str:
    """The canonical key expression; none if no key can be like it."""
    chunks = ["*" if re.fullmatch(r"(\$\*)+", chunk) else chunk for chunk in text.split("/")]
    squeezed = re.sub(r"(?:\$\*)+", "$*", "/".join(chunks))
    try:
        return str(KeyExpr.autocanonize(squeezed))
    except KeyExprError:
        return ""
