"""Rules: which payloads are decoded, by what, into which columns.

A rule is plain data, so that it travels to Spark's workers; its decoder is made where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import pyarrow as pa

from elea.decode.columns.base import Decoder, ValueDecoder
from elea.decode.columns.cbor_items import CborDecoder
from elea.decode.columns.ipc import IpcDecoder
from elea.decode.columns.json_lines import JsonDecoder, JsonTextDecoder
from elea.decode.columns.protobuf import ProtobufDecoder
from elea.decode.columns.ros import RosDecoder, envelope_of, ros_layout
from elea.decode.columns.slices import LayoutDecoder
from elea.decode.columns.texts import TextDecoder
from elea.decode.columns.types import TEXT, checked, columns_of
from elea.decode.formats import DECODERS, format_named, is_layout
from elea.decode.layout import Layout, Structure, parse_layout
from elea.encoding import Encoding
from elea.errors import ConfigError, EleaError, KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.ros.formats.names import long_type
from elea.ros.formats.shipped import shipped

ROS: Final = "ros2"
DDS: Final = "dds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What payloads of some keys or encodings are.

    Args:
        decoder: One of `DECODERS`.
        key_expr: The keys it is for; all if None.
        encoding: The encoding it is for, with its schema or without; all if None.
        layout: What the payloads hold, as `{temp: f64, room: string}`.
        message: The name of a message type, in `definitions`.
        definitions: A descriptor set of Protobuf, or the text of ROS message definitions.
        into: The column that takes all of it, as a structure; without it, each member is a column.
        topic: For `ros2`: a template of names, as `/{robot}/imu`, whose fields are columns.
        nodes: For `ros2`: names of nodes by the gids of their publishers, as JSON.
        key_layout: For `dds`: what serialised keys hold, so that deletions have key columns.

    Raises:
        ConfigError: it contradicts itself, or there is no such decoder.
    """

    decoder: str
    key_expr: str | None = None
    encoding: str | None = None
    layout: str | None = None
    message: str | None = None
    definitions: bytes | None = None
    into: str | None = None
    topic: str | None = None
    nodes: str | None = None
    key_layout: str | None = None

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            legal = ", ".join(DECODERS)
            raise ConfigError("decoder", f"saw {self.decoder!a}; legal are {legal}")
        if self.key_expr is not None:
            KeyExpr(self.key_expr)
        self.compiled()  # raises here, on the driver, and not for the first row

    def compiled(self) -> Decoder:
        """Its decoder; one for all rules that say the same."""
        return _decoder(self.decoder, self.layout, self.message, self.definitions)

    def columns(self) -> pa.Schema:
        """What its samples become."""
        found = self.payload_columns()
        if self.decoder == ROS:
            return pa.schema([*envelope_of(self.topic), *found])
        return found

    def payload_columns(self) -> pa.Schema:
        """What its payloads become."""
        return columns_of(self.compiled().layout, self.into)

    def takes(self, key: str, encoding: str) -> bool:
        """Whether it is for a sample."""
        if self.encoding not in (None, encoding, encoding.partition(";")[0]):
            return False
        return self.takes_key(key)

    def takes_key(self, key: str) -> bool:
        """Whether it is for samples of a key."""
        if self.key_expr is None:
            return True
        try:
            return KeyExpr(self.key_expr).includes(KeyExpr(key))
        except (KeyExprError, LimitError):
            return False  # a key that is none is for nobody


@lru_cache(maxsize=256)
def _decoder(
    name: str, layout: str | None, message: str | None, definitions: bytes | None
) -> Decoder:
    try:
        found = None if layout is None else parse_layout(layout)
        make = _MAKERS.get(name)
        if make is not None:
            return make(found, message, definitions)
        return _by_value(name, found)
    except ConfigError:
        raise
    except EleaError as error:
        raise ConfigError("layout", str(error)) from error


def decoder_for(encoding: str, key: str, options: Mapping[str, bytes] | None = None) -> Rule | None:
    """The rule for samples of an encoding that nobody declared; None: their payloads are left.

    The schema of the encoding says what is in the payload: a layout, as in
    `application/cdr;{x: f64}`, or the name of a message type, as in `application/protobuf;pkg.Pose`
    and `application/cdr;sensor_msgs/msg/Imu`, whose definitions are among the options.

    Args:
        encoding: As samples name it.
        key: The key of such a sample, for messages.
        options: Definitions, by the names of message types; `*` is for those that are not there.

    Raises:
        ConfigError: the schema of the encoding, or the definitions, cannot be used.
    """
    name, _, schema = str(Encoding(encoding)).partition(";")
    found = format_named(name)
    if found is None:
        return None
    decoder = found.name
    try:
        if is_layout(schema):
            return Rule(decoder=decoder, encoding=encoding, layout=schema)
        if found.read is not None:
            return Rule(decoder=decoder, encoding=encoding)
        definitions = (options or {}).get(schema, (options or {}).get("*"))
        if schema and definitions is not None:
            return Rule(decoder=decoder, encoding=encoding, message=schema, definitions=definitions)
    except ConfigError as error:
        raise ConfigError(f"{key} ({encoding})", str(error)) from error
    return None


def _json(layout: Layout | None, _message: str | None, _definitions: bytes | None) -> Decoder:
    return JsonTextDecoder() if layout is None else JsonDecoder(checked(layout))


def _cbor(layout: Layout | None, _message: str | None, _definitions: bytes | None) -> Decoder:
    return CborDecoder(None if layout is None else checked(layout))


def _text(layout: Layout | None, _message: str | None, _definitions: bytes | None) -> Decoder:
    return TextDecoder(TEXT if layout is None else layout)


def _serialized(layout: Layout | None, _message: str | None, _definitions: bytes | None) -> Decoder:
    if layout is None:
        raise ConfigError("layout", "the serialization format does not say what it holds; give one")
    return LayoutDecoder(checked(layout), cdr=False)


def _cdr(layout: Layout | None, message: str | None, definitions: bytes | None) -> Decoder:
    if layout is None:
        if message is None or definitions is None:
            raise ConfigError("layout", "CDR does not say what it holds; give one, or a message")
        layout = ros_layout(definitions.decode(errors="replace"), message)
    return LayoutDecoder(checked(layout), cdr=True)


def _ros2(layout: Layout | None, message: str | None, definitions: bytes | None) -> Decoder:
    if layout is not None or message is None:
        raise ConfigError("message", "ROS messages take the name of a type, and no layout")
    text = _shipped(message) if definitions is None else definitions.decode(errors="replace")
    return RosDecoder.of_text(text, message)


def _shipped(message: str) -> str:
    name = long_type(message)
    if name not in shipped():
        raise ConfigError("definitions", f"no definition of {name} is shipped; give a file")
    return shipped().message(name).text


def _protobuf(layout: Layout | None, message: str | None, definitions: bytes | None) -> Decoder:
    if message is None or definitions is None or layout is not None:
        raise ConfigError("message", "Protobuf takes a message and a descriptor set, no layout")
    decoder = ProtobufDecoder(definitions, message)
    checked(decoder.layout)
    return decoder


def _arrow(layout: Layout | None, _message: str | None, _definitions: bytes | None) -> Decoder:
    if not isinstance(layout, Structure):
        raise ConfigError("layout", "tables have columns: write {name: type, ...}")
    checked(layout)
    return IpcDecoder(layout)


# Formats that become columns in a faster or another way than payload by payload.
_MAKERS: Final[dict[str, Callable[[Layout | None, str | None, bytes | None], Decoder]]] = {
    "json": _json,
    "cbor": _cbor,
    "text": _text,
    "serialized": _serialized,
    "cdr": _cdr,
    "protobuf": _protobuf,
    "arrow": _arrow,
    ROS: _ros2,
    DDS: _cdr,
}


def _by_value(name: str, layout: Layout | None) -> Decoder:
    """The decoder of a format that has no faster way: payload by payload."""
    found = DECODERS[name]
    if found.read is not None:
        return ValueDecoder(found.read, None if layout is None else checked(layout))
    if found.read_layout is None or layout is None:
        raise ConfigError("layout", f"{name} does not say what it holds; give one")
    return ValueDecoder(partial(found.read_layout, checked(layout)), layout)
