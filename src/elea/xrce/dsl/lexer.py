"""Words and signs of the language, each with its offset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from elea.xrce.dsl.model import refusal

KEYWORDS: Final = frozenset(
    ("nat", "byte", "header", "flag", "enum", "record", "case", "of", "if", "then")
)

_PATTERN: Final = re.compile(
    r"""(?:\s|--[^\n]*)*+(?:
      (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
    | (?P<number> [0-9]+ )
    | (?P<sign>   \.\.\. | -> | [=\[\]{},:] )
    | (?P<other>  \S )
    | (?P<end>    \Z ) )
    """,
    re.VERBOSE,
)
_NUMBER_LEN_MAX: Final = 20  # digits of 2^64


class Token(Enum):
    """What a piece of text can be."""

    NAME = auto()
    NUMBER = auto()
    WORD = auto()  # a keyword or a sign
    END = auto()


@dataclass(slots=True, frozen=True)
class Lexeme:
    """One token: what it is, what it says and where."""

    token: Token
    text: str
    at: int

    @property
    def shown(self) -> str:
        """The token for a complaint."""
        return "the end" if self.token is Token.END else ascii(self.text)


def lexemes(source: str) -> list[Lexeme]:
    """All tokens, the end included.

    Example:
        >>> [lexeme.text for lexeme in lexemes("a = [byte] -- octets")]
        ['a', '=', '[', 'byte', ']', '']
    """
    found = []
    at = 0
    while True:
        match = _PATTERN.match(source, at)
        assert match is not None  # whatever is there is `other`, and if nothing is, it is the end
        kind = match.lastgroup
        assert kind is not None
        start, at = match.span(kind)
        text = source[start:at]
        if kind == "other":
            legal = "names, numbers, ... -> = [ ] { } , : and comments after --"
            raise refusal(source, start, f"{text!a} means nothing here; there are {legal}")
        if kind == "number" and len(text) > _NUMBER_LEN_MAX:
            raise refusal(source, start, f"a number of {len(text)} digits; 2^64 has 20")
        token = Token.NUMBER if kind == "number" else Token.WORD
        if kind == "name" and text not in KEYWORDS:
            token = Token.NAME
        found.append(Lexeme(Token.END if kind == "end" else token, text, start))
        if kind == "end":
            return found
