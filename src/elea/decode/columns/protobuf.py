"""Protobuf, by a descriptor set: what `protoc --descriptor_set_out --include_imports` writes."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from elea.decode.columns.base import Decoder
from elea.decode.columns.types import fit
from elea.decode.layout import PRIMITIVES, Enumeration, Layout, ListOf, MapOf, Structure
from elea.errors import ConfigError, MissingDependencyError
from elea.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_SCALARS: Final = {  # by the numbers of their types
    1: "f64",
    2: "f32",
    3: "i64",
    4: "u64",
    5: "i32",
    6: "u64",  # fixed64
    7: "u32",  # fixed32
    8: "bool",
    9: "string",
    12: "bytes",
    13: "u32",
    15: "i32",  # sfixed32
    16: "i64",
    17: "i32",  # sint32
    18: "i64",
}
_ENUM: Final = 14


class ProtobufDecoder(Decoder):
    """One message type of a descriptor set.

    Args:
        descriptors: The octets of a `FileDescriptorSet`.
        message: The full name of the message type.

    Raises:
        ConfigError: it is no descriptor set, or has no such message, or one that holds itself.
        MissingDependencyError: the library is not installed.
    """

    def __init__(self, descriptors: bytes, message: str) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
            from google.protobuf.message import DecodeError
        except ModuleNotFoundError as error:
            raise MissingDependencyError("decoding Protobuf", "protobuf") from error
        pool = descriptor_pool.DescriptorPool()
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
            for file in files.file:
                pool.Add(file)
            found = pool.FindMessageTypeByName(message)
        except (DecodeError, KeyError, TypeError, ValueError) as error:
            reason = f"no message {message!a} in the descriptor set: {error}"
            raise ConfigError("definitions", reason) from error
        self._message = message_factory.GetMessageClass(found)
        self._descriptor = found
        self._failure = DecodeError
        super().__init__(_message_layout(found, 1))

    def fast(self, payloads: pa.Array) -> tuple[list[tuple[pa.Array, pa.Array]], Iterable[int]]:
        """Messages are parsed one by one, by compiled code; their fields are taken by columns."""
        rows: list[int] = []
        messages: list[Any] = []
        rest: list[int] = []
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                messages.append(self._message.FromString(payload))
                rows.append(row)
            except self._failure:
                rest.append(row)
        try:
            values = self._columns(messages)
        except (ValueError, TypeError, pa.ArrowException):  # some text is no UTF-8
            return [], range(len(payloads))
        return [(pa.array(rows, pa.int64()), values)], rest

    def _columns(self, messages: list[Any]) -> pa.Array:
        assert isinstance(self.layout, Structure)
        layouts = dict(self.layout.members)
        columns = []
        for member in self.type:
            field = self._descriptor.fields_by_name.get(member.name)
            if field is None:  # of an empty message
                values: Iterable[object] = [None] * len(messages)
            elif _is_plain(field):
                values = map(attrgetter(member.name), messages)
            else:
                layout = layouts[member.name]
                values = [fit(_value(message, field), layout) for message in messages]
            columns.append(pa.array(list(values), member.type))
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def value(self, payload: bytes) -> object:
        try:
            message = self._message.FromString(payload)
        except self._failure as error:
            raise ValueError(f"no {self._descriptor.full_name}: {error}") from None
        return _plain(message, self._descriptor)


def _message_layout(descriptor: Descriptor, depth: int) -> Layout:
    if depth > DEFAULT_LIMITS.decode_depth:
        reason = f"{descriptor.full_name} holds itself, or is deeper than"
        raise ConfigError("definitions", f"{reason} {DEFAULT_LIMITS.decode_depth}")
    if not descriptor.fields:
        # A structure has a member at least; nobody names a field so.
        return Structure((("_empty", PRIMITIVES["bool"]),))
    members = tuple((field.name, _field_layout(field, depth)) for field in descriptor.fields)
    return Structure(members)


def _field_layout(field: FieldDescriptor, depth: int) -> Layout:
    if _is_map(field):
        name, value = field.message_type.fields
        return MapOf(_one_layout(name, depth), _one_layout(value, depth))
    layout = _one_layout(field, depth)
    return ListOf(layout) if field.is_repeated else layout


def _one_layout(field: FieldDescriptor, depth: int) -> Layout:
    if field.message_type is not None:
        return _message_layout(field.message_type, depth + 1)
    if field.type == _ENUM:
        return Enumeration({value.name: value.number for value in field.enum_type.values})
    return PRIMITIVES[_SCALARS[field.type]]


def _is_map(field: FieldDescriptor) -> bool:
    type = field.message_type
    return field.is_repeated and type is not None and type.GetOptions().map_entry


def _is_plain(field: FieldDescriptor) -> bool:
    """Whether the attribute of a message is the value of the column."""
    scalar = _SCALARS.get(field.type, "u64")
    return scalar != "u64" and not (field.is_repeated or field.has_presence)


def _plain(message: Any, descriptor: Descriptor) -> dict[str, object]:
    return {field.name: _value(message, field) for field in descriptor.fields}


def _value(message: Any, field: FieldDescriptor) -> object:
    """A field as plain values; one that knows whether it is set is null if it is not."""
    value = getattr(message, field.name)
    inner = field.message_type
    if _is_map(field):
        held = inner.fields[1].message_type
        return {name: one if held is None else _plain(one, held) for name, one in value.items()}
    if field.is_repeated:
        return [one if inner is None else _plain(one, inner) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return value if inner is None else _plain(value, inner)
