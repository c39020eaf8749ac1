"""How a message is treated on its way: priority, congestion, express (wire.md 2.12)."""

from __future__ import annotations

from enum import Enum, nonmember
from typing import Final

from elea.errors import InvalidValueError
from elea.records import dataclass

_PRIORITY_MASK: Final = 0b0000_0111
_FLAG_BLOCK: Final = 0b0000_1000  # D
_FLAG_EXPRESS: Final = 0b0001_0000  # E
_FLAG_BLOCK_FIRST: Final = 0b0010_0000  # F, means something only without D


class Priority(Enum):
    """The priority of a message; the smaller number goes first.

    `CONTROL` is the protocol's own and not for applications: `MAX` is the best they may ask for.
    """

    CONTROL = 0
    REAL_TIME = 1
    INTERACTIVE_HIGH = 2
    INTERACTIVE_LOW = 3
    DATA_HIGH = 4
    DATA = 5
    DATA_LOW = 6
    BACKGROUND = 7
    DEFAULT = DATA
    MIN = BACKGROUND
    MAX = REAL_TIME
    NUM = nonmember(7)  # how many an application may choose from

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


class CongestionControl(Enum):
    """What happens to a message that finds its queue full."""

    DROP = 0  # it may be dropped
    BLOCK = 1  # it waits
    BLOCK_FIRST = 2  # the first one waits; those that come meanwhile are dropped
    DEFAULT = DROP

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


class Reliability(Enum):
    """Whether lost messages are repaired on the way."""

    BEST_EFFORT = 0
    RELIABLE = 1
    DEFAULT = BEST_EFFORT  # as in zenoh-python; a publisher that is not told is reliable

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


class Locality(Enum):
    """Which side of the session data and queries may come from or go to."""

    SESSION_LOCAL = 0
    REMOTE = 1
    ANY = 2
    DEFAULT = ANY

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


@dataclass(frozen=True, slots=True)
class QoS:
    """The QoS octet of a network message, unpacked.

    Example:
        >>> QoS(Priority.REAL_TIME, express=True).to_octet()
        17
    """

    priority: Priority = Priority.DATA
    congestion_control: CongestionControl = CongestionControl.DROP
    express: bool = False

    @classmethod
    def from_octet(cls, octet: int) -> QoS:
        """Unpack an octet. Reserved bits are ignored and block wins over block-first, so not
        every octet survives the way back; who forwards a message keeps the octet itself."""
        if not 0 <= octet <= 0xFF:
            raise InvalidValueError("QoS octet", f"0 to 255 are legal, got {octet}")
        if octet & _FLAG_BLOCK:
            congestion_control = CongestionControl.BLOCK
        elif octet & _FLAG_BLOCK_FIRST:
            congestion_control = CongestionControl.BLOCK_FIRST
        else:
            congestion_control = CongestionControl.DROP
        return cls(
            Priority(octet & _PRIORITY_MASK), congestion_control, bool(octet & _FLAG_EXPRESS)
        )

    def to_octet(self) -> int:
        """Pack into the octet that travels."""
        octet = int(self.priority)
        if self.congestion_control is CongestionControl.BLOCK:
            octet |= _FLAG_BLOCK
        elif self.congestion_control is CongestionControl.BLOCK_FIRST:
            octet |= _FLAG_BLOCK_FIRST
        return octet | _FLAG_EXPRESS if self.express else octet


QOS_PUSH: Final = QoS()  # 0x05, also what an absent extension means
QOS_REQUEST: Final = QoS(congestion_control=CongestionControl.BLOCK)  # 0x0D
QOS_DECLARE: Final = QoS(Priority.CONTROL, CongestionControl.BLOCK)  # 0x08
