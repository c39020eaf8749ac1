"""What a gateway wants done in the data space, by whoever drives it (18.2, 18.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from elea.xrce.properties import SessionProperties
from elea.xrce.samples.sample import Sample


@dataclass(slots=True)
class Joined:
    """A device has a session: its liveliness token is to appear."""

    pid: bytes
    properties: SessionProperties


@dataclass(slots=True)
class Left:
    """Its session is over, and with it what it declared."""

    pid: bytes
    reason: int
    text: str


class Losses(NamedTuple):
    """What was lost between a device and its gateway, since its session began."""

    gaps: int = 0  # reliable messages that it no longer had when they were asked for
    fragments_dropped: int = 0  # series of fragments that did not become a message
    too_long: int = 0  # samples for it that its frames, or its memory, do not take


@dataclass(slots=True)
class Lost:
    """Something was lost: it is to be told to whoever looks after the devices."""

    KINDS: ClassVar[tuple[str, ...]] = (
        "reliable messages lost that the device no longer had",
        "samples lost whose fragments did not become a whole",
        "samples dropped that are too long for the device",
    )
    pid: bytes
    before: Losses
    total: Losses


@dataclass(slots=True)
class Put:
    """A device wrote this. Devices of this gateway have it already."""

    pid: bytes
    sample: Sample


@dataclass(slots=True)
class Subscribe:
    """What others write to this key expression is to be told by `Gateway.put`."""

    key_expr: str


@dataclass(slots=True)
class Unsubscribe:
    """No device wants it any more."""

    key_expr: str


@dataclass(slots=True)
class Watch:
    """Whether others read this key expression is to be told by `Gateway.matched`."""

    key_expr: str


@dataclass(slots=True)
class Unwatch:
    """No device writes to it any more."""

    key_expr: str


@dataclass(slots=True)
class Ask:
    """What is at rest in the data space is to be told by `Gateway.answered`, all at once."""

    query_id: int
    key_exprs: tuple[str, ...]
    predicate: str  # for `_filter`; empty is none
    timeout_ns: int


@dataclass(slots=True)
class Describe:
    """A device describes the DDS topic of this key by property 1: bridges are to be told."""

    key_expr: str


@dataclass(slots=True)
class Undescribe:
    """No device describes it any more."""

    key_expr: str


Effect: TypeAlias = (
    Joined
    | Left
    | Lost
    | Put
    | Subscribe
    | Unsubscribe
    | Watch
    | Unwatch
    | Ask
    | Describe
    | Undescribe
)
