"""MCAP, by the library of its makers: a channel per key and encoding, a message per value.

What MCAP has no place for is in messages of the topic `@elea/row`, as JSON: before a value what it
came with beyond its time (timestamp, publisher, qualities, attachment), and in place of it all that
is no value (deletions, gaps, tokens). So viewers see values and nothing else on a topic, and a log
that was exported is imported the same.

Files of others: a topic becomes a key, by `key_of`; the time a message was logged becomes the time
of reception, the time it was published the timestamp, of a clock with the name `MCAP_CLOCK`. Left
out are schemas but for their names, attachments, metadata, and parts of microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
from mcap.records import Attachment, Channel, Chunk, McapRecord, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.writer import Writer

from elea.decode.formats import FORMATS
from elea.errors import ExchangeError
from elea.store.exchange.jsonl_file import columns_of, parse_object, row_json, whole_row
from elea.store.exchange.rows import (
    DEFAULTS,
    Gathering,
    Tell,
    Value,
    checked_rows,
    plain_rows,
)
from elea.store.log.schema import RowKind
from elea.timestamp import NANOS_PER_SECOND, NTP64
from elea.version import VERSION

ROW_TOPIC: Final = "@elea/row"
MCAP_CLOCK: Final = "7061636d"  # `mcap` as octets: the clock of timestamps in files of others
_OURS: Final = "elea.encoding"  # metadata of a channel: the encoding as it was published
_CHANNELS_COUNT_MAX: Final = 65_535  # ids have 16 bits
_RECORD_LEN_MAX: Final = 1 << 30  # as much as a payload may have
_TIME_NS_MAX: Final = NANOS_PER_SECOND << 32  # the end of timestamps, in 2106
_MESSAGE_ENCODINGS: Final = {
    name: one.message_encoding for one in FORMATS if one.message_encoding for name in one.encodings
}
_ENCODINGS: Final = {
    "": "zenoh/bytes",
    **{one.message_encoding: one.encodings[0] for one in FORMATS if one.message_encoding},
}
_IN_MESSAGE: Final = frozenset({"key", "kind", "payload", "encoding", "recv_ts"})
_ILLEGAL: Final = re.compile(r"[*$?#]")
_SCHEMA_LEN_MAX: Final = 200  # octets of a name that go into an encoding


class McapRows:
    """Writes rows as MCAP."""

    def __init__(self, stream: BinaryIO, columns: Sequence[str]) -> None:
        self._writer = Writer(stream)
        self._writer.start(profile="", library=f"elea/{VERSION}")
        self._channels: dict[tuple[str, str], int] = {}
        self._schemas: dict[str, int] = {}
        self._rows_channel = self._writer.register_channel(ROW_TOPIC, "json", 0, {_OURS: ""})
        self._number = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows.

        Raises:
            ExchangeError: there are more keys than the format can name, or a time before 1970.
        """
        for row in plain_rows(batch):
            self._write(row)
            self._number += 1

    def finish(self) -> None:
        """Write the index and the end."""
        self._writer.finish()  # type: ignore[no-untyped-call]  # it says nothing of its types

    def _write(self, row: dict[str, Value]) -> None:
        received, hlc = row["recv_ts"], row["hlc"]
        assert isinstance(received, int)
        if received < 0:
            reason = f"saw recv_ts {received} in row {self._number}; MCAP has no time before 1970"
            raise ExchangeError("MCAP", reason)
        log_ns = received * 1_000
        publish_ns = log_ns if hlc is None else _ntp64(hlc).as_nanos()
        sequence = self._number % (1 << 32)
        is_put = row["kind"] == RowKind.PUT
        rest = row_json(_beside_value(row) if is_put else row)
        if is_put and hlc is not None and row["ts"] is None:
            rest["ts"] = None  # else it is known by the timestamp
        if rest:
            data = json.dumps(rest, separators=(",", ":")).encode()
            self._writer.add_message(self._rows_channel, log_ns, data, publish_ns, sequence)
        if is_put:
            channel = self._channel(str(row["key"]), str(row["encoding"]))
            payload = row["payload"]
            assert isinstance(payload, bytes)
            self._writer.add_message(channel, log_ns, payload, publish_ns, sequence)

    def _channel(self, key: str, encoding: str) -> int:
        known = self._channels.get((key, encoding))
        if known is not None:
            return known
        if len(self._channels) + 2 > _CHANNELS_COUNT_MAX:
            reason = f"saw more than {_CHANNELS_COUNT_MAX} keys; choose fewer by a key expression"
            raise ExchangeError("MCAP", reason)
        name, _, schema = encoding.partition(";")
        schema_id = self._schema(schema) if schema else 0
        message_encoding = _MESSAGE_ENCODINGS.get(name, name)
        made = self._writer.register_channel(key, message_encoding, schema_id, {_OURS: encoding})
        self._channels[key, encoding] = made
        return made

    def _schema(self, name: str) -> int:
        if name not in self._schemas:
            # No encoding: the name is known, what it looks like is not.
            self._schemas[name] = self._writer.register_schema(name, "", b"")
        return self._schemas[name]


def read_mcap(path: Path, tell: Tell) -> Iterator[pa.RecordBatch]:
    """The rows of a file, checked.

    Raises:
        ExchangeError: it is no MCAP or is damaged, or a value cannot be kept.
    """
    gathering = Gathering()
    reading = _Reading(path, tell)
    first = 0
    for row in reading.rows():
        gathering.add(row)
        if gathering.is_full:
            yield _checked(gathering, path, first)
            first = gathering.rows_count
    if gathering.rows_count > first:
        yield _checked(gathering, path, first)


def _checked(gathering: Gathering, path: Path, first: int) -> pa.RecordBatch:
    return checked_rows(gathering.take(), lambda row: f"{path}: message {first + row}")


class _Reading:
    """One pass over a file."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._path = path
        self._tell = tell
        self._channels: dict[int, Channel] = {}
        self._schemas: dict[int, Schema] = {}
        self._keys: dict[int, str] = {}  # of channels of others
        self._told: set[str] = set()
        self._rest: tuple[int, dict[str, Value]] | None = None  # of the message that comes next

    def rows(self) -> Iterator[dict[str, Value]]:
        for at, record in self._records():
            where = f"{self._path}: octet {at}"
            if isinstance(record, Channel):
                self._channels[record.id] = record
            elif isinstance(record, Schema):
                self._schemas[record.id] = record
            elif isinstance(record, Message):
                row = self._row(record, where)
                if row is not None:
                    yield row
            elif isinstance(record, Attachment | Metadata):
                self._tell_once(f"{type(record).__name__.lower()} records are left out")
        if self._rest is not None:
            raise ExchangeError(str(self._path), "the value of the last row is missing")

    def _records(self) -> Iterator[tuple[int, McapRecord]]:
        """What is in the file, one after the other, with about where it is."""
        with self._path.open("rb") as file:
            reader = StreamReader(
                file, emit_chunks=True, validate_crcs=True, record_size_limit=_RECORD_LEN_MAX
            )
            records = iter(reader.records)
            while True:
                at = file.tell()
                try:
                    record = next(records, None)
                    if record is None:
                        return
                    inner = [record]
                    if isinstance(record, Chunk):
                        if record.uncompressed_size > _RECORD_LEN_MAX:
                            raise ValueError(f"a chunk of {record.uncompressed_size} octets")
                        inner = breakup_chunk(record, validate_crc=True)
                except Exception as error:  # whatever the library meets in octets of others
                    reason = str(error) or type(error).__name__
                    where = f"{self._path}: octet {at}"
                    raise ExchangeError(where, f"no MCAP from here on: {reason}") from error
                for one in inner:
                    yield at, one

    def _row(self, message: Message, where: str) -> dict[str, Value] | None:
        """The row of a message; None if there is more of it to come."""
        channel = self._channels.get(message.channel_id)
        if channel is None:
            raise ExchangeError(where, f"saw a message of channel {message.channel_id}, not told")
        ours = channel.metadata.get(_OURS)
        if channel.topic == ROW_TOPIC and ours == "":
            return self._own_row(message, where)
        rest: dict[str, Value] = {}
        if self._rest is not None:
            sequence, rest = self._rest
            self._rest = None
            if sequence != message.sequence:
                reason = f"saw message {message.sequence}; legal is {sequence}, the rest of a row"
                raise ExchangeError(where, f"{reason}: a tool has changed the order")
        row: dict[str, Value] = {**DEFAULTS, "payload": message.data}
        row["recv_ts"] = message.log_time // 1_000
        if ours is not None:
            return {**row, **rest, "key": channel.topic, "encoding": ours}
        if 0 < message.publish_time < _TIME_NS_MAX:
            stamp = NTP64(0, message.publish_time).value
            row |= {"hlc": _signed(stamp), "hlc_id": MCAP_CLOCK, "ts": _time_of_day(stamp)}
        return {**row, "key": self._key(channel), "encoding": self._encoding(channel)}

    def _own_row(self, message: Message, where: str) -> dict[str, Value] | None:
        seen = parse_object(message.data, where)
        if "key" in seen:
            return whole_row(seen, where)
        row = columns_of(seen, where)
        hlc = row.get("hlc")
        if hlc is not None and "ts" not in seen:
            row["ts"] = _time_of_day(hlc)
        self._rest = (message.sequence, row)
        return None

    def _key(self, channel: Channel) -> str:
        if channel.id not in self._keys:
            key = self._keys[channel.id] = key_of(channel.topic)
            if key != channel.topic:
                self._tell_once(f"topic {channel.topic!a} becomes key {key!a}")
        return self._keys[channel.id]

    def _encoding(self, channel: Channel) -> str:
        name = _ENCODINGS.get(channel.message_encoding, channel.message_encoding)
        schema = self._schemas.get(channel.schema_id)
        if schema is None:
            return name
        if schema.data:
            self._tell_once(f"the text of schema {schema.name!a} is left out, its name is kept")
        return f"{name};{schema.name}" if len(schema.name.encode()) <= _SCHEMA_LEN_MAX else name

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(f"{self._path}: {text}")


def key_of(topic: str) -> str:
    """The key of a topic: without slashes at its ends or in a row, `_` for what no key has.

    Example:
        >>> key_of("/camera//front/image?raw"), key_of("//")
        ('camera/front/image_raw', '_')
    """
    chunks = [chunk for chunk in _ILLEGAL.sub("_", topic).split("/") if chunk]
    return "/".join(chunks) or "_"


def _beside_value(row: dict[str, Value]) -> dict[str, Value]:
    """What a message has no place for, if it is not the default."""
    found = {name: value for name, value in row.items() if name not in _IN_MESSAGE}
    if found["qos"] == DEFAULTS["qos"]:
        del found["qos"]
    if found["hlc"] is not None and found["ts"] == _time_of_day(found["hlc"]):
        del found["ts"]
    return found


def _ntp64(hlc: Value) -> NTP64:
    assert isinstance(hlc, int)
    return NTP64.from_value(hlc % (1 << 64))


def _time_of_day(hlc: Value) -> int:
    """The column `ts` of a timestamp, in microseconds."""
    bits = _ntp64(hlc).value
    return (bits >> 32) * 1_000_000 + ((bits & 0xFFFF_FFFF) * 1_000_000 >> 32)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
