"""Predicates as trees, and their canonical text.

A node is a value: it compares, hashes and pickles by what it says, wherever it stood in a text.
`str(node)` is the canonical text, and parsing that gives an equal tree. What cannot be written
cannot be built: a conjunction holds no conjunction, a number is finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from elea.decode.paths import Path, path_text
from elea.decode.values import Kind


class Relation(Enum):
    """The comparisons; the value is the canonical spelling."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LIKE = "LIKE"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it is written."""

    value: bool | int | float | str
    # Part of the comparison: to Python 1, 1.0 and True are equal.
    kind: Kind = field(init=False, repr=False)

    def __post_init__(self) -> None:
        match self.value:
            case bool():
                kind = Kind.BOOLEAN
            case int():
                kind = Kind.INTEGER
            case float() if math.isfinite(self.value):
                kind = Kind.FLOAT
            case str():
                kind = Kind.TEXT
            case _:
                raise ValueError(f"a literal is a boolean, finite number or text, not {self.value}")
        object.__setattr__(self, "kind", kind)

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return str(self.value).upper() if isinstance(self.value, bool) else repr(self.value)


@dataclass(frozen=True, slots=True)
class Field:
    """A member of what is looked at, by names and positions; the first step is a name."""

    path: Path
    at: int = field(default=0, compare=False, repr=False)  # offset in the text it came from

    def __post_init__(self) -> None:
        if not self.path or isinstance(self.path[0], int):
            raise ValueError(f"a field starts with a name, got {self.path!r}")

    def __str__(self) -> str:
        return path_text(self.path)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`%n`: a value to be given when the text is parsed."""

    number: int
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"%{self.number}"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a registry, by name."""

    name: str
    arguments: tuple[Operand, ...]
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two operands and how they are to stand to each other."""

    left: Operand
    relation: Relation
    right: Operand

    def __str__(self) -> str:
        return f"{self.left} {self.relation.value} {self.right}"


@dataclass(frozen=True, slots=True)
class Between:
    """Whether an operand is in a range, ends included; or, negated, whether it is not."""

    operand: Operand
    low: Operand
    high: Operand
    negated: bool = False

    def __str__(self) -> str:
        word = "NOT BETWEEN" if self.negated else "BETWEEN"
        return f"{self.operand} {word} {self.low} AND {self.high}"


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary; of unknown, unknown."""

    term: Predicate

    def __post_init__(self) -> None:
        if self.term == ALWAYS:
            raise ValueError("the empty predicate stands alone")

    def __str__(self) -> str:
        return f"NOT {_inside(self.term, self)}"


@dataclass(frozen=True, slots=True)
class And:
    """True if all terms are, false if one is; without terms, the empty predicate: true."""

    terms: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        terms = tuple(_flat(self.terms, And))
        if len(terms) == 1:
            raise ValueError("a conjunction has two terms or more, or none; see all_of")
        object.__setattr__(self, "terms", terms)

    def __str__(self) -> str:
        return " AND ".join(_inside(term, self) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Or:
    """True if one term is, false if all are."""

    terms: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        terms = tuple(_flat(self.terms, Or))
        if len(terms) < 2 or ALWAYS in terms:
            raise ValueError("a disjunction has two terms or more, none of them empty")
        object.__setattr__(self, "terms", terms)

    def __str__(self) -> str:
        return " OR ".join(map(str, self.terms))


Operand: TypeAlias = Literal | Field | Parameter | Call
Predicate: TypeAlias = And | Or | Not | Comparison | Between | Call
Node: TypeAlias = Predicate | Operand


def all_of(terms: Iterable[Predicate]) -> Predicate:
    """The conjunction of any number of terms.

    Example:
        >>> str(all_of([Call("exists", (Field(("a",)),))]))
        'exists(a)'
    """
    flat = tuple(_flat(terms, And))
    return flat[0] if len(flat) == 1 else And(flat)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one, in the order of the text."""
    match node:
        case And() | Or():
            return node.terms
        case Not():
            return (node.term,)
        case Comparison():
            return (node.left, node.right)
        case Between():
            return (node.operand, node.low, node.high)
        case Call():
            return node.arguments
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, top down."""
    waiting: list[Node] = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def depth_of(node: Node) -> int:
    """How many brackets, NOT and calls are inside each other in the canonical text.

    Example:
        >>> depth_of(Not(Call("exists", (Field(("a",)),))))
        2
    """
    deepest = 0
    waiting: list[tuple[Node, int]] = [(node, 0)]
    while waiting:
        node, depth = waiting.pop()
        depth += isinstance(node, (Not, Call))
        deepest = max(deepest, depth)
        for child in children(node):
            waiting.append((child, depth + _is_bracketed(child, node)))
    return deepest


def _flat(terms: Iterable[Predicate], kind: type[And | Or]) -> Iterator[Predicate]:
    for term in terms:
        if isinstance(term, kind):
            yield from term.terms
        else:
            yield term


def _is_bracketed(term: Node, outer: Node) -> bool:
    match outer:
        case Not():
            return isinstance(term, (And, Or))
        case And():
            return isinstance(term, Or)
        case _:
            return False


def _inside(term: Predicate, outer: Not | And) -> str:
    return f"({term})" if _is_bracketed(term, outer) else str(term)


ALWAYS: Final = And(())
