"""Layouts: what the octets of a payload are, for formats that do not say it themselves.

    type      = plain [ "?" ]
    plain     = primitive / list / array / tuple / map / structure / union / enumeration
    primitive = "bool" / "i8" ... "i128" / "u8" ... "u128" / "f32" / "f64" / "char" / "string"
                / "wstring" / "bytes"
    list      = "[" type "]"
    array     = "[" type ";" 1*DIGIT "]"
    tuple     = "(" type *( "," type ) ")"
    map       = "map" "(" type "," type ")"
    structure = [ "appendable" ] "{" name ":" type *( "," name ":" type ) "}"
              / "mutable" "{" name "@" id ":" type *( "," name "@" id ":" type ) "}"
    union     = [ "appendable" ] "union" "(" type ")" "{" case *( "," case ) "}"
    case      = ( label *( "," label ) / "default" ) ":" name ":" type
    label     = [ "-" ] integer / name of an enumerator
    enumeration = ( "enum" / "enum8" / "enum16" )
                  "{" name [ "=" integer ] *( "," name [ "=" integer ] ) "}"

`T?` may be absent. Every type takes one octet at least, so that a count in a payload can be held
against the octets that are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

from elea.decode.lexer import Lexeme, Token, next_lexeme
from elea.decode.paths import Path, name_text
from elea.decode.values import Kind
from elea.errors import LimitError, PredicateError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.records import dataclass

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
    """Members by name, in their order; an appendable one says its own length in CDR 2.

    A mutable one has the id of each member, and is read by ids.
    """

    members: tuple[tuple[str, Layout], ...]
    appendable: bool = False
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OptionalOf:
    """A value that may be absent."""

    item: Layout


@dataclass(frozen=True, slots=True)
class Case:
    """One member of a union, and the discriminators that select it; none for the default."""

    name: str
    item: Layout
    labels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionOf:
    """One of several members, by a discriminator: a structure whose other members are null."""

    discriminator: Layout
    cases: tuple[Case, ...]
    appendable: bool = False

    @property
    def members(self) -> tuple[tuple[str, Layout], ...]:
        """The members as those of a structure."""
        return tuple((case.name, case.item) for case in self.cases)

    def chosen(self, discriminator: int) -> Case | None:
        """The member that a discriminator selects; None if it selects none."""
        default = None
        for case in self.cases:
            if discriminator in case.labels:
                return case
            if not case.labels:
                default = case
        return default


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Names for numbers of one, two or four octets."""

    members: Mapping[str, int]
    width: int = 4


Layout: TypeAlias = (
    Primitive | ListOf | TupleOf | MapOf | Structure | OptionalOf | UnionOf | Enumeration
)
ENUMERATIONS: Final = {"enum": 4, "enum8": 1, "enum16": 2}

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
        Primitive("wstring", Kind.TEXT),
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
        case Structure() | MapOf() | UnionOf():
            return Kind.STRUCTURE
        case OptionalOf():
            return kind_of(layout.item)


def below(layout: Layout, path: Path) -> Layout | None:
    """The layout of what is at a path; None if there is nothing by that path.

    Example:
        >>> below(parse_layout("{tags: [string]}"), ("tags", 7)).name
        'string'
    """
    found: Layout | None = layout
    for step in path:
        if isinstance(found, OptionalOf):
            found = found.item
        match found:
            case Structure() | UnionOf():
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
    if length > limits.layout_len:
        raise LimitError("layout_len", length, limits.layout_len)
    try:
        return _Parser(text, limits.predicate_depth).whole()
    except PredicateError as error:
        error.kind = "type"  # as pages call it; the signs are those of predicates
        raise


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
        layout = self._plain(depth)
        return OptionalOf(layout) if self._skip("?") else layout

    def _plain(self, depth: int) -> Layout:
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
            if self._lexeme.text == "union":
                return self._union(depth, appendable=True)
            self._expect("{")
            return Structure(self._members(depth), appendable=True)
        if word == "mutable":
            self._advance()
            self._expect("{")
            ids: list[int] = []
            members = self._members(depth, ids)
            return Structure(members, ids=tuple(ids))
        if word == "union":
            return self._union(depth, appendable=False)
        if word == "map":
            at = self._lexeme.at
            self._advance()
            self._expect("(")
            items = self._types(depth)
            if len(items) != 2:
                raise PredicateError(self._text, at, "a map has two types, of names and of values")
            return MapOf(*items)
        if word in ENUMERATIONS:
            self._advance()
            self._expect("{")
            return Enumeration(self._enumerators(), ENUMERATIONS[word])
        if word not in PRIMITIVES:
            begins = "[, (, {, appendable, mutable, map, union, enum"
            self._refuse(f"{begins} or one of {', '.join(PRIMITIVES)}")
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

    def _union(self, depth: int, *, appendable: bool) -> Layout:
        self._advance()
        self._expect("(")
        discriminator = self._type(depth + 1)
        self._expect(")")
        self._expect("{")
        names = discriminator.members if isinstance(discriminator, Enumeration) else {}
        cases: dict[str, Case] = {}
        while True:
            labels = self._labels(names)
            name = self._name(cases)
            self._expect(":")
            cases[name] = Case(name, self._type(depth + 1), labels)
            if not self._skip(","):
                self._expect("}")
                return UnionOf(discriminator, tuple(cases.values()), appendable)

    def _labels(self, names: Mapping[str, int]) -> tuple[int, ...]:
        if self._lexeme.text == "default":
            self._advance()
            self._expect(":")
            return ()
        labels = []
        while True:
            if self._lexeme.text in names:
                labels.append(names[self._lexeme.text])
                self._advance()
            else:
                labels.append(self._signed())
            if not self._skip(","):
                self._expect(":")
                return tuple(labels)

    def _signed(self) -> int:
        return -self._number() if self._skip("-") else self._number()

    def _members(self, depth: int, ids: list[int] | None = None) -> tuple[tuple[str, Layout], ...]:
        members: dict[str, Layout] = {}
        while True:
            name = self._name(members)
            if ids is not None:
                self._expect("@")
                ids.append(self._number())
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
                number = self._signed()
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


def layout_text(layout: Layout) -> str:
    """The text that `parse_layout` reads as this layout.

    Example:
        >>> layout_text(parse_layout("{a:u8,b:[string]?}"))
        '{a: u8, b: [string]?}'
    """
    match layout:
        case Primitive():
            return layout.name
        case ListOf():
            count = "" if layout.count is None else f"; {layout.count}"
            return f"[{layout_text(layout.item)}{count}]"
        case TupleOf():
            return f"({', '.join(map(layout_text, layout.items))})"
        case MapOf():
            return f"map({layout_text(layout.name)}, {layout_text(layout.value)})"
        case Structure():
            return _structure_text(layout)
        case OptionalOf():
            return f"{layout_text(layout.item)}?"
        case UnionOf():
            cases = ", ".join(map(_case_text, layout.cases))
            begin = "appendable union" if layout.appendable else "union"
            return f"{begin} ({layout_text(layout.discriminator)}) {{{cases}}}"
        case Enumeration():
            named = (f"{name_text(name)} = {number}" for name, number in layout.members.items())
            word = next(one for one, width in ENUMERATIONS.items() if width == layout.width)
            return f"{word} {{{', '.join(named)}}}"


def _structure_text(layout: Structure) -> str:
    ids = layout.ids or (None,) * len(layout.members)
    inner = ", ".join(
        f"{name_text(name)}{'' if id_ is None else f'@{id_}'}: {layout_text(member)}"
        for (name, member), id_ in zip(layout.members, ids, strict=True)
    )
    begin = "appendable " if layout.appendable else "mutable " if layout.ids else ""
    return f"{begin}{{{inner}}}"


def _case_text(case: Case) -> str:
    labels = ", ".join(map(str, case.labels)) or "default"
    return f"{labels}: {name_text(case.name)}: {layout_text(case.item)}"
