"""What the bridge needs of a DDS library: discovered endpoints, mirrors, take and write.

`elea.dds.cyclone` implements `Dds`; tests have one without a network. All but `wake` is for the
DDS thread alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from elea.dds.qos import Qos
from elea.dds.representation import Extensibility
from elea.decode.layout import Structure

# What a write returns.
WRITTEN: Final = 0
NO_ROOM: Final = 1
REFUSED: Final = 2  # not a value of the type
FAILED: Final = 3

# States of an instance in `Taken.state`.
ALIVE: Final = 16
INSTANCE_DISPOSED: Final = 32
NO_WRITERS: Final = 64

_KEYED: Final = (0x02, 0x07)


class DdsError(Exception):
    """A call of the DDS library failed; the text is the library's."""


class Tier(Enum):
    """How well the type of an endpoint is known (dds.md 6)."""

    EXACT = "exact"
    OPAQUE = "opaque"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class TopicType:
    """A type that mirrors are made with.

    `info` and `mapping` are the XTypes octets of the type, and empty unless the tier is EXACT.
    """

    name: str
    tier: Tier
    has_key: bool = False
    hash: bytes = b""
    info: bytes = field(default=b"", repr=False)
    mapping: bytes = field(default=b"", repr=False)
    extensibility: Extensibility | None = None


@dataclass(frozen=True, slots=True)
class Participant:
    """A participant of the domain."""

    guid: bytes
    name: str = ""
    user_data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> bytes:
        """The bytes that all its endpoints' GUIDs begin with."""
        return self.guid[:12]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A writer or reader of the domain."""

    guid: bytes
    participant: bytes
    is_writer: bool
    topic: str
    type_name: str
    qos: Qos
    handle: int = 0  # what samples name their writer by
    type_hash: bytes = b""  # of its type; empty: it sent no type information

    @property
    def has_key(self) -> bool:
        """Whether its type has key members, by its GUID."""
        return self.guid[15] in _KEYED


@dataclass(frozen=True, slots=True)
class Gone:
    """A participant, writer or reader that is no longer there."""

    guid: bytes
    kind: str  # participant, writer or reader


Discovered = Participant | Endpoint | Gone


class Info(Protocol):
    """What comes with a sample; the names are DDS's."""

    valid_data: bool
    instance_state: int
    source_timestamp: int
    instance_handle: int
    publication_handle: int  # of its writer, as `Endpoint.handle` has it


# The bytes of a sample with its header, or, if it is not valid, of the key; and what comes with it.
Taken = tuple[bytes, Info]


class Mirror(NamedTuple):
    """An endpoint of the bridge, and the topic that was made for it."""

    handle: int
    topic: int
    guid: bytes


class Unmatched(NamedTuple):
    """How many endpoints a mirror matches, and the policy that kept others off, if any."""

    matched: tuple[int, ...]
    policy: str


class Ready(NamedTuple):
    """What a wait found."""

    discovery: bool
    readers: Sequence[int]


class Dds(Protocol):
    """One participant of a domain."""

    @property
    def guid(self) -> bytes:
        """The participant's GUID."""

    @property
    def version(self) -> str:
        """The library and its version."""

    def discovered(self, count_max: int) -> list[Discovered]:
        """Return what appeared, changed and went since the last call."""

    def resolve(self, guid: bytes, timeout_ns: int) -> TopicType | None:
        """Fetch the type of an endpoint that has a type hash; None if it did not come in time."""

    def compile_type(self, name: str, layout: Structure, keys: Sequence[str]) -> TopicType:
        """Make a type from a layout; raises InvalidValueError."""

    def make_reader(self, topic: str, type_: TopicType, qos: Qos) -> Mirror:
        """Create a mirror reader; raises DdsError."""

    def make_writer(self, topic: str, type_: TopicType, qos: Qos) -> Mirror:
        """Create a mirror writer; raises DdsError."""

    def delete(self, mirror: Mirror) -> None:
        """Delete a mirror and its topic."""

    def pause(self, reader: int, *, paused: bool) -> None:
        """Leave a mirror reader out of `wait`, or take it in again."""

    def take(self, reader: int, count_max: int) -> list[Taken]:
        """Take samples of a mirror reader, oldest first."""

    def has_samples(self, reader: int) -> bool:
        """Whether a mirror reader has samples to take."""

    def write(self, writer: int, payload: bytes, source_ns: int) -> int:
        """Write a sample; never waits."""

    def write_dispose(self, writer: int, payload: bytes, source_ns: int) -> int:
        """Write a sample and dispose of its instance."""

    def dispose(self, writer: int, key: bytes, source_ns: int) -> int:
        """Dispose of the instance of a serialised key."""

    def unregister(self, writer: int, key: bytes, source_ns: int) -> int:
        """Unregister the instance of a serialised key."""

    def key_of(self, mirror: Mirror, payload: bytes) -> bytes | None:
        """Return the serialised key of a sample with its header."""

    def instance_of(self, mirror: Mirror) -> int:
        """Return the instance handle of a mirror, by which samples name a writer."""

    def is_acknowledged(self, writer: int, timeout_ns: int) -> bool:
        """Whether all readers of a writer have all samples, waited for so long."""

    def flush(self, writer: int) -> None:
        """Send what batching holds back."""

    def assert_liveliness(self, writer: int) -> None:
        """Say that a writer with manual liveliness lives."""

    def unmatched(self, mirror: Mirror, *, is_writer: bool) -> Unmatched:
        """Return the matches of a mirror and the last incompatible policy."""

    def counts(self, mirror: Mirror, *, is_writer: bool) -> dict[str, int]:
        """Return the library's counters of a mirror: samples lost, deadlines missed."""

    def rejected(self, reader: int) -> int:
        """Return how many samples found no room in a mirror reader since the last call."""

    def dropped_datagrams(self) -> int:
        """Return how many datagrams the host dropped; any thread may ask."""

    def wait(self, timeout_ns: int) -> Ready:
        """Wait for discovery, samples, `wake` or the timeout."""

    def wake(self) -> None:
        """End a wait; any thread may call it."""

    def messages(self) -> list[str]:
        """Return what the library logged since the last call."""

    def close(self) -> None:
        """Leave the domain."""
