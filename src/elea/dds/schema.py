"""Schemas: what the bridge tells of a type, so that payloads become columns (dds.md 23).

A schema is a JSON object under `@schema/cdr/<type name, / as §>/<hash>`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from elea.dds.idl import idl_of
from elea.dds.mapping import escape_chunk
from elea.dds.port import Tier, TopicType
from elea.dds.qos import CDR1
from elea.dds.representation import version_of
from elea.dds.xtypes import NoLayoutError, TypeSet
from elea.decode.layout import Layout, Structure, layout_text
from elea.decode.layout_reader import read_cdr
from elea.decode.layout_writer import write_cdr
from elea.decode.values import Enumerator
from elea.errors import EleaError
from elea.json5 import Json

PREFIX: Final = "@schema/cdr"
_INSTANCE_LEN_MAX: Final = 128
_SLASH: Final = "§"


def schema_key(name: str, digest: str) -> str:
    """Return the key of a schema.

    Example:
        >>> schema_key("std_msgs/msg/String", "00ff")
        '@schema/cdr/std_msgs§msg§String/00ff'
    """
    return f"{PREFIX}/{escape_chunk(name.replace('/', _SLASH))}/{digest}"


@dataclass(frozen=True, slots=True)
class Schema:
    """A type with what programs need to read it."""

    name: str
    type: TopicType
    layout: Layout | None  # None: layouts cannot say it
    keys: tuple[tuple[str, ...], ...]
    key_layout: Structure | None
    idl: str
    has_optional: bool = False

    @classmethod
    def of(cls, type_: TopicType, name: str) -> Schema:
        """Make the schema of an exact type; what cannot be read is left out."""
        idl, has_optional = "", False
        try:
            types = TypeSet.read(type_.hash, type_.mapping)
            has_optional = types.has_optional
            if types.top is None and len(types.objects) == 1:  # declared: its hash is our own
                types.root = next(iter(types.objects))
            keys = types.key_paths()
            idl = idl_of(types, type_.name)
            layout = types.layout()
        except (NoLayoutError, EleaError):
            return cls(name, type_, None, (), None, idl, has_optional)
        key_layout = None
        if keys and isinstance(layout, Structure):
            key_layout = _part(layout, [list(path) for path in keys])
        return cls(name, type_, layout, keys, key_layout, idl, has_optional)

    @property
    def digest(self) -> str:
        """The hash of the type, as 28 hex digits."""
        return self.type.hash.hex()

    @property
    def key(self) -> str:
        """Where the schema is found."""
        return schema_key(self.name, self.digest)

    def to_json(self, ros_hash: str = "") -> str:
        """Return the schema as JSON, with the type hash that ROS nodes announce (D-877)."""
        extensibility = self.type.extensibility
        found: dict[str, Json] = {
            "name": self.name,
            "dds_type": self.type.name,
            "hash": self.digest,
            "layout": None if self.layout is None else layout_text(self.layout),
            "keys": [".".join(path) for path in self.keys],
            "key_layout": None if self.key_layout is None else layout_text(self.key_layout),
            "extensibility": None if extensibility is None else extensibility.value,
            "idl": self.idl,
            "type_information": self.type.info.hex(),
            "type_mapping": self.type.mapping.hex(),
        }
        if ros_hash:
            found["ros_type_hash"] = ros_hash
        return json.dumps(found)

    def is_safe(self, payload: bytes) -> bool:
        """Whether the library may be given a payload.

        It reads past the end of optional members in CDR 1, and the process ends (F-41).
        """
        if not self.has_optional or version_of(payload) != CDR1:
            return True
        if self.layout is None:
            return False
        try:
            read_cdr(self.layout, payload)
        except (ValueError, RecursionError):
            return False
        return True

    def instance_text(self, payload: bytes, *, is_key: bool) -> str:
        """Return the key members of a sample as one chunk; empty if they cannot be read (D-502)."""
        layout = self.key_layout if is_key else self.layout
        if layout is None or self.key_layout is None:
            return ""
        try:
            value = read_cdr(layout, payload)
        except (ValueError, RecursionError):
            return ""
        texts = [_chunk(_at(value, path)) for path in self.keys]
        text = ",".join(texts)
        if len(text.encode()) <= _INSTANCE_LEN_MAX:
            return text
        serialised = write_cdr(self.key_layout, value, 2)[4:]
        return f"~{hashlib.md5(serialised, usedforsecurity=False).hexdigest()}"


class Schemas:
    """The schemas of a bridge, by the hash of their types."""

    def __init__(self) -> None:
        self._schemas: dict[bytes, Schema] = {}

    def __iter__(self) -> Iterator[Schema]:
        return iter(list(self._schemas.values()))

    def of(self, type_: TopicType, name: str = "") -> Schema | None:
        """Return the schema of a type; None unless the type is exact."""
        if type_.tier is not Tier.EXACT:
            return None
        found = self._schemas.get(type_.hash)
        if found is None:
            found = self._schemas[type_.hash] = Schema.of(type_, name or type_.name)
        return found

    def has_optional(self, type_: TopicType) -> bool:
        """Whether samples of a type in CDR 1 have to be looked at (F-41)."""
        schema = self.of(type_)
        return schema is not None and schema.has_optional

    def is_safe(self, type_: TopicType | None, payload: bytes) -> bool:
        """Whether the library may be given a payload of a type."""
        schema = None if type_ is None else self.of(type_)
        return schema is None or schema.is_safe(payload)


def _part(layout: Structure, paths: list[list[str]]) -> Structure:
    """The structure with the members of some paths alone."""
    members = []
    ids = []
    for index, (name, member) in enumerate(layout.members):
        below = [path[1:] for path in paths if path[0] == name]
        if not below:
            continue
        if isinstance(member, Structure) and all(below):
            member = _part(member, below)
        members.append((name, member))
        ids.append(layout.ids[index] if layout.ids else 0)
    return Structure(tuple(members), layout.appendable, tuple(ids) if layout.ids else ())


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _chunk(value: object) -> str:
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, Enumerator):
        names = {number: name for name, number in value.members.items()}
        text = names.get(value.number, str(value.number))
    else:
        text = str(value)
    if not text:
        return ""
    # `,` and `/` are escaped after the rest, so that the sign of an escape is not escaped again.
    return "".join(
        escape_chunk(part) if part not in (",", "/") else f"%{ord(part):02X}"
        for part in re.split("([,/])", text)
        if part
    )
