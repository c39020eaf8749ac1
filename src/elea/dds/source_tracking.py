"""Instances of a route to DDS whose remote writers are gone: they are unregistered (D-509).

Owned by the DDS thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from elea.dds.mirror_writers import MirrorWriter
from elea.dds.port import Tier, TopicType
from elea.dds.sources import GUID_LEN, KEYED_WRITER, SourceInstances, identity_of

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge


class SourceTracking:
    """Remembers which remote writer wrote which instances.

    Args:
        bridge: Its schemas tell instances apart.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._remote = SourceInstances(bridge.limits.dds_instances_count)
        self._identity: tuple[TopicType, Callable[[bytes], bytes] | None] | None = None
        self._left: list[bytes] = []  # keys of instances that are to be unregistered

    def gone(self, guid: bytes) -> bool:
        """A remote writer is gone; returns whether instances are to be unregistered."""
        self._left += self._remote.gone(guid)
        return bool(self._left)

    def came(self, guid: bytes) -> None:
        """A remote writer is there, perhaps again."""
        self._remote.came_back(guid)

    def identifier(self, type_: TopicType | None) -> Callable[[bytes], bytes] | None:
        """Return what tells instances apart; None: the type has no key, or it is not known."""
        if type_ is None or not type_.has_key or type_.tier is not Tier.EXACT:
            return None
        if self._identity is None or self._identity[0] is not type_:
            schema = self._bridge.answers.schemas.of(type_)
            self._identity = type_, None if schema is None else identity_of(schema)
        return self._identity[1]

    def wrote(
        self,
        clock: bytes,
        payload: bytes,
        writer: MirrorWriter,
        identify: Callable[[bytes], bytes],
    ) -> None:
        """Remember which remote writer wrote an instance."""
        # What no writer of DDS wrote is not unregistered: there is no token that goes.
        source = clock if len(clock) == GUID_LEN and clock[-1] == KEYED_WRITER else b""
        left = self._remote.wrote(
            source, identify(payload), lambda: self._bridge.dds.key_of(writer.mirror, payload)
        )
        if left is not None:
            self._left.append(left)

    def left(self) -> Iterator[bytes]:
        """Yield the keys to unregister; one that was is forgotten when the next is asked for."""
        while self._left:
            yield self._left[-1]
            self._left.pop()
