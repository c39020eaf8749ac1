"""Look at a domain without bridging it: for `elea dds ls`, `typeof`, `sub`, `pub` and `match`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from elea.dds.cyclone import CycloneDomain
from elea.dds.mapping import is_pattern, pattern_matches
from elea.dds.port import (
    NO_ROOM,
    WRITTEN,
    Endpoint,
    Gone,
    Mirror,
    Participant,
    Tier,
    TopicType,
)
from elea.dds.qos import (
    CDR1,
    CDR2,
    MirrorLimits,
    Qos,
    ReaderClass,
    matches,
    mirror_reader,
    mirror_writer,
)
from elea.dds.schema import Schema
from elea.dds.settings import DdsSettings
from elea.decode.layout import Layout
from elea.decode.layout_reader import read_cdr
from elea.decode.layout_writer import needs_version_2, write_cdr
from elea.errors import EleaError

_LOOKUP_NS: Final = 500_000_000
_TURN_NS: Final = 50_000_000


class Observer:
    """A participant that looks; leave it by `with`."""

    def __init__(self, settings: DdsSettings) -> None:
        self._dds = CycloneDomain(settings, name="elea dds")
        self.participants: dict[bytes, Participant] = {}
        self.endpoints: dict[bytes, Endpoint] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._dds.close()

    def look(self, seconds: float, topic: str | None = None) -> None:
        """Discover for some time; until an endpoint of `topic` is there, if given."""
        end_ns = time.monotonic_ns() + round(seconds * 1e9)
        while (left_ns := end_ns - time.monotonic_ns()) > 0:
            self._dds.wait(min(left_ns, _TURN_NS))
            for found in self._dds.discovered(64):
                match found:
                    case Participant():
                        if found.guid != self._dds.guid:
                            self.participants[found.guid] = found
                    case Endpoint():
                        if not found.topic.startswith("DCPS"):
                            self.endpoints[found.guid] = found
                    case Gone():
                        self.participants.pop(found.guid, None)
                        self.endpoints.pop(found.guid, None)
            if topic is not None and any(one.topic == topic for one in self.endpoints.values()):
                return

    def of_topic(self, topic: str) -> list[Endpoint]:
        """Return the endpoints of a topic.

        Raises:
            EleaError: There is none.
        """
        found = [one for one in self.endpoints.values() if one.topic == topic]
        if not found:
            raise EleaError(f"no writer or reader of the topic {topic!a} was found")
        return sorted(found, key=lambda one: one.guid)

    def type_of(self, endpoints: list[Endpoint]) -> TopicType:
        """Return the type of endpoints of one topic; opaque if none of them sends it."""
        for one in endpoints:
            if one.type_hash:
                found = self._dds.resolve(one.guid, _LOOKUP_NS)
                if found is not None:
                    return found
        first = endpoints[0]
        return TopicType(first.type_name, Tier.OPAQUE, first.has_key)

    def schema_of(self, topic: str) -> Schema:
        """Return the schema of a topic's type.

        Raises:
            EleaError: No endpoint sends type information, or no layout can say the type.
        """
        type_ = self.type_of(self.of_topic(topic))
        if type_.tier is not Tier.EXACT:
            raise EleaError(f"{type_.name}: no endpoint of the topic {topic!a} sends its type")
        return Schema.of(type_, type_.name)

    def schemas(self) -> Iterator[Schema]:
        """Yield the schema of each type of the domain once."""
        seen: set[bytes] = set()
        for one in self.endpoints.values():
            if one.type_hash and one.type_hash not in seen:
                seen.add(one.type_hash)
                type_ = self._dds.resolve(one.guid, _LOOKUP_NS)
                if type_ is not None:
                    yield Schema.of(type_, type_.name)

    def samples(self, topic: str, seconds: float) -> Iterator[dict[str, object]]:
        """Yield the samples of a topic for some time: values, or bytes if the type is not known."""
        endpoints = self.of_topic(topic)
        type_ = self.type_of(endpoints)
        schema = Schema.of(type_, type_.name) if type_.tier is Tier.EXACT else None
        writers = [one for one in endpoints if one.is_writer] or endpoints
        partitions = {name for one in writers for name in one.qos.partition_names}
        mirrors = [
            self._dds.make_reader(topic, type_, mirror_reader(of, name, MirrorLimits()))
            for of in sorted({ReaderClass.of(one.qos) for one in writers})
            for name in sorted(partitions)
            if not is_pattern(name)
        ]
        classes = {one.handle: ReaderClass.of(one.qos) for one in writers}
        guids = {one.handle: one.guid for one in writers}
        end_ns = time.monotonic_ns() + round(seconds * 1e9)
        while (left_ns := end_ns - time.monotonic_ns()) > 0:
            ready = self._dds.wait(min(left_ns, _TURN_NS))
            for mirror in mirrors:
                if mirror.handle not in ready.readers:
                    continue
                for payload, info in self._dds.take(mirror.handle, 256):
                    writer = guids.get(info.publication_handle, b"")
                    if len(classes) > 1 and not writer:
                        continue
                    yield {
                        "writer": writer.hex(),
                        "source_time_ns": info.source_timestamp,
                        "state": info.instance_state,
                        **_value(schema, payload, valid=info.valid_data),
                    }

    def publish(self, topic: str, value: object, seconds: float) -> int:
        """Write one value to the readers of a topic; returns how many matched.

        Raises:
            EleaError: The value is not one of the type, or no reader matched in time.
        """
        endpoints = self.of_topic(topic)
        readers = [one for one in endpoints if not one.is_writer]
        if not readers:
            raise EleaError(f"no reader of the topic {topic!a} was found")
        schema = self.schema_of(topic)
        if schema.layout is None:
            raise EleaError(f"{schema.name}: layouts cannot say this type")
        takes_1 = all(CDR1 in (one.qos.representations or (CDR1,)) for one in readers)
        version = 2 if needs_version_2(schema.layout) or not takes_1 else 1
        try:
            payload = write_cdr(schema.layout, value, version)
        except ValueError as error:
            raise EleaError(f"invalid value: {error}") from None
        made = self._writer(topic, schema, readers, CDR1 if version == 1 else CDR2)
        end_ns = time.monotonic_ns() + round(seconds * 1e9)
        while not (matched := self._dds.unmatched(made, is_writer=True).matched):
            if time.monotonic_ns() > end_ns:
                raise EleaError("no reader matched in time; `elea dds match` tells why")
            self._dds.wait(_TURN_NS)
        code = NO_ROOM
        while code == NO_ROOM and time.monotonic_ns() < end_ns:
            code = self._dds.write(made.handle, payload, time.time_ns())
        if code != WRITTEN:
            raise EleaError("DDS refused the sample")
        self._dds.flush(made.handle)
        while time.monotonic_ns() < end_ns and not self._dds.is_acknowledged(made.handle, _TURN_NS):
            pass
        return len(matched)

    def _writer(
        self, topic: str, schema: Schema, readers: list[Endpoint], representation: int
    ) -> Mirror:
        qos: list[Qos] = [one.qos for one in readers]
        partition = next((name for name in qos[0].partition_names if not is_pattern(name)), "")
        wanted = mirror_writer(
            qos, partition, representation, MirrorLimits(), ownership=qos[0].ownership
        )
        return self._dds.make_writer(topic, schema.type, wanted)


def _value(schema: Schema | None, payload: bytes, *, valid: bool) -> dict[str, object]:
    layout: Layout | None = None
    if schema is not None:
        layout = schema.layout if valid else schema.key_layout
    name = "value" if valid else "key"
    if layout is None:
        return {"bytes": payload.hex()}
    try:
        return {name: read_cdr(layout, payload)}
    except (ValueError, RecursionError) as error:
        return {"bytes": payload.hex(), "error": str(error)}


def mismatch(writer: Endpoint, reader: Endpoint) -> str | None:
    """Return why a writer and a reader of one topic do not match; None if they match.

    Types are compared by name, as DDS does where one side sends no type information.
    """
    policy = matches(writer.qos, reader.qos)
    if policy is not None:
        return policy
    pairs = [
        (one, other) for one in writer.qos.partition_names for other in reader.qos.partition_names
    ]
    if not any(_partitions_meet(one, other) for one, other in pairs):
        return "partition"
    if writer.type_name != reader.type_name and not (writer.type_hash and reader.type_hash):
        return "type name"
    return None


def _partitions_meet(one: str, other: str) -> bool:
    if is_pattern(one) and is_pattern(other):
        return False
    if is_pattern(one):
        return pattern_matches(one, other)
    return pattern_matches(other, one) if is_pattern(other) else one == other
