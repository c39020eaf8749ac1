"""Writers of other domains, as other bridges announce them by tokens (D-604, D-509).

Owned by the DDS thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elea.dds.to_dds import ToDds

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge


class RemoteWriters:
    """Which writers elsewhere have samples for which key, and the routes that are told."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._guids: dict[str, set[bytes]] = {}  # in hex, by key
        self._announcers: dict[tuple[str, bytes], set[str]] = {}  # bridges that tell of a writer

    def of(self, key: str) -> set[bytes]:
        """Return the GUIDs of the writers of a key, in hex."""
        return self._guids.get(key, set())

    def told(self, key: str, guid: bytes, announcer: str, *, is_there: bool) -> None:
        """A writer of another bridge announced itself, or went.

        Several bridges of a domain announce the same writer; it is there while one does.
        """
        announcers = self._announcers.setdefault((key, guid), set())
        (announcers.add if is_there else announcers.discard)(announcer)
        if announcers and not is_there:
            return
        if not announcers:
            del self._announcers[key, guid]
        known = self._guids.setdefault(key, set())
        (known.add if is_there else known.discard)(guid)
        if not known:
            del self._guids[key]
        try:
            writer = bytes.fromhex(guid.decode())
        except ValueError:
            return  # a token of strangers: it may name anything
        for route in self._bridge.routes.values():
            if not isinstance(route, ToDds):
                continue
            if route.id.key == key:
                route.sources = self.of(key)
                self._bridge.upkeep.touch(route)
            elif "*" not in route.id.key:
                continue
            (route.tracking.came if is_there else route.source_gone)(writer)
