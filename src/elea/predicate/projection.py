"""`_filter` and `_project`: the parameters of a query that choose and cut samples.

    _filter  = predicate
    _project = path [ "AS" name ] *( "," path [ "AS" name ] )

A parameter ends at `;`, but not inside quotes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from elea.decode.lexer import Token, next_lexeme
from elea.decode.paths import Path, name_text, path_text
from elea.errors import LimitError, PredicateError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.parameters import Parameters
from elea.predicate.evaluate import Fields
from elea.predicate.functions import STANDARD, Functions
from elea.predicate.model import Predicate
from elea.predicate.parser import parse, parse_path

FILTER_KEY: Final = "_filter"
PROJECT_KEY: Final = "_project"

_TO_SEMICOLON: Final = re.compile(r"""(?:[^;'"]|'[^']*'|"[^"]*"|['"])*+""")


@dataclass(frozen=True, slots=True)
class Column:
    """A field, and the name it gets."""

    path: Path
    name: str

    def __str__(self) -> str:
        shown = path_text(self.path)
        return shown if self.name == shown else f"{shown} AS {name_text(self.name)}"


@dataclass(frozen=True, slots=True)
class Projection:
    """Which fields to keep, in which order, under which names.

    Example:
        >>> from elea.predicate.evaluate import MappingFields
        >>> parse_projection("loc.lat AS lat, room").apply(MappingFields({"loc": {"lat": 48}}))
        {'lat': 48, 'room': None}
    """

    columns: tuple[Column, ...]

    def apply(self, fields: Fields) -> dict[str, object]:
        """The values by their names; None for what is not there."""
        return {column.name: fields.field(column.path) for column in self.columns}

    def __str__(self) -> str:
        return ", ".join(map(str, self.columns))


def parse_projection(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Projection:
    """The projection that a text is. Without AS, a field is named as it is written.

    Raises:
        PredicateError: the text is none, or gives a name twice.
        LimitError: it is too long, or has too many fields.
    """
    length = len(text.encode("utf-8", "surrogatepass"))
    if length > limits.predicate_len:
        raise LimitError("predicate_len", length, limits.predicate_len)
    columns: dict[str, Column] = {}
    at = 0
    while True:
        start = at
        path, at = parse_path(text, at)
        name = path_text(path)
        lexeme = next_lexeme(text, at)
        if lexeme.token is Token.NAME and lexeme.text.upper() == "AS":
            alias = next_lexeme(text, lexeme.end)
            if alias.token not in (Token.NAME, Token.QUOTED_NAME):
                raise PredicateError(text, alias.at, f"expected a name, found {alias.shown}")
            name, at = alias.text, alias.end
            lexeme = next_lexeme(text, at)
        if name in columns:
            raise PredicateError(text, start, f"two fields are named {name!a}; use AS")
        columns[name] = Column(path, name)
        if len(columns) > limits.projection_count:
            raise LimitError("projection_count", len(columns), limits.projection_count)
        if lexeme.token is Token.END:
            return Projection(tuple(columns.values()))
        if (lexeme.token, lexeme.text) != (Token.SIGN, ","):
            raise PredicateError(
                text, lexeme.at, f"expected AS, ',' or the end, found {lexeme.shown}"
            )
        at = lexeme.end


def filter_of(
    parameters: Parameters,
    values: Sequence[str] | None = (),
    *,
    functions: Functions = STANDARD,
    limits: Limits = DEFAULT_LIMITS,
) -> Predicate | None:
    """The predicate of `_filter`, if there is one.

    Raises:
        PredicateError, LimitError: as `parse` does.

    Example:
        >>> str(filter_of(Parameters("_time=[now(-1h)..];_filter=room='a;b' AND temp>20")))
        "room = 'a;b' AND temp > 20"
    """
    text = value_of(parameters, FILTER_KEY)
    return None if text is None else parse(text, values, functions=functions, limits=limits)


def projection_of(parameters: Parameters, *, limits: Limits = DEFAULT_LIMITS) -> Projection | None:
    """The projection of `_project`, if there is one.

    Raises:
        PredicateError, LimitError: as `parse_projection` does.

    Example:
        >>> str(projection_of(Parameters("_project=loc.lat AS lat,room")))
        'loc.lat AS lat, room'
    """
    text = value_of(parameters, PROJECT_KEY)
    return None if text is None else parse_projection(text, limits=limits)


def value_of(parameters: Parameters, name: str) -> str | None:
    """The value of a parameter, where `;` inside quotes does not end it.

    Example:
        >>> value_of(Parameters("a=1;_filter=x='1;2';b=3"), "_filter")
        "x='1;2'"
    """
    text = str(parameters)
    at = 0
    while at <= len(text):
        start = at + len(name) + 1
        if text.startswith(f"{name}=", at):
            match = _TO_SEMICOLON.match(text, start)
            assert match is not None
            return match[0]
        at = text.find(";", at) + 1 or len(text) + 1
    return None
