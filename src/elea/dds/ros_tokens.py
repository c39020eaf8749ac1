"""Tokens by which bridges with ROS names announce interfaces (D-665).

    @/<zid>/@ros2_lv/{MP,MS}/<key>/<type>/<qos>
    @/<zid>/@ros2_lv/{SS,SC,AS,AC}/<key>/<type>

Pure. `/` is written `§` in keys and types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elea.dds.qos import KEEP_ALL, Durability, Qos, Reliability
from elea.dds.ros import ACTION_SERVICES, ACTION_TOPICS, type_hash_of

MARK: Final = "@ros2_lv"
_SLASH: Final = "§"


@dataclass(frozen=True, slots=True)
class Announcement:
    """A publisher or subscriber that a bridge announces (D-665)."""

    zid: str
    is_publisher: bool
    key: str
    type: str  # as ROS 2 writes it
    qos: Qos
    has_key: bool = False

    def to_key(self) -> str:
        """Return the key of the token.

        Example:
            >>> from elea.dds.qos import Reliability
            >>> qos = Qos(reliability=Reliability.RELIABLE, depth=100)
            >>> Announcement("ab12", True, "bot1/tf", "tf2_msgs/msg/TFMessage", qos).to_key()
            '@/ab12/@ros2_lv/MP/bot1§tf/tf2_msgs§msg§TFMessage/:1::0,100'
        """
        kind = "MP" if self.is_publisher else "MS"
        key, type_ = (one.replace("/", _SLASH) for one in (self.key, self.type))
        qos = qos_text(self.qos, has_key=self.has_key)
        return f"@/{self.zid}/{MARK}/{kind}/{key}/{type_}/{qos}"

    @classmethod
    def read(cls, key: str) -> Announcement | None:
        """Return what a token announces; None if it is no publisher or subscriber."""
        chunks = key.split("/")
        if len(chunks) != 7 or chunks[2] != MARK or chunks[3] not in ("MP", "MS"):
            return None
        qos = read_qos(chunks[6])
        if qos is None:
            return None
        name, type_ = (one.replace(_SLASH, "/") for one in chunks[4:6])
        return cls(chunks[1], chunks[3] == "MP", name, type_, qos, chunks[6].startswith("K"))


@dataclass(frozen=True, slots=True)
class ServiceAnnouncement:
    """A service or action that a bridge announces (D-665)."""

    zid: str
    is_server: bool
    is_action: bool
    key: str
    type: str  # as ROS 2 writes it

    def to_key(self) -> str:
        """Return the key of the token.

        Example:
            >>> ServiceAnnouncement("ab12", True, False, "add", "example/srv/Add").to_key()
            '@/ab12/@ros2_lv/SS/add/example§srv§Add'
        """
        kind = ("A" if self.is_action else "S") + ("S" if self.is_server else "C")
        key, type_ = (one.replace("/", _SLASH) for one in (self.key, self.type))
        return f"@/{self.zid}/{MARK}/{kind}/{key}/{type_}"

    @classmethod
    def read(cls, key: str) -> ServiceAnnouncement | None:
        """Return what a token announces; None if it is no service and no action."""
        chunks = key.split("/")
        if len(chunks) != 6 or chunks[2] != MARK or chunks[3] not in ("SS", "SC", "AS", "AC"):
            return None
        name, type_ = (one.replace(_SLASH, "/") for one in chunks[4:6])
        return cls(chunks[1], chunks[3][1] == "S", chunks[3][0] == "A", name, type_)

    def services(self) -> tuple[tuple[str, str], ...]:
        """Return the keys and types of the services: itself, or those of the action."""
        if not self.is_action:
            return ((self.key, self.type),)
        types = f"{self.type}_SendGoal", "action_msgs/srv/CancelGoal", f"{self.type}_GetResult"
        return tuple(
            (f"{self.key}/_action/{name}", type_)
            for name, type_ in zip(ACTION_SERVICES, types, strict=True)
        )

    def topics(self) -> tuple[Announcement, ...]:
        """Return the topics of an action, as if they were announced one by one."""
        if not self.is_action:
            return ()
        feedback = Qos(reliability=Reliability.RELIABLE, depth=10)
        status = Qos(reliability=Reliability.RELIABLE, durability=Durability.TRANSIENT_LOCAL)
        types = f"{self.type}_FeedbackMessage", "action_msgs/msg/GoalStatusArray"
        return tuple(
            Announcement(self.zid, self.is_server, f"{self.key}/_action/{name}", type_, qos)
            for name, type_, qos in zip(ACTION_TOPICS, types, (feedback, status), strict=True)
        )


def qos_text(qos: Qos, *, has_key: bool = False) -> str:
    """Return QoS as tokens have it; defaults but that of reliability are left empty."""
    durability = "" if qos.durability is Durability.VOLATILE else str(int(qos.durability))
    # Eclipse reads both numbers of a history, or none.
    history = "" if qos.depth == 1 else f"{int(qos.depth == KEEP_ALL)},{qos.depth}"
    text = f"{'K' if has_key else ''}:{int(qos.reliability)}:{durability}:{history}"
    type_hash = type_hash_of(qos.user_data)
    return f"{text}:{type_hash.decode()}" if type_hash else text


def read_qos(text: str) -> Qos | None:
    """Return the QoS that a token has; any field may be empty. None if it is malformed."""
    parts = text.split(":", 4)
    if len(parts) < 4:
        return None
    kind, _, depth = parts[3].partition(",")
    try:
        return Qos(
            reliability=Reliability(int(parts[1] or 0)),
            durability=Durability(int(parts[2] or 0)),
            depth=KEEP_ALL if kind == "1" else int(depth or 1),
            user_data=parts[4].encode() if len(parts) > 4 else b"",
        )
    except ValueError:
        return None
