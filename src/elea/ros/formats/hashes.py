"""Hashes of types, RIHS01: SHA-256 of a type's description (R2-351 to R2-354)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from elea.ros.formats.definitions import Definition, FieldType, in_order

PREFIX: Final = "RIHS01_"
_NESTED: Final = 1
_IDS: Final = {
    "int8": 2,
    "uint8": 3,
    "int16": 4,
    "uint16": 5,
    "int32": 6,
    "uint32": 7,
    "int64": 8,
    "uint64": 9,
    "float32": 10,
    "float64": 11,
    "char": 3,  # of `.msg`, where it is a number; 13 is that of IDL
    "bool": 15,
    "byte": 16,
    "string": 17,
    "wstring": 18,
}
_BOUNDED: Final = {"string": 21, "wstring": 22}


def type_hash(name: str, definitions: Mapping[str, Definition]) -> str:
    """The hash of a type, as keys have it.

    Args:
        name: Of a message, or of a whole service or action.
        definitions: Of it and all that it uses.

    Raises:
        KeyError: one of those is not defined.

    Example:
        >>> from elea.ros.formats.definitions import parse_message
        >>> text = parse_message("string data", "std_msgs/msg/String")
        >>> type_hash(text.name, {text.name: text})[:23]
        'RIHS01_df668c740482bbd4'
    """
    text = json.dumps(description(name, definitions), ensure_ascii=False)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def description(name: str, definitions: Mapping[str, Definition]) -> dict[str, object]:
    """The description that is hashed; get_type_description tells the same."""
    used = sorted(in_order(name, definitions))
    return {
        "type_description": _described(definitions[name]),
        "referenced_type_descriptions": [_described(definitions[one]) for one in used],
    }


def _described(definition: Definition) -> dict[str, object]:
    fields = [
        {"name": field.name, "type": _described_type(field.type)} for field in definition.members
    ]
    return {"type_name": definition.name, "fields": fields}


def _described_type(type: FieldType) -> dict[str, object]:
    number = _NESTED if type.is_nested else _BOUNDED[type.base] if type.bound else _IDS[type.base]
    return {
        "type_id": number + type.repeat,
        "capacity": type.count,
        "string_capacity": type.bound,
        "nested_type_name": type.base if type.is_nested else "",
    }
