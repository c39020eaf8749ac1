"""Names of resources: spelling, canonical form, matching, and the keys they are (2).

`?` is one character, `*` any number of them, neither ever `/`; `**` is any number of any. They are
about characters and may stand anywhere in a name, unlike the wildcards of key expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from elea.errors import InvalidValueError

NAME_LEN_MAX: Final = 1_024
_PCHAR: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!&'()+,;=:@"
)
_FORBIDDEN: Final = frozenset("*$#?/")  # in a key, however they were written
_MARKER: Final = re.compile(r"[A-Za-z0-9._-]+")
_WILD_RUN: Final = re.compile(r"[*?]+")
_TOKEN: Final = re.compile(r"\*\*|.", re.DOTALL)


class Style(Enum):
    """How a peer spells names; the value is what goes in front of the path."""

    XRCE = "xrce://"
    ZENOH = "zenoh://"
    BARE = "/"


@dataclass(slots=True, frozen=True)
class Resource:
    """A path in canonical form and its markers, unique and sorted."""

    path: str
    markers: tuple[str, ...] = ()

    @property
    def is_trivial(self) -> bool:
        """Whether it is one resource rather than a set of them."""
        return "*" not in self.path and "?" not in self.path

    def spelled(self, style: Style = Style.XRCE) -> str:
        """The text of it, as a peer with this style writes names."""
        text = style.value + self.path
        if len(self.markers) == 1:
            return f"{text}#{self.markers[0]}"
        return f"{text}#{{{','.join(self.markers)}}}" if self.markers else text

    def matches(self, other: Resource) -> bool:
        """Whether some trivial resource belongs to both; markers have no part in it."""
        return match(self.path, other.path)


def parse(text: str) -> Resource:
    """Read a name in any spelling.

    Raises:
        InvalidValueError: It is none, or one that no key can be.

    Example:
        >>> parse("/lab/b**?#{transient}").spelled()
        'xrce://lab/b?**#transient'
    """
    if len(text) > NAME_LEN_MAX:
        raise _refuse(text, f"{len(text)} characters, at most {NAME_LEN_MAX} are legal")
    style = style_of(text)
    if style is None:
        raise _refuse(text, "it starts with none of xrce://, zenoh://, / and **")
    rest = text if text.startswith("**") else text[len(style.value) :]
    path, mark, markers = rest.partition("#")
    names = [_canonical_name(name, text) for name in path.split("/")]
    return Resource("/".join(names), _markers(markers, text) if mark else ())


def style_of(text: str) -> Style | None:
    """How a text spells its name."""
    if text.startswith("**"):
        return Style.BARE
    return next((one for one in Style if text[: len(one.value)].lower() == one.value), None)


def from_key(key: str) -> Resource:
    """The trivial resource that a key is."""
    return Resource("/".join(_escaped(chunk.encode()) for chunk in key.split("/")))


def to_key(resource: Resource) -> str:
    """The key that a trivial resource is.

    Example:
        >>> to_key(parse("/a%20b/caf%c3%a9"))
        'a b/café'
    """
    if not resource.is_trivial:
        raise _refuse(resource.path, "it has wildcards, so it is no key")
    return "/".join(_unescaped(name, resource.path).decode() for name in resource.path.split("/"))


def _markers(text: str, whole: str) -> tuple[str, ...]:
    if not text:
        return ()
    braced = text.startswith("{") and text.endswith("}")
    markers = text[1:-1].split(",") if braced else [text]
    for marker in markers:
        if not _MARKER.fullmatch(marker):
            legal = "letters, digits, - _ and ."
            raise _refuse(whole, f"{marker!a} is no marker; legal are {legal}")
    return tuple(sorted(set(markers)))


def _canonical_name(name: str, whole: str) -> str:
    if name in ("", ".", ".."):
        raise _refuse(whole, "a name in it is empty, . or ..")
    pieces = []
    at = 0
    for run in _WILD_RUN.finditer(name):
        pieces += [_literal(name[at : run.start()], whole), _wild(run[0])]
        at = run.end()
    return "".join([*pieces, _literal(name[at:], whole)])


def _literal(text: str, whole: str) -> str:
    return _escaped(_unescaped(text, whole))


def _wild(run: str) -> str:
    """A run of wildcards: the single characters first, then at most one star of either kind.

    `*?*` is `?*`: stars that a `?` keeps apart do not become one that crosses names.
    """
    tokens = _TOKEN.findall(run)
    star = "**" if "**" in tokens else "*" if "*" in tokens else ""
    return "?" * tokens.count("?") + star


def _unescaped(text: str, whole: str) -> bytes:
    out = bytearray()
    at = 0
    while at < len(text):
        char = text[at]
        if char == "%":
            digits = text[at + 1 : at + 3]
            if not re.fullmatch(r"[0-9A-Fa-f]{2}", digits):
                raise _refuse(whole, f"%{digits} is no escape; legal is % and two hex digits")
            out.append(int(digits, 16))
            at += 3
            continue
        if ord(char) > 0x7F or ord(char) not in _PCHAR:
            raise _refuse(whole, f"{char!a} has to be escaped, or cannot be in a name")
        out += char.encode()
        at += 1
    try:
        said = out.decode("utf-8")
    except UnicodeDecodeError:
        raise _refuse(whole, "its escapes are not UTF-8") from None
    if any(char in _FORBIDDEN or ord(char) < 0x20 or ord(char) == 0x7F for char in said):
        raise _refuse(whole, "an escape stands for * $ # ? / or a control character")
    return bytes(out)


def _escaped(octets: bytes) -> str:
    return "".join(chr(one) if one in _PCHAR else f"%{one:02X}" for one in octets)


def _refuse(text: str, reason: str) -> InvalidValueError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return InvalidValueError(f"resource {shown!a}", reason)


# Matching.


@dataclass(slots=True, frozen=True)
class _Pattern:
    """A path as signs, and for what a character can be, the places that admit it as bits."""

    signs: tuple[str, ...]
    stars: int
    singles: int  # places of one character, `?` included
    slashes: int  # places of the literal `/`
    admits: dict[str, int]  # by literal: places that admit it, stars included

    def admitting(self, char: str) -> int:
        found = self.admits.get(char)
        return self.admits["/" if char == "/" else ""] if found is None else found


def match(left: str, right: str) -> bool:
    """Whether two canonical paths have a trivial path in common.

    All places of `right` that can be reached together with one place of `left` are the bits of one
    number, so that a row of the product is a few operations and hostile patterns cost little (2.3).
    """
    if left == right:
        return True
    one, other = _pattern(left), _pattern(right)
    reached = 1
    for sign in one.signs:
        if not reached:
            return False
        if sign == "*":
            # It takes any characters but `/` of the other's, then none.
            reached = _closure(reached, other.stars | other.singles & ~other.slashes)
        elif sign == "**":
            reached = _closure(reached, other.stars | other.singles)
        else:
            reached = _closure(reached, other.stars)
            if sign == "?":
                admitted = reached & (other.stars | other.singles & ~other.slashes)
            else:
                admitted = reached & other.admitting(sign)
            # A star of the other's may take one more; a single character is used up.
            reached = admitted & other.stars | (admitted & other.singles) << 1
    reached = _closure(reached, other.stars)
    return bool(reached >> len(other.signs) & 1)


def _closure(reached: int, passable: int) -> int:
    """From every place, on to the next as long as the place may be passed: one carry per run."""
    return reached | ((passable + (reached & passable)) ^ passable)


@lru_cache(maxsize=1_024)
def _pattern(path: str) -> _Pattern:
    signs = tuple(_signs(path))
    stars = singles = slashes = doubles = questions = 0
    literals: dict[str, int] = {}
    for place, sign in enumerate(signs):
        bit = 1 << place
        if sign in ("*", "**"):
            stars |= bit
            doubles |= bit if sign == "**" else 0
            continue
        singles |= bit
        if sign == "?":
            questions |= bit
        else:
            literals[sign] = literals.get(sign, 0) | bit
    slashes = literals.get("/", 0)
    admits = {
        sign: bits | (doubles if sign == "/" else stars | questions)
        for sign, bits in literals.items()
    }
    admits.setdefault("/", doubles)
    admits[""] = stars | questions  # a character that is nowhere in the path
    return _Pattern(signs, stars, singles, slashes, admits)


def _signs(path: str) -> list[str]:
    """Characters, escapes as one, and `**` as one."""
    return re.findall(r"\*\*|%[0-9A-F]{2}|.", path)
