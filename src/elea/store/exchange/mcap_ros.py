"""MCAP as ROS 2 has it: profile `ros2`, schemas as texts, CDR (R2-702 to R2-707).

A channel per topic, type and hash; samples that are no messages of ROS, tokens, gaps and deletions
are left out and counted. What `ros2 bag` wants beside it is `metadata.yaml`, whose QoS and hashes
are those of the channels: readers compare them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
from mcap.reader import make_reader
from mcap.records import Channel, Message, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer

from elea.errors import EleaError, ExchangeError, InvalidValueError
from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.ros.formats.keys import NO_HASH, TopicKey, parse_key, topic_key
from elea.ros.formats.library import Library
from elea.ros.formats.names import long_type
from elea.ros.formats.qos import DEFAULT, QoS
from elea.ros.formats.tokens import Kind, Token, parse_token
from elea.ros.formats.xxh3 import xxh3_128
from elea.store.exchange.rows import (
    DEFAULTS,
    Gathering,
    Tell,
    Value,
    checked_rows,
    plain_rows,
)
from elea.store.log.schema import RowKind
from elea.timestamp import NTP64
from elea.version import VERSION

PROFILE: Final = "ros2"
SCHEMA_ENCODING: Final = "ros2msg"
METADATA: Final = "metadata.yaml"
_VERSION: Final = 9  # of metadata.yaml
_CHUNK_LEN: Final = 4 * 1024 * 1024
_CHANNELS_COUNT_MAX: Final = 65_535
_NS: Final = 1_000_000_000
_TIME_NS_MAX: Final = _NS << 32
_TOLD_COUNT_MAX: Final = 100
_MAGIC_LEN: Final = 8
_HASH: Final = "topic_type_hash"
_QOS: Final = "offered_qos_profiles"

Define = Callable[[str, str], str | None]  # the text of a type by name and hash


@dataclass(slots=True)
class _Topic:
    """A channel, and what was written to it."""

    id: int
    name: str
    type: str
    hash: str
    qos: tuple[QoS, ...]
    count: int = 0


@dataclass(slots=True)
class RosMcapRows:
    """Writes the messages of ROS among rows.

    Args:
        stream: Where to.
        define: Gives the text of a definition; None: it is not known, which is told once.
        tokens: Keys of tokens, which say the QoS of publishers.
        tell: Takes lines for people.

    Attributes:
        left_out: Rows that are no messages of ROS.
    """

    stream: BinaryIO
    define: Define
    tokens: Iterable[str] = ()
    tell: Tell = lambda _: None
    left_out: int = 0
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    _writer: Writer = field(init=False)
    _topics: dict[TopicKey, _Topic] = field(init=False, default_factory=dict)
    _schemas: dict[tuple[str, str], int] = field(init=False, default_factory=dict)
    _offered: dict[TopicKey, list[QoS]] = field(init=False, default_factory=dict)
    _texts: dict[str, str | None] = field(init=False, default_factory=dict)
    _told: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._writer = Writer(self.stream, chunk_size=_CHUNK_LEN, compression=CompressionType.ZSTD)
        self._writer.start(profile=PROFILE, library=f"elea/{VERSION}")
        for key in self.tokens:
            self._take_token(key)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows.

        Raises:
            ExchangeError: there are more topics than the format can name.
        """
        for row in plain_rows(batch):
            topic = parse_key(str(row["key"])) if row["kind"] == RowKind.PUT else None
            if topic is None or topic.is_device_buffer or topic.suffix.startswith("@"):
                self.left_out += 1
            elif not topic.is_legal:
                self.left_out += 1
                self._tell_of(topic)
            else:
                self._write(topic, row)

    def _tell_of(self, topic: TopicKey) -> None:
        """Tell once of a topic that readers would refuse the whole file for."""
        name = f"{topic.name!a} [{topic.type!a}]"
        if name not in self._told and len(self._told) < _TOLD_COUNT_MAX:
            self._told.add(name)
            self.tell(f"topic {name} is none that ROS can have, and is left out")

    def finish(self) -> None:
        """Write what the bag is, the index and the end."""
        self._writer.add_metadata("rosbag2", {"serialized_metadata": self.metadata("")})
        self._writer.finish()  # type: ignore[no-untyped-call]  # it says nothing of its types
        if self.left_out:
            self.tell(f"{self.left_out} rows are no messages of ROS and were left out")

    def _write(self, key: TopicKey, row: dict[str, Value]) -> None:
        received, hlc, payload = row["recv_ts"], row["hlc"], row["payload"]
        assert isinstance(received, int)
        assert isinstance(payload, bytes)
        log_ns = max(received, 0) * 1_000
        attached = row["attachment"]
        found = parse_attachment(attached) if isinstance(attached, bytes) else None
        if found is not None:
            publish_ns = found.source_time_ns
        elif isinstance(hlc, int):
            publish_ns = NTP64.from_value(hlc % (1 << 64)).as_nanos()
        else:
            publish_ns = log_ns
        topic = self._topic(key)
        number = topic.count if found is None else found.sequence_number
        self._writer.add_message(topic.id, log_ns, payload, max(publish_ns, 0), number % (1 << 32))
        topic.count += 1
        self.first_ns = log_ns if not self.count else min(self.first_ns, log_ns)
        self.last_ns = max(self.last_ns, log_ns)
        self.count += 1

    def _topic(self, key: TopicKey) -> _Topic:
        plain = TopicKey(key.domain, key.name, key.type, key.hash)
        known = self._topics.get(plain)
        if known is not None:
            return known
        if len(self._topics) >= _CHANNELS_COUNT_MAX:
            raise ExchangeError("MCAP", f"more than {_CHANNELS_COUNT_MAX} topics; choose fewer")
        offered = tuple(self._offered.get(plain, (DEFAULT,)))
        metadata = {_QOS: qos_yaml(offered), _HASH: key.hash if key.has_hash else ""}
        schema = self._schema(key.type, key.hash)
        id = self._writer.register_channel(key.name, "cdr", schema, metadata)
        made = _Topic(id, key.name, key.type, metadata[_HASH], offered)
        self._topics[plain] = made
        return made

    def _schema(self, type: str, hash: str) -> int:
        if (type, hash) not in self._schemas:
            text = self.define(type, hash)
            if self._texts.setdefault(type, text) != text:
                reason = "libraries that know types by name, as rosbags does, decode one of them"
                self.tell(f"{type} has several definitions: {reason}")
            if text is None:
                self.tell(f"no definition of {type}: its schema is a name alone")
            data = (text or "").encode()
            made = self._writer.register_schema(type, SCHEMA_ENCODING, data)
            self._schemas[type, hash] = made
        return self._schemas[type, hash]

    def _take_token(self, key: str) -> None:
        try:
            token = parse_token(key)
        except InvalidValueError:
            return
        if isinstance(token, Token) and token.kind is Kind.PUBLISHER:
            offered = self._offered.setdefault(token.topic, [])
            if token.qos not in offered:
                offered.append(token.qos)

    def metadata(self, file: str, release: str = "jazzy") -> str:
        """The text of `metadata.yaml` for what was written."""
        duration = self.last_ns - self.first_ns
        lines = [
            "rosbag2_bagfile_information:",
            f"  version: {_VERSION}",
            "  storage_identifier: mcap",
            *("  duration:", f"    nanoseconds: {duration}"),
            *("  starting_time:", f"    nanoseconds_since_epoch: {self.first_ns}"),
            f"  message_count: {self.count}",
            "  topics_with_message_count:" + ("" if self._topics else " []"),
        ]
        for topic in self._topics.values():
            lines += _topic_lines(topic)
        lines += ['  compression_format: ""', '  compression_mode: ""']
        if file:
            lines += ["  relative_file_paths:", f"    - {file}", "  files:", f"    - path: {file}"]
            lines += ["      starting_time:", f"        nanoseconds_since_epoch: {self.first_ns}"]
            lines += ["      duration:", f"        nanoseconds: {duration}"]
            lines += [f"      message_count: {self.count}"]
        else:
            lines += ["  relative_file_paths: []", "  files: []"]
        return "\n".join([*lines, "  custom_data: {}", f"  ros_distro: {release}", ""])


def _topic_lines(topic: _Topic) -> Iterator[str]:
    yield "    - topic_metadata:"
    yield f"        name: {topic.name}"
    yield f"        type: {topic.type}"
    yield "        serialization_format: cdr"
    yield "        offered_qos_profiles:"
    for line in qos_yaml(topic.qos).splitlines():
        yield f"          {line}"
    yield f'        type_description_hash: "{topic.hash}"'
    yield f"      message_count: {topic.count}"


def qos_yaml(offered: Sequence[QoS]) -> str:
    """QoS as rosbag2 writes it, a list."""
    lines = []
    for qos in offered:
        lines += [
            f"- history: {qos.history.value}",
            f"  depth: {qos.depth}",
            f"  reliability: {qos.reliability.value}",
            f"  durability: {qos.durability.value}",
            *_duration("deadline", qos.deadline_ns),
            *_duration("lifespan", qos.lifespan_ns),
            f"  liveliness: {qos.liveliness.value}",
            *_duration("liveliness_lease_duration", qos.lease_ns),
            "  avoid_ros_namespace_conventions: false",
        ]
    return "\n".join(lines)


def _duration(name: str, ns: int) -> list[str]:
    return [f"  {name}:", f"    sec: {ns // _NS}", f"    nsec: {ns % _NS}"]


def write_metadata(directory: Path, rows: RosMcapRows, file: str) -> None:
    """Write `metadata.yaml` beside a file, so that the directory is a bag."""
    (directory / METADATA).write_text(rows.metadata(file), encoding="utf-8")


def schemas_of(path: Path) -> list[tuple[str, str]]:
    """The definitions in a file: names of types and texts; a name may have several.

    Raises:
        ExchangeError: it is no MCAP.
    """
    try:
        with path.open("rb") as file:
            summary = make_reader(file).get_summary()
    except Exception as error:  # whatever the library meets in bytes of others
        raise ExchangeError(str(path), f"no MCAP: {error}") from error
    if summary is None:
        return []
    return [
        (schema.name, schema.data.decode("utf-8", "replace"))
        for schema in summary.schemas.values()
        if schema.encoding == SCHEMA_ENCODING and schema.data
    ]


def ros_reading(
    domain: int, keep: Callable[[str, str], None] = lambda _name, _text: None
) -> Callable[[Path, Tell], Iterator[pa.RecordBatch]]:
    """What reads a bag as rows with the keys of rmw_zenoh (R2-707).

    Args:
        domain: Of the keys.
        keep: Takes the name and the text of each schema.
    """

    def reading(path: Path, tell: Tell) -> Iterator[pa.RecordBatch]:
        return _BagReading(path, domain, keep, tell).batches()

    return reading


class _BrokenError(Exception):
    """A file cannot be read any further; the text says where and why."""


def _reason(error: Exception, at: int, path: Path) -> str:
    """Why a file cannot be read, in words: the library says what it was doing."""
    if at == 0 or (at < _MAGIC_LEN and path.stat().st_size < _MAGIC_LEN):
        return "expected an MCAP file, got one that does not begin as such"
    if at >= path.stat().st_size:
        return f"the file ends early, at byte {at}"
    return f"expected an MCAP record at byte {at}: {str(error) or type(error).__name__}"


class _BagReading:
    """One pass over a bag."""

    def __init__(
        self, path: Path, domain: int, keep: Callable[[str, str], None], tell: Tell
    ) -> None:
        self._path = path
        self._domain = domain
        self._keep = keep
        self._tell = tell
        self._schemas: dict[int, Schema] = {}
        self._keys: dict[int, tuple[str, bytes] | None] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        gathering, first = Gathering(), 0
        try:
            for row in self._rows():
                gathering.add(row)
                if gathering.is_full:
                    yield self._checked(gathering, first)
                    first = gathering.rows_count
        except _BrokenError as error:
            count = gathering.rows_count
            advice = f"{count} messages before it are good: `mcap recover` makes a file of them"
            reason = f"{error}; {advice}" if count else f"no MCAP: {error}"
            raise ExchangeError(str(self._path), reason) from error
        if gathering.rows_count > first:
            yield self._checked(gathering, first)

    def _checked(self, gathering: Gathering, first: int) -> pa.RecordBatch:
        return checked_rows(gathering.take(), lambda row: f"{self._path}: message {first + row}")

    def _rows(self) -> Iterator[dict[str, Value]]:
        with self._path.open("rb") as file:
            try:
                for record in StreamReader(file, validate_crcs=True).records:
                    if isinstance(record, Schema):
                        self._schemas[record.id] = record
                    elif isinstance(record, Channel):
                        self._keys[record.id] = self._key(record)
                    elif isinstance(record, Message):
                        row = self._row(record)
                        if row is not None:
                            yield row
            except EleaError:
                raise
            except Exception as error:  # whatever the library meets in bytes of others
                raise _BrokenError(_reason(error, file.tell(), self._path)) from error

    def _row(self, message: Message) -> dict[str, Value] | None:
        known = self._keys.get(message.channel_id)
        if known is None:
            return None
        key, gid = known
        row: dict[str, Value] = {**DEFAULTS, "payload": message.data, "key": key}
        row["recv_ts"] = min(message.log_time, _TIME_NS_MAX - 1) // 1_000
        time_ns = min(message.publish_time, _TIME_NS_MAX - 1)
        row["attachment"] = Attachment(message.sequence, time_ns, gid).to_bytes()
        return row

    def _key(self, channel: Channel) -> tuple[str, bytes] | None:
        schema = self._schemas.get(channel.schema_id)
        if schema is None or channel.message_encoding != "cdr":
            self._tell(f"{self._path}: topic {channel.topic!a} is no CDR, and is left out")
            return None
        try:
            type = long_type(schema.name)
            computed = self._hash(schema, type)
            hash = channel.metadata.get(_HASH) or computed
            key = topic_key(self._domain, channel.topic, type, hash)
            if parse_key(key) is None:
                raise InvalidValueError("topic", channel.topic)
        except EleaError as error:
            self._tell(f"{self._path}: topic {channel.topic!a} is left out: {error}")
            return None
        return key, xxh3_128(json.dumps([channel.id, channel.topic, key]).encode())

    def _hash(self, schema: Schema, type: str) -> str:
        """The hash of a definition; what has none is Humble's."""
        text = schema.data.decode("utf-8", "replace")
        if schema.encoding != SCHEMA_ENCODING or not text:
            return NO_HASH
        kind = Library.of_text(text, type).message(type)
        self._keep(type, text)
        return kind.hash
