"""Key expressions as an equi-join, for Spark without Python workers.

A shape says which chunks of an expression are literal. Expressions of one shape match a key if
those chunks of the key, joined into one text, equal theirs: an equality, which Spark hashes. What
equality cannot say, `$*` inside a chunk and chunks between two `**`, is left to a regular
expression over the few pairs that remain. Wildcards do not reach verbatim chunks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_CHUNK: Final = "(?!@)[^/]+"  # what `*` stands for
_REGEX_SIGNS: Final = re.compile(r"([\\.\[\]{}()+*?^$|\-&~#])")


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """Where the literal chunks are."""

    head: tuple[int, ...]  # of the chunks before the first `**`: those that are literal
    tail: tuple[int, ...]  # of the chunks behind the last `**`, counted from the end, from 1
    least: int  # chunks that a key has at least
    exact: bool  # and at most, as there is no `**`


@dataclass(frozen=True, slots=True)
class Shaped:
    """An expression: its shape, the text of its literal chunks, and what is still to be checked."""

    shape: Shape
    literal: str
    is_exact: bool  # for keys without verbatim chunks, its shape and literal chunks say all
    regex: str


def shaped(expression: str) -> Shaped:
    """The shape of a canonical key expression.

    Example:
        >>> shaped("fleet/*/imu").shape
        Shape(head=(0, 2), tail=(), least=3, exact=True)
    """
    chunks = expression.split("/")
    doubles = [at for at, chunk in enumerate(chunks) if chunk == "**"]
    first = doubles[0] if doubles else len(chunks)
    last = doubles[-1] if doubles else len(chunks)
    head = tuple(at for at in range(first) if _is_literal(chunks[at]))
    tail = tuple(len(chunks) - at for at in range(last + 1, len(chunks)) if _is_literal(chunks[at]))
    literal = "/".join(
        [*(chunks[at] for at in head), *(chunks[len(chunks) - back] for back in tail)]
    )
    shape = Shape(head, tail, len(chunks) - len(doubles), not doubles)
    sub_wild = any("$*" in chunk and not _is_literal(chunk) for chunk in chunks)
    return Shaped(shape, literal, not sub_wild and len(doubles) < 2, _regex(chunks))


def _is_literal(chunk: str) -> bool:
    return chunk[0] == "@" or "*" not in chunk


def _regex(chunks: list[str]) -> str:
    """A regular expression for the whole key, in the syntax of Java and of Python.

    The key is read with a `/` in front of it, so that `**` is any number of chunks with theirs.
    """
    parts = []
    for chunk in chunks:
        if chunk == "**":
            parts.append(f"(?:/{_CHUNK})*")
        elif chunk == "*":
            parts.append(f"/{_CHUNK}")
        elif _is_literal(chunk):
            parts.append("/" + _quoted(chunk))
        else:
            parts.append("/(?!@)" + "[^/]*".join(map(_quoted, chunk.split("$*"))))
    return "^" + "".join(parts) + "$"


def _quoted(text: str) -> str:
    return _REGEX_SIGNS.sub(r"\\\1", text)
