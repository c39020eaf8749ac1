"""What can be said about a predicate before there is data, if the type of the data is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elea.decode.layout import Enumeration, Layout, Structure, below, kind_of
from elea.decode.paths import Path
from elea.decode.values import Kind
from elea.errors import PredicateError
from elea.predicate.functions import STANDARD, Functions
from elea.predicate.model import (
    Between,
    Call,
    Comparison,
    Field,
    Literal,
    Node,
    Operand,
    Predicate,
    Relation,
    walk,
)
from elea.predicate.payload import KEY_ROOT, PROPERTY_ROOT, VALUE_ROOT

_NUMBERS: Final = {Kind.INTEGER, Kind.FLOAT}
_COMPARABLE: Final = (
    _NUMBERS,
    {Kind.TEXT},
    {Kind.BOOLEAN, Kind.INTEGER},
    {Kind.ENUMERATION, Kind.INTEGER},
    {Kind.ENUMERATION, Kind.TEXT},
)


@dataclass(frozen=True, slots=True)
class Remark:
    """A part of a predicate that is never true or false, and why."""

    part: str
    reason: str


def check(
    predicate: Predicate,
    layout: Layout | None = None,
    *,
    text: str | None = None,
    functions: Functions = STANDARD,
) -> list[Remark]:
    """Hold a predicate against the type of the data.

    Args:
        predicate: The predicate.
        layout: The type; without it, only literals and functions have known kinds.
        text: What the predicate was parsed from, for the error.
        functions: The functions it may call.

    Returns:
        Comparisons that are unknown for all data, because their kinds do not compare.

    Raises:
        PredicateError: a field is not in the type.

    Example:
        >>> from elea.decode.layout import parse_layout
        >>> from elea.predicate.parser import parse
        >>> check(parse("room > 3"), parse_layout("{room: string}"))
        [Remark(part='room > 3', reason='text does not compare with integer')]
    """
    remarks = []
    for node in walk(predicate):
        if isinstance(node, Field) and layout is not None and not _is_known(node.path, layout):
            at = node.at if text else 0
            raise PredicateError(text or str(predicate), at, _unknown_field(layout, node))
        for left, right in _compared(node):
            kinds = kind(left, layout, functions), kind(right, layout, functions)
            reason = _mismatch(*kinds, like=_is_like(node))
            if reason is not None:
                remarks.append(Remark(str(node), reason))
                break
            reason = _no_enumerator(left, right, layout) or _no_enumerator(right, left, layout)
            if reason is not None:
                remarks.append(Remark(str(node), reason))
    return remarks


def kind(
    operand: Operand, layout: Layout | None = None, functions: Functions = STANDARD
) -> Kind | None:
    """What the values of an operand are, if that is known.

    Example:
        >>> kind(Literal(1.5)), kind(Field(("key",)))
        (<Kind.FLOAT: 'float'>, None)
    """
    match operand:
        case Literal():
            return operand.kind
        case Call():
            return functions[operand.name].result if operand.name in functions else None
        case Field() if layout is not None:
            found = _layout_of(operand.path, layout)
            return None if found is None else kind_of(found)
        case _:
            return None


def _layout_of(path: Path, layout: Layout) -> Layout | None:
    """The layout of a field, where the payload is what it looks at."""
    if path[0] in (KEY_ROOT, PROPERTY_ROOT):
        return None
    found = below(layout, path)
    return below(layout, path[1:]) if found is None and path[0] == VALUE_ROOT else found


def _is_known(path: Path, layout: Layout) -> bool:
    return path[0] in (KEY_ROOT, PROPERTY_ROOT) or _layout_of(path, layout) is not None


def _unknown_field(layout: Layout, field: Field) -> str:
    if isinstance(layout, Structure):
        return f"the type has no {field}; its members are {', '.join(n for n, _ in layout.members)}"
    return f"the type has no {field}; it is a {kind_of(layout).value}, which is `value`"


def _compared(node: Node) -> list[tuple[Operand, Operand]]:
    match node:
        case Comparison():
            return [(node.left, node.right)]
        case Between():
            return [(node.operand, node.low), (node.operand, node.high)]
        case _:
            return []


def _is_like(node: Node) -> bool:
    return isinstance(node, Comparison) and node.relation is Relation.LIKE


def _mismatch(left: Kind | None, right: Kind | None, *, like: bool) -> str | None:
    known = {one for one in (left, right) if one is not None}
    if like:
        wrong = known - {Kind.TEXT}
        return f"LIKE compares texts, not {wrong.pop().value}" if wrong else None
    alone = known & {Kind.STRUCTURE, Kind.LIST, Kind.BYTES}
    if alone:
        return f"a {alone.pop().value} compares with nothing"
    if (
        left is None
        or right is None
        or left is right
        or any(known <= legal for legal in _COMPARABLE)
    ):
        return None
    return f"{left.value} does not compare with {right.value}"


def _no_enumerator(operand: Operand, name: Operand, layout: Layout | None) -> str | None:
    if layout is None or not isinstance(operand, Field) or not isinstance(name, Literal):
        return None
    found = _layout_of(operand.path, layout)
    if not isinstance(found, Enumeration) or not isinstance(name.value, str):
        return None
    if name.value in found.members:
        return None
    return f"{name} is none of {', '.join(found.members)}"
