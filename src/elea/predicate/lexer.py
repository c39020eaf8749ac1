"""Words and signs of predicates, one after the other, each with its offset.

Nothing is refused here: what is no token comes as one of kind `OTHER`, and whoever expected
something else says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from elea.predicate.model import KEYWORDS


class Token(Enum):
    """What a piece of text can be."""

    NAME = auto()
    KEYWORD = auto()
    QUOTED_NAME = auto()
    INTEGER = auto()
    FLOAT = auto()
    TEXT = auto()
    PARAMETER = auto()
    SIGN = auto()
    OTHER = auto()
    END = auto()


@dataclass(slots=True)
class Lexeme:
    """One token: what it is, what it says (quotes taken off, keywords in capitals), and where."""

    token: Token
    text: str
    at: int
    end: int
    shown: str


# Quotes are possessive: a text that does not end is not one that ended early. `.` starts a number
# only where no name or position went before, or `a.5` would be two operands.
_PATTERN: Final = re.compile(
    r"""
      (?P<hex>     [+-]?0[xX][0-9a-fA-F]+ )
    | (?P<float>   [+-]?(?: [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+
                          | (?<![\w"\]])\.[0-9]+(?:[eE][+-]?[0-9]+)? ) )
    | (?P<integer> [+-]?[0-9]+ )
    | (?P<name>    [^\W\d]\w* )
    | (?P<text>    '(?:[^']|'')*+' )
    | (?P<quoted>  "(?:[^"]|"")*+" )
    | (?P<parameter> %[0-9]{1,2} )
    | (?P<sign>    <> | != | <= | >= | [=<>()\[\],.] )
    """,
    re.VERBOSE,
)
_SPACE: Final = re.compile(r"\s*")
_SHOWN_LEN_MAX: Final = 24


def next_lexeme(text: str, at: int) -> Lexeme:
    """The first token at or after an offset.

    Example:
        >>> lexeme = next_lexeme("a  like 'it''s'", 7)
        >>> lexeme.token, lexeme.text, lexeme.at, lexeme.end
        (<Token.TEXT: 6>, "it's", 8, 15)
    """
    space = _SPACE.match(text, at)
    at = space.end() if space else at
    if at == len(text):
        return Lexeme(Token.END, "", at, at, "the end")
    match = _PATTERN.match(text, at)
    if match is None:
        return Lexeme(Token.OTHER, text[at], at, at + 1, _other(text, at))
    said = match[0]
    token, value = _classify(str(match.lastgroup), said)
    shown = said if len(said) <= _SHOWN_LEN_MAX else said[: _SHOWN_LEN_MAX - 3] + "..."
    return Lexeme(token, value, at, match.end(), ascii(shown))


def _classify(group: str, said: str) -> tuple[Token, str]:
    match group:
        case "name":
            # Only ASCII letters make keywords: 'lıke'.upper() is LIKE to Python, too.
            if said.isascii() and said.upper() in KEYWORDS:
                return Token.KEYWORD, said.upper()
            return Token.NAME, said
        case "text":
            return Token.TEXT, said[1:-1].replace("''", "'")
        case "quoted":
            return Token.QUOTED_NAME, said[1:-1].replace('""', '"')
        case "hex" | "integer":
            return Token.INTEGER, said
        case "float":
            return Token.FLOAT, said
        case "parameter":
            return Token.PARAMETER, said[1:]
        case _:
            return Token.SIGN, said


def _other(text: str, at: int) -> str:
    match text[at]:
        case "'":
            return "a text without its closing '"
        case '"':
            return 'a name without its closing "'
        case _:
            return ascii(text[at])
