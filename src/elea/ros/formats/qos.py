"""QoS of endpoints: one set of policies, and two ways to write them down (R2-171 to R2-175).

rmw_zenoh:  <reliability>:<durability>:<history>,<depth>:<deadline>:<lifespan>:<liveliness>,<lease>
a bridge:   <K or nothing>:<reliability>:<durability>:<history>,<depth>[:<user data>]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeVar

from elea.errors import InvalidValueError

INFINITE_NS: Final = 9_223_372_036_854_775_807
DEPTH_DEFAULT: Final = 42
_NS: Final = 1_000_000_000
_DIGITS: Final = re.compile(r"[0-9]{1,20}")


class Reliability(Enum):
    """Whether samples are repeated until they arrive."""

    SYSTEM_DEFAULT = "system_default"
    RELIABLE = "reliable"
    BEST_EFFORT = "best_effort"
    UNKNOWN = "unknown"
    BEST_AVAILABLE = "best_available"


class Durability(Enum):
    """Whether a publisher keeps its last messages for late subscriptions."""

    SYSTEM_DEFAULT = "system_default"
    TRANSIENT_LOCAL = "transient_local"
    VOLATILE = "volatile"
    UNKNOWN = "unknown"
    BEST_AVAILABLE = "best_available"


class History(Enum):
    """How many messages are kept."""

    SYSTEM_DEFAULT = "system_default"
    KEEP_LAST = "keep_last"
    KEEP_ALL = "keep_all"
    UNKNOWN = "unknown"


class Liveliness(Enum):
    """How an endpoint shows that it is alive."""

    SYSTEM_DEFAULT = "system_default"
    AUTOMATIC = "automatic"
    MANUAL_BY_NODE = "manual_by_node"
    MANUAL_BY_TOPIC = "manual_by_topic"
    UNKNOWN = "unknown"
    BEST_AVAILABLE = "best_available"


P = TypeVar("P", Reliability, Durability, History, Liveliness)

# The order of the members is the numbering of rmw_zenoh; bridges number DDS's way.
_BRIDGE_RELIABILITY: Final = (Reliability.BEST_EFFORT, Reliability.RELIABLE)
_BRIDGE_DURABILITY: Final = (
    Durability.VOLATILE,
    Durability.TRANSIENT_LOCAL,
    Durability.TRANSIENT_LOCAL,  # transient, and
    Durability.TRANSIENT_LOCAL,  # persistent: ROS has no names for them
)
_BRIDGE_HISTORY: Final = (History.KEEP_LAST, History.KEEP_ALL)


@dataclass(frozen=True, slots=True)
class QoS:
    """The policies of a publisher, subscription, client or server.

    Example:
        >>> QoS(depth=10).text()
        '::,10:,:,:,,'
    """

    reliability: Reliability = Reliability.RELIABLE
    durability: Durability = Durability.VOLATILE
    history: History = History.KEEP_LAST
    depth: int = DEPTH_DEFAULT
    deadline_ns: int = INFINITE_NS
    lifespan_ns: int = INFINITE_NS
    liveliness: Liveliness = Liveliness.AUTOMATIC
    lease_ns: int = INFINITE_NS

    @property
    def is_reliable(self) -> bool:
        """Whether lost samples are asked for again."""
        return self.reliability is not Reliability.BEST_EFFORT

    @property
    def is_transient_local(self) -> bool:
        """Whether late subscriptions get the last messages."""
        return self.durability is Durability.TRANSIENT_LOCAL

    def resolved(self) -> QoS:
        """The policies an endpoint is created with (R2-174).

        Raises:
            InvalidValueError: a policy is `unknown`, or the depth is negative.
        """
        for policy in (self.reliability, self.durability, self.history, self.liveliness):
            if policy.name == "UNKNOWN":
                reason = f"{type(policy).__name__.lower()} is unknown; choose a policy"
                raise InvalidValueError("QoS", reason)
        if self.depth < 0:
            raise InvalidValueError("QoS", f"expected a depth of 0 or more, got {self.depth}")
        return replace(
            self,
            reliability=_settled(self.reliability, Reliability.RELIABLE),
            durability=_settled(self.durability, Durability.VOLATILE),
            history=_settled(self.history, History.KEEP_LAST),
            liveliness=_settled(self.liveliness, Liveliness.AUTOMATIC),
            depth=self.depth or DEPTH_DEFAULT,
            deadline_ns=self.deadline_ns or INFINITE_NS,
            lifespan_ns=self.lifespan_ns or INFINITE_NS,
            lease_ns=self.lease_ns or INFINITE_NS,
        )

    def text(self) -> str:
        """As a token of rmw_zenoh has it; a field equal to its default is empty."""
        return ":".join(
            (
                _number(self.reliability, Reliability.RELIABLE),
                _number(self.durability, Durability.VOLATILE),
                f"{_number(self.history, History.KEEP_LAST)},"
                f"{'' if self.depth == DEPTH_DEFAULT else self.depth}",
                _duration(self.deadline_ns),
                _duration(self.lifespan_ns),
                f"{_number(self.liveliness, Liveliness.AUTOMATIC)},{_duration(self.lease_ns)}",
            )
        )

    def bridge_text(self) -> str:
        """As a token of zenoh-bridge-ros2dds has it."""
        durability = "1" if self.is_transient_local else ""
        history = "1" if self.history is History.KEEP_ALL else ""
        depth = "" if self.depth == 1 and not history else str(self.depth)
        return f":{int(self.is_reliable)}:{durability}:{history},{depth}"

    def words(self) -> str:
        """For people: `reliable transient_local keep_last 7`."""
        depth = f" {self.depth}" if self.history is not History.KEEP_ALL else ""
        named = (self.reliability.value, self.durability.value, self.history.value + depth)
        limits = (
            f" {name} {ns / _NS:g} s"
            for name, ns in (("deadline", self.deadline_ns), ("lifespan", self.lifespan_ns))
            if ns != INFINITE_NS
        )
        return " ".join(named) + "".join(limits)


DEFAULT: Final = QoS(depth=10)
SENSOR_DATA: Final = QoS(Reliability.BEST_EFFORT, depth=5)
SERVICES: Final = QoS(depth=10)
PARAMETERS: Final = QoS(depth=1000)
PARAMETER_EVENTS: Final = QoS(depth=1000)
ROSOUT: Final = QoS(durability=Durability.TRANSIENT_LOCAL, depth=1000, lifespan_ns=10 * _NS)
LATCHED: Final = QoS(durability=Durability.TRANSIENT_LOCAL, depth=1)
CLOCK: Final = QoS(Reliability.BEST_EFFORT, depth=1)


def parse_qos(text: str) -> QoS:
    """The QoS of a token of rmw_zenoh.

    Raises:
        InvalidValueError: it is none.

    Example:
        >>> parse_qos(":1:,7:,:,:,,").words()
        'reliable transient_local keep_last 7'
    """
    fields = text.split(":")
    if len(fields) != 6:
        raise _bad(text, f"expected 6 fields, got {len(fields)}")
    reliability, durability, history, deadline, lifespan, liveliness = fields
    kind, depth = _parts(history, 2, text)
    alive, *lease = _parts(liveliness, 3, text)
    return QoS(
        _policy(Reliability, reliability, Reliability.RELIABLE, text),
        _policy(Durability, durability, Durability.VOLATILE, text),
        _policy(History, kind, History.KEEP_LAST, text),
        DEPTH_DEFAULT if not depth else _digits(depth, text),
        _nanoseconds(_parts(deadline, 2, text), text),
        _nanoseconds(_parts(lifespan, 2, text), text),
        _policy(Liveliness, alive, Liveliness.AUTOMATIC, text),
        _nanoseconds(lease, text),
    )


def parse_bridge_qos(text: str) -> QoS:
    """The QoS of a token of zenoh-bridge-ros2dds; any field may be empty.

    Raises:
        InvalidValueError: it is none.

    Example:
        >>> parse_bridge_qos(":1:1:0,100").words()
        'reliable transient_local keep_last 100'
    """
    fields = text.split(":", 4)
    if len(fields) < 4 or fields[0] not in ("", "K"):
        raise _bad(text, "expected [K]:<reliability>:<durability>:<history>,<depth>")
    kind, depth = _parts(fields[3] or ",", 2, text)
    return QoS(
        _BRIDGE_RELIABILITY[_place(fields[1], 0, _BRIDGE_RELIABILITY, text)],
        _BRIDGE_DURABILITY[_place(fields[2], 0, _BRIDGE_DURABILITY, text)],
        _BRIDGE_HISTORY[_place(kind, 0, _BRIDGE_HISTORY, text)],
        _digits(depth, text) if depth else 1,
    )


def mismatches(offered: QoS, requested: QoS) -> list[str]:
    """Why DDS would not connect a publisher and a subscription; Zenoh does (R2-175)."""
    found = []
    if requested.is_reliable and not offered.is_reliable:
        found.append("reliability: the subscription asks for reliable, best effort is offered")
    if requested.is_transient_local and not offered.is_transient_local:
        found.append("durability: the subscription asks for transient local, volatile is offered")
    if requested.deadline_ns < offered.deadline_ns:
        found.append("deadline: the subscription asks for a shorter one than is offered")
    return found


def _settled(policy: P, default: P) -> P:
    return default if policy.name in ("SYSTEM_DEFAULT", "BEST_AVAILABLE") else policy


def _number(policy: P, default: P) -> str:
    return "" if policy is default else str(list(type(policy)).index(policy))


def _duration(ns: int) -> str:
    if ns == INFINITE_NS:
        return ","
    return f"{ns // _NS},{ns % _NS}"


def _policy(kind: type[P], text: str, default: P, whole: str) -> P:
    if not text:
        return default
    members: list[P] = list(kind)
    return members[_place(text, 0, members, whole)]


def _place(text: str, default: int, members: object, whole: str) -> int:
    assert isinstance(members, (list, tuple))
    number = _digits(text, whole) if text else default
    if number >= len(members):
        raise _bad(whole, f"{number} is no policy")
    return number


def _parts(text: str, count: int, whole: str) -> list[str]:
    parts = text.split(",")
    if len(parts) != count:
        raise _bad(whole, f"expected {count} parts in {text[:40]!a}")
    return parts


def _nanoseconds(parts: list[str], whole: str) -> int:
    """Seconds and nanoseconds, either of which may be left out for its half of infinity."""
    seconds, ns = parts
    high, low = divmod(INFINITE_NS, _NS)
    total = (_digits(seconds, whole) if seconds else high) * _NS
    return min(total + (_digits(ns, whole) if ns else low), INFINITE_NS)


def _digits(text: str, whole: str) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise _bad(whole, f"expected a number, got {text[:40]!a}")
    return int(text)


def _bad(text: str, reason: str) -> InvalidValueError:
    return InvalidValueError("QoS", f"{text[:80]!a}: {reason}")
