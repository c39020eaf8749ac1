"""Keys of rmw_zenoh: `<domain>/<name>/<type>/<hash>` (R2-101 to R2-105)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from elea.errors import InvalidValueError
from elea.ros.formats.names import dds_type, is_name, is_type, ros_type

NO_HASH: Final = "TypeHashNotSupported"  # what Humble writes
BUFFER_CPU: Final = "_buf_cpu"
DOMAIN_MAX: Final = 232

_HASH: Final = re.compile(r"RIHS01_[0-9a-f]{64}")
_ADVANCED: Final = "/@adv/"
_BUFFER: Final = re.compile(r"/(_buf_cpu|_buf/[0-9a-f]{32})$")


@dataclass(frozen=True, slots=True)
class TopicKey:
    """What the key of a topic or service says.

    Attributes:
        domain: 0 to 232.
        name: The fully qualified name.
        type: In ROS form; of services without `_Request` and `_Response`.
        hash: `RIHS01_...`, or `TypeHashNotSupported`.
        suffix: `_buf_cpu`, `_buf/<gid>`, `@adv/...`, or nothing.
    """

    domain: int
    name: str
    type: str
    hash: str
    suffix: str = ""

    def key(self) -> str:
        """The key of the topic, without its suffix."""
        return topic_key(self.domain, self.name, self.type, self.hash)

    @property
    def has_hash(self) -> bool:
        """Whether the type is told by its hash."""
        return self.hash != NO_HASH

    @property
    def is_legal(self) -> bool:
        """Whether ROS can have its name and type: tools of ROS refuse a whole file for one."""
        return is_name(self.name) and is_type(self.type)

    @property
    def is_device_buffer(self) -> bool:
        """Whether payloads may describe memory of a device in place of data (R2-256)."""
        return self.suffix.startswith("_buf/")


def topic_key(domain: int | str, name: str, type: str, hash: str) -> str:
    """The key of a topic or service; `*` for what is not known.

    Example:
        >>> topic_key(0, "/robot1/chatter", "std_msgs/msg/String", "*")
        '0/robot1/chatter/std_msgs::msg::dds_::String_/*'
    """
    return f"{domain}/{name.removeprefix('/')}/{dds_type(type)}/{hash}"


def parse_key(key: str, prefix: str = "") -> TopicKey | None:
    """What a key says, read from the right; None: it is no key of ROS.

    Example:
        >>> parse_key("0/a/b/std_msgs::msg::dds_::String_/TypeHashNotSupported").name
        '/a/b'
        >>> parse_key("fleet/r1/imu") is None
        True
    """
    if prefix:
        if not key.startswith(f"{prefix}/"):
            return None
        key = key[len(prefix) + 1 :]
    key, mark, suffix = key.partition(_ADVANCED)
    if mark:
        suffix = f"@adv/{suffix}"
    found = _BUFFER.search(key)
    if found is not None:
        key, suffix = key[: found.start()], found[1]
    domain, _, rest = key.partition("/")
    parts = rest.rsplit("/", 2)
    if len(parts) != 3 or not all(parts):
        return None
    name, type, hash = parts
    if "::" not in type or not is_hash(hash) or not (domain.isascii() and domain.isdigit()):
        return None
    if int(domain) > DOMAIN_MAX or "@" in name or "*" in name:
        return None
    return TopicKey(int(domain), f"/{name}", ros_type(type), hash, suffix)


def is_hash(text: str) -> bool:
    """Whether a chunk stands where a key has its hash."""
    return text == NO_HASH or _HASH.fullmatch(text) is not None


def checked_domain(domain: int) -> int:
    """A domain that ROS can have.

    Raises:
        InvalidValueError: it is none.
    """
    if not 0 <= domain <= DOMAIN_MAX:
        raise InvalidValueError("ROS domain", f"expected 0 to {DOMAIN_MAX}, got {domain}")
    return domain
