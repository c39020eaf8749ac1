"""A strict, bounded JSON5 reader, for configuration files.

It reads all of JSON5 (comments, trailing commas, unquoted keys, single quotes, hexadecimal,
`Infinity`) and refuses the rest with line, column, what was seen and what was legal. Names must be
unique. Length, depth and number of values are bounded by `elea.limits`, and depth is bounded below
what recursion could cost.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn, TypeAlias

from elea.errors import ConfigError, LimitError
from elea.limits import DEFAULT_LIMITS, Limits

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_NUMBER_LEN_MAX: Final = 64  # digits; the longest double needs fewer
_BLANKS: Final = re.compile(
    r"[\t\v\f \u00a0\ufeff\n\r\u2028\u2029\u1680\u2000-\u200a\u202f\u205f\u3000]*"
)
_LINE_COMMENT: Final = re.compile(r"//[^\n\r\u2028\u2029]*")
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX](?P<hex>[0-9a-fA-F]+)"
    r"|(?P<word>Infinity|NaN)"
    r"|(?P<float>(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|(?:0|[1-9][0-9]*)[eE][+-]?[0-9]+)"
    r"|(?P<int>0|[1-9][0-9]*))"
)
_WORD: Final = re.compile(r"[\w$\u200c\u200d]+")
_PLAIN: Final = {
    '"': re.compile(r'[^"\\\n\r]*'),
    "'": re.compile(r"[^'\\\n\r]*"),
}
_LITERALS: Final[dict[str, Json]] = {"null": None, "true": True, "false": False}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LINE_ENDS: Final = ("\r\n", "\n", "\r", "\u2028", "\u2029")
_HEX: Final = re.compile(r"[0-9a-fA-F]+")


def loads(text: str, limits: Limits = DEFAULT_LIMITS) -> Json:
    """The value of a JSON5 text.

    Raises:
        ConfigError: with line and column, if the text is no JSON5.
        LimitError: if it is longer, deeper or larger than the limits allow.

    Example:
        >>> loads("{mode: 'peer', /* why */ id: 0x1F,}")
        {'mode': 'peer', 'id': 31}
    """
    if len(text) > limits.config_len:
        raise LimitError("config_len", len(text), limits.config_len)
    reader = _Reader(text, limits)
    value = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        reader.refuse("the end of the text")
    return value


def join_surrogates(text: str) -> str:
    """The text with escaped pairs, such as \\ud83d\\ude00, as the characters they mean.

    Raises:
        UnicodeDecodeError: if there is half of a pair alone, which is no character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16")


class _Reader:
    """A cursor over the text; every method leaves it behind what it read."""

    __slots__ = ("at", "limits", "nodes_count", "text")

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.at = 0
        self.nodes_count = 0

    def refuse(self, expected: str, at: int | None = None) -> NoReturn:
        offset = self.at if at is None else at
        before = self.text[:offset]
        line = before.count("\n") + 1
        column = offset - (before.rfind("\n") + 1) + 1
        # One character and no more: what stands there may be a password without its quotes.
        seen = f"{self.text[offset]!a}" if offset < len(self.text) else "the end of the text"
        raise ConfigError("", f"line {line}, column {column}: saw {seen}, expected {expected}")

    def skip(self) -> None:
        while True:
            self.at = _end(_BLANKS.match(self.text, self.at))
            if self.text.startswith("//", self.at):
                self.at = _end(_LINE_COMMENT.match(self.text, self.at))
            elif self.text.startswith("/*", self.at):
                closing = self.text.find("*/", self.at + 2)
                if closing < 0:
                    self.refuse("'*/' at the end of the comment")
                self.at = closing + 2
            else:
                return

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Json:
        if depth > self.limits.config_depth:
            raise LimitError("config_depth", depth, self.limits.config_depth)
        self.nodes_count += 1
        if self.nodes_count > self.limits.config_nodes_count:
            raise LimitError("config_nodes_count", self.nodes_count, self.limits.config_nodes_count)
        first = self.peek()
        if first == "{":
            return self.object(depth)
        if first == "[":
            return self.array(depth)
        if first in ('"', "'"):
            return self.string()
        word = _WORD.match(self.text, self.at)
        if word and word[0] in _LITERALS:
            self.at = word.end()
            return _LITERALS[word[0]]
        return self.number()

    def object(self, depth: int) -> dict[str, Json]:
        members: dict[str, Json] = {}
        self.at += 1
        while self.peek() != "}":
            at = self.at
            name = self.name()
            if name in members:
                self.refuse(f"another name; {name[:40]!a} is already there", at)
            if self.peek() != ":":
                self.refuse("':' after the name")
            self.at += 1
            members[name] = self.value(depth + 1)
            self.separator("}")
        self.at += 1
        return members

    def array(self, depth: int) -> list[Json]:
        items: list[Json] = []
        self.at += 1
        while self.peek() != "]":
            items.append(self.value(depth + 1))
            self.separator("]")
        self.at += 1
        return items

    def separator(self, closing: str) -> None:
        following = self.peek()
        if following == ",":
            self.at += 1
        elif following != closing:
            self.refuse(f"',' or '{closing}'")

    def name(self) -> str:
        if self.text[self.at : self.at + 1] in ('"', "'"):
            return self.string()
        start = self.at
        name = ""
        while True:
            word = _WORD.match(self.text, self.at)
            if word:
                name += word[0]
                self.at = word.end()
            elif self.text.startswith("\\u", self.at):
                self.at += 2
                name += chr(self.hex(4))
            else:
                break
        # The standard's identifiers are Python's, plus $ and two invisible joiners.
        plain = name.replace("$", "_").replace("\u200c", "").replace("\u200d", "")
        if not plain.isidentifier():
            self.refuse("a name, quoted if it is no identifier, or '}'", start)
        return name

    def string(self) -> str:
        start = self.at
        quote = self.text[self.at]
        self.at += 1
        parts = []
        while True:
            end = _end(_PLAIN[quote].match(self.text, self.at))
            parts.append(self.text[self.at : end])
            self.at = end
            following = self.text[self.at : self.at + 1]
            if following == quote:
                self.at += 1
                break
            if following != "\\":
                self.refuse(f"{quote} at the end of the text")
            self.at += 1
            parts.append(self.escape())
        try:
            return join_surrogates("".join(parts))
        except UnicodeDecodeError:
            self.refuse("no lone surrogate in the text", start)

    def escape(self) -> str:
        for line_end in _LINE_ENDS:
            if self.text.startswith(line_end, self.at):
                self.at += len(line_end)
                return ""
        character = self.text[self.at : self.at + 1]
        self.at += 1
        if character == "x":
            return chr(self.hex(2))
        if character == "u":
            return chr(self.hex(4))
        if character == "0" and not self.text[self.at : self.at + 1].isdecimal():
            return "\0"
        if not character or character.isdecimal():
            self.refuse("an escape such as \\n, \\u0041 or \\'", self.at - 1)
        return _ESCAPES.get(character, character)

    def hex(self, digits_count: int) -> int:
        digits = self.text[self.at : self.at + digits_count]
        if len(digits) != digits_count or not _HEX.fullmatch(digits):
            self.refuse(f"{digits_count} hexadecimal digits")
        self.at += digits_count
        return int(digits, 16)

    def number(self) -> int | float:
        start = self.at
        match = _NUMBER.match(self.text, start)
        if match is None:
            self.refuse("a value: an object, a list, a text, a number, true, false or null")
        if len(match[0]) > _NUMBER_LEN_MAX:
            self.refuse(f"a number of at most {_NUMBER_LEN_MAX} digits", start)
        self.at = match.end()
        if _WORD.match(self.text, self.at):
            self.refuse("the end of the number")
        sign = -1 if match[0].startswith("-") else 1
        if match["hex"]:
            return sign * int(match["hex"], 16)
        if match["word"]:
            return sign * float("nan" if match["word"] == "NaN" else "inf")
        if match["float"]:
            return sign * float(match["float"])
        return sign * int(match["int"])


def _end(match: re.Match[str] | None) -> int:
    assert match is not None  # the patterns match the empty text, or what was looked at before
    return match.end()
