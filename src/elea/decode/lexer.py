"""Words and signs of predicates, one after the other, each with its offset.

Nothing is refused here: what is no token comes as one of kind `OTHER`, and whoever expected
something else says so.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from elea.decode.paths import KEYWORDS


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


class Lexeme:
    """One token: what it is, what it says (quotes taken off, keywords in capitals), and where."""

    __slots__ = ("_source", "at", "end", "text", "token")

    def __init__(self, token: Token, text: str, at: int, end: int, source: str) -> None:
        self.token = token
        self.text = text
        self.at = at
        self.end = end
        self._source = source

    @property
    def said(self) -> str:
        """The token as it was written."""
        return self._source[self.at : self.end]

    @property
    def shown(self) -> str:
        """The token for a complaint."""
        if self.token is Token.END:
            return "the end"
        if self.said == "'":
            return "a text without its closing '"
        if self.said == '"':
            return 'a name without its closing "'
        said = self.said
        return ascii(said if len(said) <= _SHOWN_LEN_MAX else said[: _SHOWN_LEN_MAX - 3] + "...")


# Quotes are possessive: a text that does not end is not one that ended early. `.` starts a number
# only where no name or position went before, or `a.5` would be two operands.
_PATTERN: Final = re.compile(
    r"""\s*+(?:
      (?P<hex>     [+-]?0[xX][0-9a-fA-F]+ )
    | (?P<float>   [+-]?(?: [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+
                          | (?<![\w"\]])\.[0-9]+(?:[eE][+-]?[0-9]+)? ) )
    | (?P<integer> [+-]?[0-9]+ )
    | (?P<name>    [^\W\d]\w* )
    | (?P<text>    '(?:[^']|'')*+' )
    | (?P<quoted>  "(?:[^"]|"")*+" )
    | (?P<parameter> %[0-9]{1,2} )
    | (?P<sign>    <> | != | <= | >= | [=<>()\[\],.] )
    | (?P<other>   \S )
    | (?P<end>     \Z ) )
    """,
    re.VERBOSE,
)
_TOKENS: Final = {
    "hex": Token.INTEGER,
    "float": Token.FLOAT,
    "integer": Token.INTEGER,
    "name": Token.NAME,
    "text": Token.TEXT,
    "quoted": Token.QUOTED_NAME,
    "parameter": Token.PARAMETER,
    "sign": Token.SIGN,
    "other": Token.OTHER,
    "end": Token.END,
}
_SHOWN_LEN_MAX: Final = 24


def next_lexeme(text: str, at: int) -> Lexeme:
    """The first token at or after an offset.

    Example:
        >>> lexeme = next_lexeme("a  like 'it''s'", 7)
        >>> lexeme.token, lexeme.text, lexeme.at, lexeme.end
        (<Token.TEXT: 6>, "it's", 8, 15)
    """
    match = _PATTERN.match(text, at)
    assert match is not None  # whatever is there is `other`, and if nothing is, it is the end
    group = match.lastgroup
    assert group is not None
    start, end = match.span(group)
    said = text[start:end]
    token = _TOKENS[group]
    # Only ASCII letters make keywords: 'lıke'.upper() is LIKE to Python, too.
    if token is Token.NAME and said.isascii() and said.upper() in KEYWORDS:
        token, said = Token.KEYWORD, said.upper()
    elif token is Token.TEXT:
        said = said[1:-1].replace("''", "'")
    elif token is Token.QUOTED_NAME:
        said = said[1:-1].replace('""', '"')
    elif token is Token.PARAMETER:
        said = said[1:]
    return Lexeme(token, said, start, end, text)
