"""Type objects of XTypes: layouts, keys and IDL of a type, without its IDL file (dds.md 6, 23).

Reads the *type mapping* of a type: pairs of an identifier and a complete type object, in CDR 2,
little endian. The bytes come from peers: every count is bounded, types may not contain themselves,
and a type that is short because its parts are used again and again is counted written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from elea.dds.representation import Extensibility
from elea.decode.layout import (
    ARRAY_COUNT_MAX,
    PRIMITIVES,
    Case,
    Enumeration,
    Layout,
    ListOf,
    MapOf,
    OptionalOf,
    Structure,
    UnionOf,
)
from elea.errors import DecodeError, LimitError
from elea.limits import DEFAULT_LIMITS, Limits

_COMPLETE: Final = 0xF2
_MINIMAL: Final = 0xF1
_HASH_LEN: Final = 14
_PRIMITIVE_KINDS: Final = {
    0x01: ("bool", "boolean"),
    0x02: ("u8", "octet"),
    0x03: ("i16", "int16"),
    0x04: ("i32", "int32"),
    0x05: ("i64", "int64"),
    0x06: ("u16", "uint16"),
    0x07: ("u32", "uint32"),
    0x08: ("u64", "uint64"),
    0x09: ("f32", "float"),
    0x0A: ("f64", "double"),
    0x0C: ("i8", "int8"),
    0x0D: ("u8", "uint8"),
    0x10: ("char", "char"),
}
ALIAS, ENUM, BITMASK, STRUCT, UNION = 0x30, 0x40, 0x41, 0x51, 0x52
SEQUENCE, ARRAY, MAP = 0x60, 0x61, 0x62
_FINAL, _APPENDABLE, _MUTABLE = 1, 2, 4
_OPTIONAL, _KEY, _DEFAULT = 0x08, 0x20, 0x40
IDL_NAMES: Final = {kind: name for kind, (_, name) in _PRIMITIVE_KINDS.items()}


class NoLayoutError(Exception):
    """A type has no layout: it contains itself, or something that layouts cannot say."""


@dataclass(frozen=True, slots=True)
class TypeId:
    """A reference to a type: a kind, and what the kind needs."""

    kind: int
    hash: bytes = b""
    bounds: tuple[int, ...] = ()
    element: TypeId | None = None
    key: TypeId | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a struct or union."""

    name: str
    id: int
    flags: int
    type: TypeId
    labels: tuple[int, ...] = ()

    @property
    def is_key(self) -> bool:
        """Whether it is part of the key."""
        return bool(self.flags & _KEY)

    @property
    def is_optional(self) -> bool:
        """Whether it may be absent."""
        return bool(self.flags & _OPTIONAL)

    @property
    def is_default(self) -> bool:
        """Whether a union has it where no label fits."""
        return bool(self.flags & _DEFAULT)


@dataclass(frozen=True, slots=True)
class TypeObject:
    """A complete type object."""

    kind: int
    flags: int = 0
    name: str = ""
    base: TypeId | None = None
    members: tuple[Member, ...] = ()
    discriminator: TypeId | None = None
    literals: tuple[tuple[str, int], ...] = ()  # enumerators, or flags with their positions
    bit_bound: int = 32
    bounds: tuple[int, ...] = ()
    element: TypeId | None = None
    key: TypeId | None = None

    @property
    def extensibility(self) -> Extensibility:
        """How the type may change."""
        if self.flags & _MUTABLE:
            return Extensibility.MUTABLE
        return Extensibility.APPENDABLE if self.flags & _APPENDABLE else Extensibility.FINAL


@dataclass(slots=True)
class TypeSet:
    """A type and all it depends on.

    Args:
        root: The hash of the type.
        objects: Complete type objects by hash.
    """

    root: bytes
    objects: dict[bytes, TypeObject] = field(default_factory=dict)
    _left: int = 0  # members that may still be written out
    _limit: int = 0

    @classmethod
    def read(cls, root: bytes, mapping: bytes, limits: Limits = DEFAULT_LIMITS) -> TypeSet:
        """Read a type mapping.

        Raises:
            DecodeError: The bytes are no type mapping.
            LimitError: It exceeds `dds_type_len` or `dds_type_members_count`.
        """
        if len(mapping) > limits.dds_type_len:
            raise LimitError("dds_type_len", len(mapping), limits.dds_type_len)
        reader = _Reader(mapping, limits)
        found = cls(root)
        for complete in (False, True):  # minimal objects have no names and are passed over
            end = reader.delimited()
            for _ in range(reader.count()):
                if not complete:
                    break
                identifier = reader.type_id()
                made = reader.type_object()
                if made is not None and identifier.hash:
                    found.objects[identifier.hash] = made
            reader.at = end
        return found

    @property
    def top(self) -> TypeObject | None:
        """The type itself; None if only its minimal object is known."""
        return self.objects.get(self.root)

    @property
    def has_optional(self) -> bool:
        """Whether a member of the type, or of one that it uses, may be absent."""
        return any(one.is_optional for of in self.objects.values() for one in of.members)

    def layout(self, limits: Limits = DEFAULT_LIMITS) -> Layout:
        """Return the layout of the type (D-872).

        Raises:
            NoLayoutError: It has none.
            LimitError: It exceeds `dds_type_depth` or, written out, `dds_type_members_count`.
        """
        self._left = self._limit = limits.dds_type_members_count
        return self._layout(TypeId(_COMPLETE, self.root), (), limits)

    def key_paths(self, limits: Limits = DEFAULT_LIMITS) -> tuple[tuple[str, ...], ...]:
        """Return the paths of the key members, in the order of declaration.

        Raises:
            NoLayoutError: A base of the type contains itself.
            LimitError: They exceed `dds_type_members_count`.
        """
        self._left = self._limit = limits.dds_type_members_count
        top = self.top
        return () if top is None else tuple(self._key_paths(top, (), 0))

    def _key_paths(
        self, of: TypeObject, path: tuple[str, ...], depth: int, *, whole: bool = False
    ) -> Iterator[tuple[str, ...]]:
        members = list(self._members(of))
        keys = [one for one in members if one.is_key]
        for one in keys or (members if whole else []):
            inner = self.resolved(one.type)
            if inner is not None and inner.kind == STRUCT and depth < 32:
                yield from self._key_paths(inner, (*path, one.name), depth + 1, whole=True)
            else:
                yield (*path, one.name)

    def _members(self, of: TypeObject) -> Iterator[Member]:
        """The members of a struct, those of its base first."""
        line = [of]
        while line[-1].base is not None:
            base = self.resolved(line[-1].base)
            if base is None:
                break
            if any(base is one for one in line):
                raise NoLayoutError("a base that contains itself")
            line.append(base)
        for one in reversed(line):
            for member in one.members:
                self._spend()
                yield member

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise LimitError("dds_type_members_count", self._limit + 1, self._limit)

    def resolved(self, type_id: TypeId) -> TypeObject | None:
        """Return the object behind a reference; aliases are followed."""
        found = self.objects.get(type_id.hash)
        for _ in range(32):
            if found is None or found.kind != ALIAS or found.element is None:
                return found
            found = self.objects.get(found.element.hash)
        return None

    def _layout(self, type_id: TypeId, above: tuple[bytes, ...], limits: Limits) -> Layout:
        if len(above) > limits.dds_type_depth:
            raise LimitError("dds_type_depth", len(above), limits.dds_type_depth)
        kind = type_id.kind
        if kind in _PRIMITIVE_KINDS:
            return PRIMITIVES[_PRIMITIVE_KINDS[kind][0]]
        if kind in (0x70, 0x71):
            return PRIMITIVES["string"]
        if kind in (0x72, 0x73):
            return PRIMITIVES["wstring"]
        inner = (*above, type_id.hash)
        if kind in (0x80, 0x81) and type_id.element is not None:
            return _list_of(self._layout(type_id.element, inner, limits))
        if kind in (0x90, 0x91) and type_id.element is not None:
            return _array_of(self._layout(type_id.element, inner, limits), type_id.bounds)
        if kind in (0xA0, 0xA1) and type_id.element is not None and type_id.key is not None:
            key = self._layout(type_id.key, inner, limits)
            return MapOf(key, self._layout(type_id.element, inner, limits))
        if kind != _COMPLETE:
            raise NoLayoutError(f"type kind {kind:#04x}")
        if type_id.hash in above:
            raise NoLayoutError("a type that contains itself")
        found = self.objects.get(type_id.hash)
        if found is None:
            raise NoLayoutError("a part of the type is not known")
        return self._object_layout(found, inner, limits)

    def _object_layout(self, of: TypeObject, above: tuple[bytes, ...], limits: Limits) -> Layout:
        if of.kind == STRUCT:
            return self._structure(of, above, limits)
        if of.kind == UNION:
            return self._union(of, above, limits)
        if of.kind == ENUM:
            width = 1 if of.bit_bound <= 8 else 2 if of.bit_bound <= 16 else 4
            return Enumeration(dict(of.literals), width)
        if of.kind == BITMASK:
            fitting = [one for one in (8, 16, 32, 64) if of.bit_bound <= one]
            if not fitting:
                raise NoLayoutError(f"a bitmask of {of.bit_bound} bits")
            return PRIMITIVES[f"u{fitting[0]}"]
        if of.element is None:
            raise NoLayoutError(f"type kind {of.kind:#04x}")
        element = self._layout(of.element, above, limits)
        if of.kind == ALIAS:
            return element
        if of.kind == SEQUENCE:
            return _list_of(element)
        if of.kind == ARRAY:
            return _array_of(element, of.bounds)
        if of.kind == MAP and of.key is not None:
            return MapOf(self._layout(of.key, above, limits), element)
        raise NoLayoutError(f"type kind {of.kind:#04x}")

    def _structure(self, of: TypeObject, above: tuple[bytes, ...], limits: Limits) -> Structure:
        members = []
        ids = []
        for one in self._members(of):
            layout = self._layout(one.type, above, limits)
            members.append((one.name, OptionalOf(layout) if one.is_optional else layout))
            ids.append(one.id)
        if not members:
            raise NoLayoutError("a struct without members")
        if len({name for name, _ in members}) < len(members):
            raise NoLayoutError("two members of one name")
        mutable = of.extensibility is Extensibility.MUTABLE
        return Structure(
            tuple(members),
            appendable=of.extensibility is Extensibility.APPENDABLE,
            ids=tuple(ids) if mutable else (),
        )

    def _union(self, of: TypeObject, above: tuple[bytes, ...], limits: Limits) -> UnionOf:
        if of.extensibility is Extensibility.MUTABLE or of.discriminator is None:
            raise NoLayoutError("a mutable union")
        for _ in of.members:
            self._spend()
        if len({one.name for one in of.members}) < len(of.members):
            raise NoLayoutError("two members of one name")
        cases = tuple(
            Case(
                one.name,
                self._layout(one.type, above, limits),
                () if one.is_default else one.labels,
            )
            for one in of.members
        )
        discriminator = self._layout(of.discriminator, above, limits)
        return UnionOf(discriminator, cases, of.extensibility is Extensibility.APPENDABLE)


def _list_of(item: Layout) -> Layout:
    return PRIMITIVES["bytes"] if item == PRIMITIVES["u8"] else ListOf(item)


def _array_of(item: Layout, bounds: tuple[int, ...]) -> Layout:
    for bound in reversed(bounds):
        if not 0 < bound <= ARRAY_COUNT_MAX:
            raise NoLayoutError(f"an array of {bound}")
        item = ListOf(item, bound)
    return item


class _Reader:
    """Reads type objects in CDR 2, little endian."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._data = data
        self._left = limits.dds_type_members_count
        self._limits = limits
        self.at = 0

    def _take(self, width: int) -> int:
        self.at += -self.at % min(width, 4)
        end = self.at + width
        if end > len(self._data):
            raise DecodeError("type object ends early", self.at)
        value = int.from_bytes(self._data[self.at : end], "little")
        self.at = end
        return value

    def delimited(self) -> int:
        """The end of what follows, by its length."""
        length = self._take(4)
        end = self.at + length
        if end > len(self._data):
            raise DecodeError("type object runs past the end", self.at)
        return end

    def count(self) -> int:
        """A count of items, each of which takes at least one byte."""
        count = self._take(4)
        if count > len(self._data) - self.at:
            raise DecodeError(f"{count} items in a type object", self.at)
        return count

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            limit = self._limits.dds_type_members_count
            raise LimitError("dds_type_members_count", limit + 1, limit)

    def _text(self) -> str:
        length = self.count()
        octets = self._data[self.at : self.at + length]
        self.at += length
        return octets.removesuffix(b"\0").decode("utf-8", "replace")

    def type_id(self, depth: int = 0) -> TypeId:
        """A TypeIdentifier."""
        if depth > self._limits.dds_type_depth:
            raise LimitError("dds_type_depth", depth, self._limits.dds_type_depth)
        self._spend()
        kind = self._take(1)
        if kind in (_COMPLETE, _MINIMAL):
            self.at += _HASH_LEN
            return TypeId(kind, self._data[self.at - _HASH_LEN : self.at])
        if kind in (0x70, 0x72):
            return TypeId(kind, bounds=(self._take(1),))
        if kind in (0x71, 0x73):
            return TypeId(kind, bounds=(self._take(4),))
        if kind in (0x80, 0x81, 0x90, 0x91, 0xA0, 0xA1):
            return self._collection(kind, depth)
        if kind == 0xB0:
            self.at = self.delimited()
        return TypeId(kind)

    def _collection(self, kind: int, depth: int) -> TypeId:
        self._take(1)  # equivalence kind
        self._take(2)  # flags of the elements
        width = 4 if kind & 1 else 1
        if kind in (0x90, 0x91):
            bounds = tuple(self._take(width) for _ in range(self.count()))
        else:
            bounds = (self._take(width),)
        element = self.type_id(depth + 1)
        key = None
        if kind in (0xA0, 0xA1):
            self._take(2)
            key = self.type_id(depth + 1)
        return TypeId(kind, bounds=bounds, element=element, key=key)

    def type_object(self) -> TypeObject | None:
        """A TypeObject; None if it is minimal or of a kind that is not read."""
        end = self.delimited()
        found = None
        if self._take(1) == _COMPLETE:
            found = self._complete(self._take(1))
        self.at = end
        return found

    def _complete(self, kind: int) -> TypeObject | None:
        if kind == STRUCT:
            flags, base, name = self._head(with_base=True)
            members = tuple(self._sequence_of_members(union=False))
            return TypeObject(kind, flags, name, base, members)
        if kind == UNION:
            flags, _, name = self._head(with_base=False)
            end = self.delimited()
            self._take(2)
            discriminator = self.type_id()
            self.at = end
            members = tuple(self._sequence_of_members(union=True))
            return TypeObject(kind, flags, name, None, members, discriminator)
        if kind == ALIAS:
            flags, _, name = self._head(with_base=False)
            self.delimited()
            self._take(2)
            return TypeObject(kind, flags, name, element=self.type_id())
        if kind in (ENUM, BITMASK):
            if kind == BITMASK:
                self.delimited()
            return self._enumerated(kind)
        if kind in (SEQUENCE, ARRAY, MAP):
            return self._collection_object(kind)
        return None

    def _head(self, *, with_base: bool) -> tuple[int, TypeId | None, str]:
        """Flags, base type and name of a type."""
        flags = self._take(2)
        end = self.delimited()
        base = self.type_id() if with_base else None
        name = self._type_detail(end)
        self.at = end
        return flags, base, name

    def _type_detail(self, end: int) -> str:
        """The name in a CompleteTypeDetail; annotations are passed over."""
        if self._take(1):
            self.at = self.delimited()
        if self._take(1):
            self.at = self.delimited()
        return self._text() if self.at < end else ""

    def _sequence_of_members(self, *, union: bool) -> Iterator[Member]:
        end = self.delimited()
        for _ in range(self.count()):
            self._spend()
            member_end = self.delimited()
            id_, flags = self._take(4), self._take(2)
            type_id = self.type_id()
            labels: tuple[int, ...] = ()
            if union:
                labels = tuple(_signed(self._take(4)) for _ in range(self.count()))
            yield Member(self._text(), id_, flags, type_id, labels)
            self.at = member_end
        self.at = end

    def _enumerated(self, kind: int) -> TypeObject:
        flags = self._take(2)
        end = self.delimited()
        bit_bound = self._take(2)
        name = self._type_detail(end)
        self.at = end
        end = self.delimited()
        literals = []
        for _ in range(self.count()):
            self._spend()
            literal_end = self.delimited()
            if kind == ENUM:
                common_end = self.delimited()
                number = _signed(self._take(4))
                self.at = common_end
            else:
                number = self._take(2)
                self._take(2)
            literals.append((self._text(), number))
            self.at = literal_end
        self.at = end
        return TypeObject(kind, flags, name, literals=tuple(literals), bit_bound=bit_bound)

    def _collection_object(self, kind: int) -> TypeObject:
        if kind == ARRAY:
            self.delimited()
        flags = self._take(2)
        end = self.delimited()
        if kind == ARRAY:
            bounds = tuple(self._take(4) for _ in range(self.count()))
        else:
            bounds = (self._take(4),)
        self.at = end
        found = []
        for _ in range(2 if kind == MAP else 1):
            element_end = self.delimited()
            self._take(2)
            found.append(self.type_id())
            self.at = element_end
        key = found[0] if kind == MAP else None
        return TypeObject(kind, flags, bounds=bounds, element=found[-1], key=key)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
