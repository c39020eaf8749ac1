"""Endpoints that no participant of the domain has: declared in the configuration, or elsewhere.

They make routes as discovered ones do (D-311, D-665, D-704). Owned by the DDS thread.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from elea.dds import ros
from elea.dds.port import Endpoint
from elea.dds.ros_tokens import Announcement
from elea.dds.routes import Direction
from elea.dds.state import LOG

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge

_ANNOUNCED: Final = b"\xfe"  # begin of the GUIDs of endpoints that other bridges announce
_DECLARED: Final = b"\xff" * 12  # begin of the GUIDs of declared endpoints


def announced_guid(text: str, *, is_writer: bool) -> bytes:
    """Return the GUID that stands for an endpoint elsewhere."""
    digest = hashlib.blake2s(text.encode(), digest_size=14).digest()
    return _ANNOUNCED + digest + (b"\x03" if is_writer else b"\x04")


class Announced:
    """Endpoints of the configuration and of other bridges, and the keys they chose."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._keys: dict[bytes, str] = {}
        self._told_ros = False

    def declare(self) -> None:
        """Make the routes of the configuration (D-311)."""
        for number, declared in enumerate(self._bridge.settings.routes):
            is_writer = declared.direction is Direction.FROM_DDS
            guid = _DECLARED + number.to_bytes(3, "big") + (b"\x03" if is_writer else b"\x04")
            self.add(
                Endpoint(guid, guid, is_writer, declared.topic, declared.type_name, declared.qos),
                declared.key,
            )

    def add(self, endpoint: Endpoint, key: str) -> None:
        """Route an endpoint on a key; an empty key: by its names."""
        self._keys[endpoint.guid] = key
        self._bridge.apply(self._bridge.table.add(endpoint))

    def remove(self, guid: bytes) -> None:
        """Forget an endpoint."""
        if self._keys.pop(guid, None) is not None:
            self._bridge.apply(self._bridge.table.remove(guid))

    def told(self, token: str, announced: Announcement, *, is_there: bool) -> None:
        """A bridge with ROS names announces an endpoint, or withdraws it (D-665).

        A publisher elsewhere becomes a mirror writer here, as if it had a reader.
        """
        is_writer = not announced.is_publisher
        guid = announced_guid(token, is_writer=is_writer)
        if not is_there:
            self.remove(guid)
            return
        topic = ros.key_topic(announced.key, self._bridge.settings.namespace)
        name = ros.dds_type(announced.type)
        self.add(Endpoint(guid, guid, is_writer, topic, name, announced.qos), announced.key)

    def key_of(self, endpoint: Endpoint) -> str | None:
        """Return the key that an endpoint has not by its names; None: by them (D-662)."""
        chosen = self._keys.get(endpoint.guid)
        if chosen:
            return chosen
        settings = self._bridge.settings
        if settings.ros and not endpoint.qos.partitions:
            return ros.topic_key(endpoint.topic, settings.namespace)
        if not self._told_ros and ros.is_ros_topic(endpoint.topic):
            self._told_ros = True
            LOG.info('ROS 2 topics are in the domain; names: "ros2" gives them their ROS names')
        return None
