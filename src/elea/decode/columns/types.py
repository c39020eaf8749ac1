"""From layouts to the types of columns, and from values to what fits them.

A layout says what a payload holds, in the language of `elea.decode.layout`. Tables have the
types that Spark knows: unsigned integers take the next larger signed one, `u64` DECIMAL(20), 128
bits DECIMAL(38), a tuple is a structure with the members `_0`, `_1`, ..., an enumeration its name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import pyarrow as pa

from elea.decode.layout import (
    PRIMITIVES,
    Enumeration,
    Layout,
    ListOf,
    MapOf,
    OptionalOf,
    Primitive,
    Structure,
    TupleOf,
    UnionOf,
)
from elea.decode.values import Enumerator
from elea.errors import InvalidValueError, LimitError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.layouts import Bytes, Span, Stamp

TEXT: Final = PRIMITIVES["string"]
VALUE: Final = "value"  # the column of a payload that has no members
STAMP: Final = pa.timestamp("us", tz="UTC")
SPAN: Final = pa.int64()  # nanoseconds: Spark has no such interval

_PRIMITIVES: Final = {
    "bool": pa.bool_(),
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "i128": pa.decimal128(38, 0),
    "u8": pa.int16(),
    "u16": pa.int32(),
    "u32": pa.int64(),
    "u64": pa.decimal128(20, 0),
    "u128": pa.decimal128(38, 0),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "char": pa.string(),
    "string": pa.string(),
    "wstring": pa.string(),
    "bytes": pa.binary(),
}
_SQL: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}
_DECIMAL_DIGITS_MAX: Final = 38


def table_type(layout: Layout) -> pa.DataType:
    """The type of a column that holds values of a layout."""
    match layout:
        case Primitive():
            return _PRIMITIVES[layout.name]
        case Enumeration():
            return pa.string()
        case Stamp():
            return STAMP
        case Span():
            return SPAN
        case Bytes():
            return pa.binary()
        case ListOf():
            return pa.list_(pa.field("element", table_type(layout.item)))
        case MapOf():
            return pa.map_(table_type(layout.name), table_type(layout.value))
        case OptionalOf():
            return table_type(layout.item)
        case TupleOf() | Structure() | UnionOf():
            return pa.struct([(name, table_type(member)) for name, member in members(layout)])


def members(layout: Structure | TupleOf | UnionOf) -> list[tuple[str, Layout]]:
    """Names and layouts of what is inside."""
    if isinstance(layout, (Structure, UnionOf)):
        return list(layout.members)
    return [(f"_{place}", item) for place, item in enumerate(layout.items)]


def columns_of(layout: Layout, into: str | None) -> pa.Schema:
    """The columns that payloads of a layout become: their members, or one column `into`."""
    is_table = isinstance(layout, (Structure, TupleOf, UnionOf))
    if into is None and is_table and not isinstance(layout, (Stamp, Span)):
        assert isinstance(layout, (Structure, TupleOf, UnionOf))
        return pa.schema([(name, table_type(member)) for name, member in members(layout)])
    return pa.schema([(into or VALUE, table_type(layout))])


def columns_count(layout: Layout) -> int:
    """How many columns a layout is, those inside of it included."""
    match layout:
        case Stamp() | Span() | Bytes():
            return 1
        case OptionalOf():
            return columns_count(layout.item)
        case Structure() | TupleOf() | UnionOf():
            return 1 + sum(columns_count(member) for _, member in members(layout))
        case ListOf():
            return 1 + columns_count(layout.item)
        case MapOf():
            return 1 + columns_count(layout.value)
        case _:
            return 1


def checked(layout: Layout) -> Layout:
    """A layout that a table may have.

    Raises:
        LimitError: it has too many columns.
        InvalidValueError: two names differ in upper and lower case only, which Spark takes for one.
    """
    count = columns_count(layout)
    if count > DEFAULT_LIMITS.decode_columns_count:
        raise LimitError("decode_columns_count", count, DEFAULT_LIMITS.decode_columns_count)
    if isinstance(layout, Structure):
        names = [name.lower() for name, _ in layout.members]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidValueError("layout", f"{', '.join(twice)}: the same name to Spark, twice")
    return layout


def sql_type(type: pa.DataType) -> str:
    """What Spark calls a type."""
    if pa.types.is_dictionary(type):
        return sql_type(type.value_type)
    if pa.types.is_struct(type):
        inner = ", ".join(f"{quoted(field.name)}: {sql_type(field.type)}" for field in type)
        return f"STRUCT<{inner}>"
    if pa.types.is_map(type):
        return f"MAP<{sql_type(type.key_type)}, {sql_type(type.item_type)}>"
    if pa.types.is_list(type):
        return f"ARRAY<{sql_type(type.value_type)}>"
    if pa.types.is_decimal(type):
        return f"DECIMAL({type.precision}, {type.scale})"
    return _SQL[type]


def quoted(name: str) -> str:
    """A name for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def fit(value: object, layout: Layout, at: str = "") -> object:
    """A value as a column of its layout takes it.

    Raises:
        ValueError: it does not fit; the reason says where.
    """
    if value is None:
        return None
    match layout:
        case Primitive():
            return _fit_primitive(value, layout.name, at)
        case Stamp() | Span():
            return _fit_time(value, layout, at)
        case OptionalOf():
            return fit(value, layout.item, at)
        case Structure() | TupleOf() | UnionOf():
            return _fit_members(value, layout, at)
        case ListOf():
            if not isinstance(value, list):
                raise _misfit(value, "a list", at)
            if layout.count is not None and len(value) != layout.count:
                raise ValueError(f"{_place(at)}saw {len(value)} items, there are {layout.count}")
            if isinstance(layout, Bytes):
                return bytes(value)
            return [fit(item, layout.item, f"{at}[]") for item in value]
        case MapOf():
            if not isinstance(value, dict):
                raise _misfit(value, "a map", at)
            return [
                (fit(name, layout.name, f"{at}.*"), fit(inner, layout.value, f"{at}.*"))
                for name, inner in value.items()
            ]
        case Enumeration():
            return _enumerator(value, layout.members, at)


def _fit_members(
    value: object, layout: Structure | TupleOf | UnionOf, at: str
) -> dict[str, object]:
    if isinstance(value, list) and isinstance(layout, TupleOf):
        value = {f"_{place}": item for place, item in enumerate(value)}
    if not isinstance(value, dict):
        raise _misfit(value, "a structure", at)
    return {
        name: fit(value.get(name), member, f"{at}.{name}" if at else name)
        for name, member in members(layout)
    }


def _fit_time(value: object, layout: Stamp | Span, at: str) -> int:
    """Seconds and nanoseconds as one number, of microseconds for a time; these carry over."""
    if not isinstance(value, dict):
        raise _misfit(value, "sec and nanosec", at)
    seconds, ns = value["sec"], value["nanosec"]
    assert isinstance(seconds, int)
    assert isinstance(ns, int)
    if isinstance(layout, Stamp):
        return seconds * 1_000_000 + ns // 1_000
    return seconds * 1_000_000_000 + ns


def _fit_primitive(value: object, name: str, at: str) -> object:
    match name:
        case "bool":
            if not isinstance(value, bool):
                raise _misfit(value, "true or false", at)
            return value
        case "f32" | "f64":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise _misfit(value, "a number", at)
            try:
                return float(value)
            except OverflowError:
                raise _misfit(value, "a number that fits", at) from None
        case "string" | "wstring" | "char":
            text = value if isinstance(value, str) else as_text(value)
            if not text.isascii():
                text.encode()  # JSON can write half a character; no table can hold it
            return text
        case "bytes":
            return _octets(value, at)
    return _integer(value, name, at)


def _integer(value: object, name: str, at: str) -> object:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _misfit(value, "an integer", at)
    bits = int(name[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "i" else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise _misfit(value, f"{name}, {low} to {high}", at)
    if bits < 64 or name == "i64":
        return value
    if len(str(abs(value))) > _DECIMAL_DIGITS_MAX:
        raise _misfit(value, f"{_DECIMAL_DIGITS_MAX} digits at most", at)
    return Decimal(value)


def _octets(value: object, at: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):  # JSON has no octets; everybody writes them so
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            pass
    raise _misfit(value, "octets, or a text in base64", at)


def _enumerator(value: object, names: Mapping[str, int], at: str) -> str:
    number = value.number if isinstance(value, Enumerator) else value
    if isinstance(number, str):
        if number not in names:
            raise _misfit(number, f"one of {', '.join(names)}", at)
        return number
    if isinstance(number, bool) or not isinstance(number, int):
        raise _misfit(value, "a name or a number", at)
    # A newer publisher has names we do not know: its number is better than nothing.
    return next((name for name, known in names.items() if known == number), str(number))


def as_text(value: object) -> str:
    """A value as JSON; octets in base64."""
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _misfit(value: object, legal: str, at: str) -> ValueError:
    shown = ascii(value) if not isinstance(value, (dict, list)) else type(value).__name__
    return ValueError(f"{_place(at)}saw {shown[:60]}, legal is {legal}")


def _place(at: str) -> str:
    return f"{at}: " if at else ""
