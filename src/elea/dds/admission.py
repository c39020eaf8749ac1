"""Discovered participants and endpoints: which of them are looked at (dds.md 5, 22).

Owned by the DDS thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from elea.dds.port import Endpoint, Gone, Participant

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge

DISCOVERY_COUNT: Final = 64  # discovery samples of one turn, then data (D-208)
DISCOVERY_TURNS: Final = 16  # at most so many for a sample that overtook the news of its writer


class Part(Protocol):
    """Something that takes endpoints which are no topics of the data space."""

    endpoints: dict[bytes, Endpoint]

    def add(self, endpoint: Endpoint) -> bool:
        """Take an endpoint; False if it is not for this part."""

    def remove(self, guid: bytes) -> bool:
        """Forget an endpoint; False if this part does not have it."""


class Admission:
    """Takes what DDS discovered, within limits, and gives it to those it is for.

    Args:
        bridge: Whose domain it is.
        parts: Asked before an endpoint becomes that of a topic.
    """

    def __init__(self, bridge: Bridge, parts: tuple[Part, ...]) -> None:
        self.hidden: dict[bytes, Endpoint] = {}  # endpoints of other bridges
        self._bridge = bridge
        self._parts = parts
        self._counts: dict[bytes, int] = {}  # endpoints by the prefix of their participant

    def discover_until(self, is_known: Callable[[], bool]) -> None:
        """Take what DDS discovered until something is known, a bounded number all the same."""
        for _ in range(DISCOVERY_TURNS):
            self.discover()
            if is_known():
                return

    def discover(self) -> None:
        """Take what DDS discovered, a bounded number."""
        self._bridge.doing = "discovery"
        for found in self._bridge.dds.discovered(DISCOVERY_COUNT):
            match found:
                case Participant():
                    self._add_participant(found)
                case Endpoint():
                    self._admit(found)
                case Gone(kind="participant"):
                    self._remove_participant(found.guid)
                case Gone():
                    self._remove(found.guid)

    def is_hidden(self, handle: int) -> bool:
        """Whether a handle is that of an endpoint of another bridge."""
        return any(one.handle == handle for one in self.hidden.values())

    def endpoints(self) -> list[Endpoint]:
        """Return all endpoints that are looked at."""
        return [
            *self._bridge.table.endpoints.values(),
            *(one for part in self._parts for one in part.endpoints.values()),
        ]

    def bridges_changed(self) -> None:
        """Another bridge came or went: its endpoints make no routes, or make them again."""
        is_bridge = self._bridge.presence.is_bridge
        for guid, endpoint in list(self.hidden.items()):
            if not is_bridge(guid):
                self._remove(guid)
                self._admit(endpoint)
        for endpoint in self.endpoints():
            if is_bridge(endpoint.guid):
                self._remove(endpoint.guid)
                self._admit(endpoint)

    def _add_participant(self, participant: Participant) -> None:
        presence, limit = self._bridge.presence, self._bridge.limits.dds_participants_count
        if participant.guid not in presence.participants and len(presence.participants) >= limit:
            self._bridge.counts.refused += 1
            return
        presence.add(participant)

    def _remove_participant(self, guid: bytes) -> None:
        every = [*(one.guid for one in self.endpoints()), *self.hidden]
        for one in [known for known in every if known[:12] == guid[:12]]:
            self._remove(one)
        self._counts.pop(guid[:12], None)
        self._bridge.presence.remove(guid)

    def _is_known(self, guid: bytes) -> bool:
        return (
            guid in self._bridge.table.endpoints
            or guid in self.hidden
            or any(guid in part.endpoints for part in self._parts)
        )

    def _known_count(self) -> int:
        parts = sum(len(part.endpoints) for part in self._parts)
        return len(self._bridge.table.endpoints) + len(self.hidden) + parts

    def _admit(self, endpoint: Endpoint) -> None:
        bridge, guid = self._bridge, endpoint.guid
        if endpoint.topic.startswith("DCPS") or guid[:12] == bridge.dds.guid[:12]:
            return
        if not self._is_known(guid):
            count = self._counts.get(guid[:12], 0)
            if (
                count >= bridge.limits.dds_participant_endpoints_count
                or self._known_count() >= bridge.limits.dds_endpoints_count
            ):
                bridge.counts.refused += 1
                return
            self._counts[guid[:12]] = count + 1
        if bridge.presence.is_bridge(guid):
            self.hidden[guid] = endpoint
            return
        if not any(part.add(endpoint) for part in self._parts):
            bridge.apply(bridge.table.add(endpoint))
            bridge.presence.announce(endpoint, bridge.table.routed(guid))

    def _remove(self, guid: bytes) -> None:
        if self._is_known(guid):
            left = self._counts.get(guid[:12], 1) - 1
            if left:
                self._counts[guid[:12]] = left
            else:
                self._counts.pop(guid[:12], None)
        if self.hidden.pop(guid, None) is not None:
            return
        if not any(part.remove(guid) for part in self._parts):
            self._bridge.presence.withdraw(guid)
            self._bridge.apply(self._bridge.table.remove(guid))
