"""Schemas of types, as a DDS bridge publishes them under `@schema/cdr/<name>/<hash>` (D-874).

With them, CDR whose encoding names a type, `application/cdr;fleet::Pose`, can be decoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from elea.decode.layout import Layout, Structure, parse_layout
from elea.encoding import Encoding
from elea.errors import EleaError

PREFIX: Final = "@schema/cdr/"
KEY_EXPR: Final = f"{PREFIX}**"
_CDR: Final = "application/cdr"
_VERSIONS_COUNT_MAX: Final = 64  # of one name
_NAMES_COUNT_MAX: Final = 65_536


def type_of_encoding(encoding: str) -> str | None:
    """Return the type that an encoding of CDR names; None: it names none.

    Example:
        >>> type_of_encoding("application/cdr;fleet::Pose"), type_of_encoding("text/plain")
        ('fleet::Pose', None)
    """
    name, _, schema = encoding.partition(";")
    return schema or None if name == _CDR else None


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """What payloads of a type hold.

    Attributes:
        name: As encodings have it.
        layout: Of its values, as text.
        key_layout: Of serialised keys, as text; None: it has no key.
    """

    name: str
    layout: str
    key_layout: str | None = None

    @classmethod
    def read(cls, payload: bytes) -> TypeSchema | None:
        """Return the schema in a payload; None if it is none, or layouts cannot say the type."""
        try:
            told = json.loads(payload)
            name, layout, key_layout = told["name"], told["layout"], told.get("key_layout")
            parse_layout(layout)
            if key_layout is not None:
                parse_layout(key_layout)
        except (ValueError, TypeError, KeyError, AttributeError, EleaError, RecursionError):
            return None
        return cls(name, layout, key_layout) if isinstance(name, str) else None

    def parsed(self) -> Layout:
        """Return the layout of its values."""
        return parse_layout(self.layout)


class TypeSchemas:
    """Schemas by name; of several versions, the newest that has all members of the others."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[str, TypeSchema]] = {}  # by layout, the newest last
        self._layouts: dict[str, Layout] = {}  # of those that were asked for

    def __iter__(self) -> Iterator[TypeSchema]:
        return (found for name in self._versions if (found := self.get(name)) is not None)

    def add(self, payload: bytes) -> TypeSchema | None:
        """Take a published schema; None if it cannot be used. Newer ones are added later."""
        found = TypeSchema.read(payload)
        if found is None:
            return None
        versions = self._versions.get(found.name)
        if versions is None:
            if len(self._versions) >= _NAMES_COUNT_MAX:
                return None
            versions = self._versions[found.name] = {}
        self._layouts.pop(found.name, None)
        versions.pop(found.layout, None)
        versions[found.layout] = found
        if len(versions) > _VERSIONS_COUNT_MAX:
            del versions[next(iter(versions))]
        return found

    def get(self, name: str) -> TypeSchema | None:
        """Return the schema for payloads of a type; None: there is none."""
        versions = list(self._versions.get(name, {}).values())
        if len(versions) < 2:
            return versions[0] if versions else None
        members = [_members(one) for one in versions]
        every = set().union(*members)
        for schema, found in zip(reversed(versions), reversed(members), strict=True):
            if found == every:
                return schema
        return versions[-1]

    def layout_of(self, encoding: Encoding) -> Layout | None:
        """Return what payloads of an encoding hold; None: it names no type that has a schema."""
        if encoding.id != Encoding.APPLICATION_CDR.id:
            return None
        name = type_of_encoding(str(encoding))
        if name is None:
            return None
        found = self._layouts.get(name)
        if found is None:
            schema = self.get(name)
            if schema is None:
                return None
            found = self._layouts[name] = schema.parsed()
        return found


def _members(schema: TypeSchema) -> set[tuple[str, Layout]]:
    layout = schema.parsed()
    return set(layout.members) if isinstance(layout, Structure) else {("", layout)}
