"""Layouts: what the octets of a payload are, for formats that do not say it themselves.

    type      = primitive / list / array / tuple / map / structure / enumeration
    primitive = "bool" / "i8" ... "i128" / "u8" ... "u128" / "f32" / "f64" / "char" / "string"
                / "bytes"
    list      = "[" type "]"
    array     = "[" type ";" 1*DIGIT "]"
    tuple     = "(" type *( "," type ) ")"
    map       = "map" "(" type "," type ")"
    structure = [ "appendable" ] "{" name ":" type *( "," name ":" type ) "}"
    enumeration = "enum" "{" name [ "=" integer ] *( "," name [ "=" integer ] ) "}"

Every type takes one octet at least, so that a count in a payload can be held against the octets
that are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from elea.errors import LimitError, PredicateError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.predicate.lexer import Lexeme, Token, next_lexeme
from elea.predicate.model import Kind, Path

ARRAY_COUNT_MAX: Final = 1 << 20  # of a declaration; what a payload counts is held against it


@dataclass(frozen=True, slots=True)
class Primitive:
    """A boolean, number or text."""

    name: str
    kind: Kind
    width: int = 0  # octets, if it is always the same
    code: str = ""  # for `struct`, less the order of octets


@dataclass(frozen=True, slots=True)
class ListOf:
    """Items of one type: as many as the payload says, or a fixed count."""

    item: Layout
    count: int | None = None


@dataclass(frozen=True, slots=True)
class TupleOf:
    """Items by position."""

    items: tuple[Layout, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """Pairs of a name and a value."""

    name: Layout
    value: Layout


@dataclass(frozen=True, slots=True)
class Structure:
    """Members by name, in their order; an appendable one says its own length in CDR 2."""

    members: tuple[tuple[str, Layout], ...]
    appendable: bool = False


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Names for numbers."""

    members: Mapping[str, int]


Layout: TypeAlias = Primitive | ListOf | TupleOf | MapOf | Structure | Enumeration

PRIMITIVES: Final = {
    primitive.name: primitive
    for primitive in (
        Primitive("bool", Kind.BOOLEAN, 1),
        *(
            Primitive(f"{sign}{8 * width}", Kind.INTEGER, width, code)
            for sign, codes in (("i", "bhiq"), ("u", "BHIQ"))
            for width, code in zip((1, 2, 4, 8, 16), (*codes, ""), strict=True)
        ),
        Primitive("f32", Kind.FLOAT, 4, "f"),
        Primitive("f64", Kind.FLOAT, 8, "d"),
        Primitive("char", Kind.TEXT, 1),
        Primitive("string", Kind.TEXT),
        Primitive("bytes", Kind.BYTES),
    )
}


def kind_of(layout: Layout) -> Kind:
    """What its values are to a predicate."""
    match layout:
        case Primitive():
            return layout.kind
        case Enumeration():
            return Kind.ENUMERATION
        case ListOf() | TupleOf():
            return Kind.LIST
        case Structure() | MapOf():
            return Kind.STRUCTURE


def below(layout: Layout, path: Path) -> Layout | None:
    """The layout of what is at a path; None if there is nothing by that path.

    Example:
        >>> below(parse_layout("{tags: [string]}"), ("tags", 7)).name
        'string'
    """
    found: Layout | None = layout
    for step in path:
        match found:
            case Structure():
                found = dict(found.members).get(str(step)) if isinstance(step, str) else None
            case MapOf():
                found = found.value
            case ListOf() if isinstance(step, int) and (found.count is None or step < found.count):
                found = found.item
            case TupleOf() if isinstance(step, int) and step < len(found.items):
                found = found.items[step]
            case _:
                return None
    return found


def parse_layout(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """The layout that a text describes.

    Raises:
        PredicateError: with the offset where the text stops being one.
        LimitError: it is too long or too deep.

    Example:
        >>> parse_layout("{room: string, loc: (f64, f64)}").members[0]
        ('room', Primitive(name='string', kind=<Kind.TEXT: 'text'>, width=0, code=''))
    """
    length = len(text.encode("utf-8", "surrogatepass"))
    if length > limits.predicate_len:
        raise LimitError("predicate_len", length, limits.predicate_len)
    return _Parser(text, limits.predicate_depth).whole()


class _Parser:
    """Recursive descent, over the signs that predicates have and a few more."""

    __slots__ = ("_depth_max", "_lexeme", "_text")

    def __init__(self, text: str, depth_max: int) -> None:
        self._text = text
        self._depth_max = depth_max
        self._lexeme: Lexeme = next_lexeme(text, 0)

    def whole(self) -> Layout:
        layout = self._type(1)
        if self._lexeme.token is not Token.END:
            self._refuse("the end")
        return layout

    def _type(self, depth: int) -> Layout:
        if depth > self._depth_max:
            raise LimitError("predicate_depth", depth, self._depth_max)
        if self._skip("["):
            return self._list(depth)
        if self._skip("("):
            return TupleOf(self._types(depth))
        if self._skip("{"):
            return Structure(self._members(depth))
        word = self._lexeme.text if self._lexeme.token is Token.NAME else ""
        if word == "appendable":
            self._advance()
            self._expect("{")
            return Structure(self._members(depth), appendable=True)
        if word == "map":
            at = self._lexeme.at
            self._advance()
            self._expect("(")
            items = self._types(depth)
            if len(items) != 2:
                raise PredicateError(self._text, at, "a map has two types, of names and of values")
            return MapOf(*items)
        if word == "enum":
            self._advance()
            self._expect("{")
            return Enumeration(self._enumerators())
        if word not in PRIMITIVES:
            self._refuse(f"[, (, {{, appendable, map, enum or one of {', '.join(PRIMITIVES)}")
        self._advance()
        return PRIMITIVES[word]

    def _list(self, depth: int) -> Layout:
        item = self._type(depth + 1)
        count = None
        if self._skip(";"):
            count = self._number()
            if not 0 < count <= ARRAY_COUNT_MAX:
                reason = f"an array has 1 to {ARRAY_COUNT_MAX} items"
                raise PredicateError(self._text, self._lexeme.at, reason)
        self._expect("]")
        return ListOf(item, count)

    def _types(self, depth: int) -> tuple[Layout, ...]:
        items = [self._type(depth + 1)]
        while self._skip(","):
            items.append(self._type(depth + 1))
        self._expect(")")
        return tuple(items)

    def _members(self, depth: int) -> tuple[tuple[str, Layout], ...]:
        members: dict[str, Layout] = {}
        while True:
            name = self._name(members)
            self._expect(":")
            members[name] = self._type(depth + 1)
            if not self._skip(","):
                self._expect("}")
                return tuple(members.items())

    def _enumerators(self) -> dict[str, int]:
        members: dict[str, int] = {}
        number = 0
        while True:
            name = self._name(members)
            if self._skip("="):
                number = self._number()
            members[name] = number
            number += 1
            if not self._skip(","):
                self._expect("}")
                return members

    def _name(self, taken: Mapping[str, object]) -> str:
        lexeme = self._lexeme
        if lexeme.token not in (Token.NAME, Token.KEYWORD, Token.QUOTED_NAME):
            self._refuse("a name")
        name = lexeme.said if lexeme.token is Token.KEYWORD else lexeme.text
        if name in taken:
            raise PredicateError(self._text, lexeme.at, f"{name!a} is there already")
        self._advance()
        return name

    def _number(self) -> int:
        if self._lexeme.token is not Token.INTEGER:
            self._refuse("an integer")
        number = int(self._lexeme.text, 0 if "x" in self._lexeme.text.lower() else 10)
        self._advance()
        return number

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            self._refuse(repr(sign))

    def _skip(self, sign: str) -> bool:
        if self._lexeme.text != sign or self._lexeme.token not in (Token.SIGN, Token.OTHER):
            return False
        self._advance()
        return True

    def _advance(self) -> None:
        self._lexeme = next_lexeme(self._text, self._lexeme.end)

    def _refuse(self, legal: str) -> NoReturn:
        reason = f"expected {legal}, found {self._lexeme.shown}"
        raise PredicateError(self._text, self._lexeme.at, reason)
