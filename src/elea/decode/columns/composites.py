"""Forms of DDS in CDR, cut: members behind their ids, enumerations, optional members, unions.

Ids, lengths, presence and discriminators are octets in which payloads must agree (`slices.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.columns import lockstep
from elea.decode.columns.types import table_type
from elea.decode.columns.walk import CDR1, CDR2, NUMBERS, Gather, NoSlicesError, Walk
from elea.decode.layout import (
    Enumeration,
    Layout,
    OptionalOf,
    Primitive,
    Structure,
    UnionOf,
)

_PID_EXTENDED: Final = 0x3F01
_PID_END: Final = 0x3F02
_PID_SENTINEL: Final = 1

Planned: TypeAlias = Callable[[Layout, Walk], Gather]  # how the values inside are cut


def absent(layout: Layout) -> Gather:
    type = table_type(layout)
    return lambda cut: pa.nulls(len(cut), type)


def go_to(walk: Walk, end: int) -> None:
    if walk.at > end:
        raise NoSlicesError  # it runs past its length: the reader says where
    walk.at = end


def planned_by_ids(layout: Structure, walk: Walk, planned: Planned) -> Gather:
    """A mutable structure: members behind their ids, in any order."""
    by_id = dict(zip(layout.ids, layout.members, strict=True))
    plans: dict[str, Gather] = {}
    heads = _heads1(walk) if walk.align_max == CDR1 else _heads2(walk)
    for id_, end in heads:
        found = by_id.get(id_)
        if found is not None:
            name, member = found
            item = member.item if isinstance(member, OptionalOf) else member
            plans[name] = planned(item, walk)
        go_to(walk, end)
    every = [plans.get(name) or absent(member) for name, member in layout.members]
    names = [name for name, _ in layout.members]
    return lambda cut: pa.StructArray.from_arrays([plan(cut) for plan in every], names)


def _heads2(walk: Walk) -> Iterator[tuple[int, int]]:
    """Ids of CDR 2, and where their members end."""
    last = walk.end()
    while walk.at < last:
        head = walk.number(4)
        code = head >> 28 & 7
        if code < 4:
            end = walk.at + (1 << code)
        else:
            told = walk.number(4)
            if code == 4:
                end = walk.at + told
            else:  # the count in front of the items is the length, too
                walk.at -= 4
                end = walk.at + 4 + told * (1, 4, 8)[code - 5]
        if end > last:
            raise NoSlicesError
        yield head & 0xFFF_FFFF, end
        if walk.at < last:
            walk.at += -(walk.at - walk.origin) % 4
    walk.at = last


def _heads1(walk: Walk) -> Iterator[tuple[int, int]]:
    """Ids of CDR 1; alignment in a member counts from its begin."""
    before = walk.origin
    while True:
        id_, length = _parameter(walk)
        if id_ < 0:
            return
        walk.origin = walk.at
        yield id_, walk.at + length
        walk.origin = before


def _parameter(walk: Walk) -> tuple[int, int]:
    """The id and length of a parameter of CDR 1; the id of the end is -1."""
    walk.at += -(walk.at - walk.origin) % 4
    word, length = walk.number(2), walk.number(2)
    id_ = word & 0x3FFF
    if id_ == _PID_END or (word == _PID_SENTINEL and not length):
        return -1, 0
    if id_ == _PID_EXTENDED:
        id_, length = walk.number(4) & 0xFFF_FFFF, walk.number(4)
    if length > len(walk.payload) - walk.at:
        raise NoSlicesError
    return id_, length


def planned_enumeration(layout: Enumeration, walk: Walk) -> Gather:
    start = walk.take(layout.width, layout.width)
    type = NUMBERS[f"i{8 * layout.width}"]
    names = lockstep.enumerators(layout)
    numbers = pa.array(list(names), pa.int64())
    texts = pa.array(list(names.values()), pa.string())

    def gather(cut: pa.Array) -> pa.Array:
        found = pc.binary_slice(cut, start, start + layout.width).view(type).cast(pa.int64())
        places = pc.index_in(found, value_set=numbers)
        if places.null_count:
            raise pa.ArrowInvalid("a number without a name")
        return texts.take(places)

    return gather


def planned_optional(layout: OptionalOf, walk: Walk, planned: Planned) -> Gather:
    """What is there, or not, in all payloads."""
    if walk.align_max == CDR2:
        told = walk.number(1)
        if told > 1:
            raise NoSlicesError
        return planned(layout.item, walk) if told else absent(layout.item)
    _, length = _parameter(walk)
    if not length:
        return absent(layout.item)
    before, end = walk.origin, walk.at + length
    walk.origin = walk.at
    found = planned(layout.item, walk)
    go_to(walk, end)
    walk.origin = before
    return found


def planned_union(layout: UnionOf, walk: Walk, planned: Planned) -> Gather:
    """The member that all payloads chose; the others are null."""
    end = walk.end() if layout.appendable and walk.align_max == CDR2 else None
    told = layout.discriminator
    width = told.width if isinstance(told, (Primitive, Enumeration)) else 0
    if width not in (1, 2, 4, 8):
        raise NoSlicesError
    signed = isinstance(told, Enumeration) or told.name.startswith("i")  # type: ignore[union-attr]
    chosen = layout.chosen(walk.number(width, signed=signed))
    plans = [
        planned(case.item, walk) if case is chosen else absent(case.item) for case in layout.cases
    ]
    if end is not None:
        go_to(walk, end)
    names = [case.name for case in layout.cases]
    return lambda cut: pa.StructArray.from_arrays([plan(cut) for plan in plans], names)
