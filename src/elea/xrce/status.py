"""What becomes of a declaration, in the words of a Result (9.2)."""

from __future__ import annotations

from enum import IntEnum

from elea.errors import RemoteProtocolError
from elea.xrce.closing import CloseReason


class Status(IntEnum):
    """The statuses with a meaning; 8 to 255 are treated as OTHER."""

    SUCCESS = 0
    NO_SPACE = 1
    CONFLICT = 2
    TOO_MUCH = 3  # the transaction is too large, or too many are pending
    AGAIN = 4
    INVALID = 5
    UNSUPPORTED = 6
    OTHER = 7


class RefusedError(RemoteProtocolError):
    """A declaration that cannot be applied. As a fact (flag C) it ends the session."""

    close_reason = int(CloseReason.DECLARATION)

    def __init__(self, status: Status, id_: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.id = id_  # 0 if none is to blame
