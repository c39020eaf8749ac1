"""How a gateway serves its devices, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elea.decode.layout import Layout
from elea.encoding import Encoding
from elea.limits import DEFAULT_LIMITS, Limits
from elea.timestamp import Timestamp
from elea.xrce.declarations import NO_PRESETS, Action, Named
from elea.xrce.samples.durability import DurableStore


@dataclass(slots=True, kw_only=True)
class GatewaySettings:
    """How a gateway serves its devices.

    Args:
        stamp: A new timestamp of the data space's clock.
        transient: Where transient samples are kept, if they are.
        persistent: The same for persistent ones.
        asks: Whether `Ask` effects are answered: there may be other storages.
        interest_always: Whether publishers are told of a reader, whether there is one or not.
        layout_of: The type of what is written to a key with an encoding, if it is known.
        allows: Whether a device may do something with all keys of these key expressions.
        exceeds: Whether what a device writes, deletes or asks, with a payload of so many bytes, is
            too long or too much; it is counted.
        revision: Another object as soon as `allows` may answer otherwise than before.
        presets_of: What the ids of a device mean that it uses without declaring them.
    """

    stamp: Callable[[], Timestamp]
    transient: DurableStore | None = None
    persistent: DurableStore | None = None
    asks: bool = True
    interest_always: bool = False
    layout_of: Callable[[str, Encoding], Layout | None] = lambda _key, _encoding: None
    allows: Callable[[bytes, Action, tuple[str, ...]], bool] = lambda _pid, _action, _keys: True
    exceeds: Callable[[bytes, Action, str, int], bool] = lambda _pid, _action, _key, _len: False
    revision: Callable[[], object] = lambda: None
    presets_of: Callable[[bytes], Mapping[int, Named]] = lambda _pid: NO_PRESETS
    limits: Limits = DEFAULT_LIMITS


@dataclass(slots=True)
class GatewayCounters:
    """What happened to all devices together."""

    dropped: int = 0  # samples of devices without a usable name
    forbidden: int = 0  # declarations, samples and pulls that a device is not allowed
    limited: int = 0  # samples and questions of devices beyond a quota or a filter
    refused: int = 0  # durable samples without room
    written: int = 0  # samples of devices
    ended: int = 0  # sessions
    stores_dropped: int = 0  # samples of subscribers that are gone
    gaps: int = 0  # reliable messages of devices that they no longer had
    fragments_dropped: int = 0  # series of fragments of devices that did not become a message
    too_long: int = 0  # samples that a device's frames, or its memory, do not take
