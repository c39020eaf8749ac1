"""Names and keys: topics and partitions of DDS as key expressions, and back (dds.md 4).

Nothing here reads DDS or a session. `escape_name` and `unescape_name` are inverse to each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

from elea.errors import InvalidValueError, KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr

KEY_LEN_MAX: Final = 1_024
_EMPTY_CHUNK: Final = "%2F"
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f#$?*]|%(?=[0-9A-Fa-f]{2})|^@")
_HEX: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_WILD: Final = re.compile(r"[*?]")
_SINGLE_MARKS_MAX: Final = 3  # a pattern with more `?` is subscribed as if it had a `*`


def escape_name(name: str) -> str:
    """Return a topic or partition name as chunks of a key (D-105).

    Example:
        >>> escape_name("/a//b?"), escape_name("@x/100%41")
        ('%2F/a/%2F/b%3F', '%40x/100%2541')
    """
    return "/".join(escape_chunk(chunk) for chunk in name.split("/"))


def escape_chunk(chunk: str) -> str:
    """Return one chunk of a name, which holds no slash, as one chunk of a key."""
    if not chunk:
        return _EMPTY_CHUNK
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", chunk)


def unescape_name(key: str) -> str:
    """Return the name that `escape_name` made these chunks of.

    Example:
        >>> unescape_name("%2F/a/b%3F")
        '/a/b?'
    """
    return "/".join(
        "" if chunk == _EMPTY_CHUNK else _HEX.sub(lambda found: chr(int(found[1], 16)), chunk)
        for chunk in key.split("/")
    )


@dataclass(frozen=True, slots=True)
class Names:
    """How names become keys.

    Args:
        scope: A prefix of all keys; empty for none.
        separator: What stands for `/` in partitions (D-104); empty: nothing does.

    Example:
        >>> Names("robot7").key("p1", "T"), Names().key("", "T")
        ('robot7/p1/T', 'T')
    """

    scope: str = ""
    separator: str = ""

    def key(self, partition: str, topic: str) -> str:
        """Return the key of a topic in a concrete partition (D-101 to D-103).

        Raises:
            InvalidValueError: The names make no key, or one that exceeds `KEY_LEN_MAX`.
        """
        parts = [self.scope] if self.scope else []
        if partition:
            parts.append(escape_name(self._chunks(partition)))
        parts.append(escape_name(topic))
        return checked_key("/".join(parts))

    def selectors(self, partition: str, topic: str) -> tuple[str, ...]:
        """Return the key expressions of a reader's partition, which may be a pattern (D-107)."""
        if not is_pattern(partition):
            return (self.key(partition, topic),)
        prefix = f"{self.scope}/" if self.scope else ""
        end = escape_name(topic)
        found = [checked_expr(f"{prefix}{chunks}/{end}") for chunks in _pattern_chunks(partition)]
        return tuple(dict.fromkeys(found))

    def partition_of(self, key: str, topic: str) -> str | None:
        """Return the partition in a key of this topic; None if the key is not of this topic."""
        inner = key
        if self.scope:
            if not key.startswith(f"{self.scope}/"):
                return None
            inner = key[len(self.scope) + 1 :]
        end = escape_name(topic)
        if inner == end:
            return ""
        if not inner.endswith(f"/{end}"):
            return None
        name = unescape_name(inner[: -len(end) - 1])
        return name.replace("/", self.separator) if self.separator else name

    def _chunks(self, partition: str) -> str:
        return partition.replace(self.separator, "/") if self.separator else partition


def checked_key(key: str) -> str:
    """Return a key that holds no wildcard.

    Raises:
        InvalidValueError: It is none, or exceeds `KEY_LEN_MAX`.
    """
    if "*" in key:
        raise InvalidValueError("DDS name", f"{key[:60]!a} has a wildcard")
    return checked_expr(key)


def checked_expr(key: str) -> str:
    """Return a key expression in its canonical form; raises as `checked_key`."""
    try:
        length = len(key.encode())
        if length > KEY_LEN_MAX:
            reason = f"the key {key[:60]!a}... exceeds {KEY_LEN_MAX} bytes ({length})"
            raise InvalidValueError("DDS name", reason)
        return str(KeyExpr.autocanonize(key))
    except (KeyExprError, LimitError, UnicodeEncodeError) as error:
        raise InvalidValueError("DDS name", f"{key[:60]!a} is no key: {error}") from None


def is_pattern(partition: str) -> bool:
    """Whether a partition name stands for several partitions."""
    return _WILD.search(partition) is not None


def pattern_matches(pattern: str, partition: str) -> bool:
    """Whether a concrete partition is one of a pattern; `*` and `?` match slashes, too.

    Example:
        >>> pattern_matches("a?c", "a/c"), pattern_matches("a*", "b"), pattern_matches("*", "")
        (True, False, True)
    """
    return _compiled(pattern).fullmatch(partition) is not None


def concrete_of(pattern: str) -> str:
    """Return one partition that a pattern matches (D-108)."""
    return _WILD.sub("_", pattern)


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile(
        "".join(parts[one] if one in parts else re.escape(one) for one in pattern), re.DOTALL
    )


def _pattern_chunks(pattern: str) -> list[str]:
    """Chunks that include every partition of a pattern, for the front of a topic's chunks."""
    marks = pattern.count("?")
    if "*" not in pattern and marks <= _SINGLE_MARKS_MAX:
        texts = pattern.split("?")
        found = []
        for signs in product(("?", "/"), repeat=marks):
            name = "".join(text + sign for text, sign in zip(texts, (*signs, ""), strict=True))
            if all(name.split("/")):  # an empty chunk is spelled otherwise, and rare
                found.append("/".join(_single_chunk(chunk) for chunk in name.split("/")))
            else:
                return [_open_chunks(pattern)]
        return found
    return [_open_chunks(pattern)]


def _single_chunk(chunk: str) -> str:
    """A chunk of a pattern, `?` as any characters of the chunk: the exact test follows."""
    if set(chunk) == {"?"}:
        return "*"
    return "$*".join(escape_chunk(part) if part else "" for part in re.split(r"\?+", chunk))


def _open_chunks(pattern: str) -> str:
    """The literal begin of a pattern, then anything."""
    begin = _WILD.split(pattern, maxsplit=1)[0]
    chunks = begin.split("/")
    last = chunks.pop()
    front = [escape_chunk(chunk) for chunk in chunks]
    if last:
        front.append(f"{escape_chunk(last)}$*")
    return "/".join([*front, "**"])
