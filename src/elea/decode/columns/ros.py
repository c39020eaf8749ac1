"""Messages of ROS 2 as columns: by their definitions, with what keys and attachments say.

A rule has the text of a definition, with all that it uses, and is for the keys of one hash: which
definition decodes which row is decided by the row's key. Nothing is looked up where rows are
decoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.columns.slices import LayoutDecoder
from elea.decode.columns.types import STAMP, checked
from elea.decode.columns.walk import Gather, NoSlicesError, Walk
from elea.decode.layout import Layout, ListOf, Primitive, Structure
from elea.errors import ConfigError, DecodeError, EleaError, InvalidValueError
from elea.keyexpr.template import KeyFormat
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.attachment import ATTACHMENT_LEN, GID_LEN
from elea.ros.formats.kept import KEPT, parse_kept
from elea.ros.formats.keys import BUFFER_CPU, NO_HASH, TopicKey, parse_key
from elea.ros.formats.layouts import Bytes, Span, Stamp, layout_of
from elea.ros.formats.library import Library, MessageType
from elea.ros.formats.messages import plain
from elea.ros.formats.names import dds_type, long_type
from elea.ros.formats.shipped import RELEASES, shipped
from elea.ros.formats.tokens import Kind, Token, parse_token

_PADDING_MAX: Final = 3
# What every row of ROS has, before the members of its message (R2-381).
ENVELOPE: Final = pa.schema(
    [
        ("ros_topic", pa.string()),
        ("ros_type", pa.string()),
        ("ros_hash", pa.string()),
        ("ros_domain", pa.int32()),
        ("ros_node", pa.string()),
        ("ros_gid", pa.binary()),
        ("ros_seq", pa.int64()),
        ("ros_source_time", STAMP),
        ("ros_hash_ok", pa.bool_()),
    ]
)


def ros_layout(text: str, name: str) -> Layout:
    """The layout of a message type by its definition, times as their members.

    Args:
        text: The definition, and behind it those of the types it uses.
        name: Its name, as `sensor_msgs/msg/Imu`; of a type that is behind it, too.

    Raises:
        ConfigError: a line is none, or a type is not defined.
    """
    kind = _kind(text, name)
    fields = (field for one in kind.definitions.values() for field in one.fields)
    if any(field.type.base == "wstring" for field in fields):
        raise ConfigError(
            "definitions", f"{kind.name} has wide texts, which the decoder ros2 reads"
        )
    return layout_of(kind.name, kind.definitions, exact=True)


def _kind(text: str, name: str) -> MessageType:
    if len(text) > DEFAULT_LIMITS.config_len:
        raise ConfigError("definitions", f"longer than {DEFAULT_LIMITS.config_len} octets")
    try:
        name = long_type(name)
        return Library.of_text(text, name).message(name)
    except ConfigError:
        raise
    except EleaError as error:
        raise ConfigError("definitions", str(error)) from error


class RosDecoder(LayoutDecoder):
    """Messages of one type."""

    def __init__(self, kind: MessageType) -> None:
        super().__init__(checked(kind.layout), cdr=True)
        self.kind = kind

    @classmethod
    def of_text(cls, text: str, name: str) -> RosDecoder:
        """The decoder of a definition; raises as `ros_layout`."""
        return cls(_kind(text, name))

    def value(self, payload: bytes) -> object:
        try:
            message = self.kind.decode(payload)
        except DecodeError as error:
            raise ValueError(error.reason) from None
        return _with_bytes(plain(message), self.layout)

    def plan(self, walk: Walk) -> Gather:
        gather = super().plan(walk)
        if len(walk.payload) - walk.at > _PADDING_MAX:
            raise NoSlicesError
        return gather


def _with_bytes(value: Any, layout: Layout) -> Any:
    """A plain value in which lists of bytes are bytes, where a column has them so."""
    match layout:
        case Primitive(name="bytes"):
            return bytes(value)
        case Stamp() | Span() | Bytes() | Primitive():
            return value
        case ListOf():
            return [_with_bytes(item, layout.item) for item in value]
        case Structure():
            empty = {"structure_needs_at_least_one_member": 0}
            return {
                name: _with_bytes(value[name] if name in value else empty[name], member)
                for name, member in layout.members
            }
        case _:
            return value


def envelope_of(topic: str | None) -> pa.Schema:
    """The columns beside those of messages: what every row has, and the fields of a topic."""
    fields = [] if topic is None else KeyFormat(topic.removeprefix("/")).fields
    return pa.schema([*((name, pa.string()) for name in fields), *ENVELOPE])


def envelope(
    batch: pa.RecordBatch, topic: str | None, nodes: str | None = None
) -> dict[str, pa.Array]:
    """These columns for rows of a log; `nodes` is as `Rule` has it."""
    keys = batch.column("key")
    if not pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_encode()
    names = [_parsed(key) for key in keys.dictionary.to_pylist()]
    told: dict[str, list[Any]] = {
        "ros_topic": [None if one is None else one.name for one in names],
        "ros_type": [None if one is None else one.type for one in names],
        "ros_hash": [None if one is None else one.hash for one in names],
        "ros_domain": [None if one is None else one.domain for one in names],
    }
    if topic is not None:
        format = KeyFormat(topic.removeprefix("/"))
        found = [_fields(format, one) for one in names]
        told |= {name: [one.get(name) for one in found] for name in format.fields}
    schema = envelope_of(topic)
    columns = {
        name: pa.array(values, schema.field(name).type).take(keys.indices)
        for name, values in told.items()
    }
    attached = _attached(batch)
    if nodes is not None:
        attached["ros_node"] = _nodes_of(attached["ros_gid"], nodes)
    return {**columns, **attached}


def _nodes_of(gids: pa.Array, nodes: str) -> pa.Array:
    """The name of the node of each gid; null where it is not known."""
    names = _names(nodes)
    coded = gids.dictionary_encode()
    told = [names.get(gid) for gid in coded.dictionary.to_pylist()]
    return pa.array(told, pa.string()).take(coded.indices)


@lru_cache(maxsize=64)
def _names(nodes: str) -> dict[bytes, str]:
    return {bytes.fromhex(gid): name for gid, name in json.loads(nodes).items()}


def nodes_text(tokens: Iterable[str], type: str) -> str | None:
    """Names of nodes by the gids of their publishers of a type; None: there are none."""
    found = {}
    for key in tokens:
        try:
            token = parse_token(key)
        except InvalidValueError:
            continue
        if isinstance(token, Token) and token.kind is Kind.PUBLISHER and token.type == type:
            found[token.gid.hex()] = token.node_name
    return json.dumps(found) if found else None


def _attached(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    count = batch.num_rows
    nothing = {
        name: pa.nulls(count, ENVELOPE.field(name).type)
        for name in ("ros_node", "ros_gid", "ros_seq", "ros_source_time")
    }
    right = pa.repeat(pa.scalar(True), count)
    if "attachment" not in batch.schema.names or not count:
        return {**nothing, "ros_hash_ok": right}
    attached = batch.column("attachment")
    fits = pc.fill_null(pc.equal(pc.binary_length(attached), ATTACHMENT_LEN), False)
    whole = pc.if_else(fits, attached, pa.scalar(bytes(ATTACHMENT_LEN)))
    cut = whole.cast(pa.binary(ATTACHMENT_LEN))
    has_gid = pc.equal(pc.binary_slice(cut, 16, 17).view(pa.uint8()), GID_LEN)
    fits = pc.and_(fits, has_gid)
    ns = pc.binary_slice(cut, 8, 16).view(pa.int64())
    values = {
        "ros_seq": pc.binary_slice(cut, 0, 8).view(pa.int64()),
        "ros_source_time": pc.divide(ns, 1_000).view(STAMP),
        "ros_gid": pc.binary_slice(cut, 17, 33).cast(pa.binary()),
    }
    found = {
        name: pc.if_else(fits, values[name], pa.scalar(None, values[name].type)) for name in values
    }
    return {**nothing, **found, "ros_hash_ok": right}


@lru_cache(maxsize=65_536)
def _parsed(key: str) -> TopicKey | None:
    return parse_key(key)


def _fields(format: KeyFormat, topic: TopicKey | None) -> dict[str, str]:
    try:
        return {} if topic is None else format.parse(topic.name.removeprefix("/"))
    except EleaError:
        return {}


def dead_reason(key: str) -> str | None:
    """Why a row of ROS has no rule; None: it is none of ROS."""
    topic = _parsed(key)
    if topic is None:
        return None
    if topic.is_device_buffer:
        return "device buffer"
    return f"no definition of {topic.type} {topic.hash[:11]}…; give `definitions`"


def definitions_of(type: str, given: str | None = None, kept: Path | None = None) -> dict[str, str]:
    """Texts of a type's definitions by hash: given, kept beside a log, shipped.

    Raises:
        ConfigError: there is none, or the given one cannot be read.
    """
    found: dict[str, str] = {}
    if given is not None:
        kind = _kind(given, type)
        found[kind.hash] = kind.text
    for text in _kept_texts(type, kept):
        kind = _kind(text, type)
        found.setdefault(kind.hash, kind.text)
    for release in RELEASES:
        if type in shipped(release):
            kind = shipped(release).message(type)
            found.setdefault(kind.hash, kind.text)
    if not found:
        raise ConfigError("definitions", f"no definition of {type} is known; give a file")
    return found


def _kept_texts(type: str, kept: Path | None) -> Iterator[str]:
    file = None if kept is None else kept / KEPT
    if file is None or not file.is_file():
        return
    for entry in parse_kept(file.read_text(encoding="utf-8")).values():
        if entry["name"] == type:
            yield entry["text"]


def key_exprs_of(topic: str, type: str, hash: str = "*") -> tuple[str, ...]:
    """The keys of a topic, which may be a template, both forms of them."""
    name = str(KeyFormat(topic.removeprefix("/")).key_expr)
    key = f"*/{name}/{dds_type(type)}/{hash}"
    return key, f"{key}/{BUFFER_CPU}"


def key_exprs_of_type(type: str, hash: str) -> tuple[str, ...]:
    """All keys of a type and hash."""
    key = f"*/**/{dds_type(type)}/{hash}"
    return key, f"{key}/{BUFFER_CPU}"


def hash_keys(hash: str, newest_of_humble: str) -> Iterable[str]:
    """Under which hashes of keys a definition is used: Humble's has none (R2-355)."""
    yield hash
    if hash == newest_of_humble:
        yield NO_HASH


def humble_hash(type: str, known: dict[str, str]) -> str:
    """The hash of the definition for keys that have none."""
    if type in shipped("humble"):
        return shipped("humble").hash(type)
    return next(iter(known))
