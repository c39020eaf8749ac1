"""What a node counted of those who wanted to be its neighbours: every link that came to nothing."""

from __future__ import annotations

from enum import StrEnum


class Refusal(StrEnum):
    """Why somebody did not become a neighbour, or stopped being one."""

    SELF = "self"  # the other end is this very node
    DUPLICATE = "duplicate"  # its identifier is in use by a neighbour that is alive
    STRANGER = "stranger"  # its identifier is in use by somebody with other credentials (T13)
    SESSIONS = "sessions"  # there are as many neighbours as there may be
    ROLE = "role"  # `elea/roles` does not give it the role that it claims
    LOGIN = "login"  # unknown user or wrong password
    LOGIN_RATE = "login_rate"  # too many wrong passwords came from that address
    REPLACED = "replaced"  # a silent neighbour, by a newcomer with the same credentials (T13)
    EXPIRED = "expired"  # a certificate of the link has ended
    HANDSHAKE = "handshake"  # pushed out of its handshake by others, or too slow (T09)
    COOKIE = "cookie"  # a datagram with a cookie that is not ours, too old or used (T10)
    LINE = "line"  # a frame of a serial line that noise had spoilt, or of no conversation
    LEARNED = "learned"  # an address that others told of and that must not be dialled (T49)


class NodeStats:
    """Counters of one node since it was made.

    Example:
        >>> stats = NodeStats()
        >>> stats.refuse(Refusal.LOGIN)
        >>> stats.refused()
        {'login': 1}
    """

    __slots__ = ("refusals",)

    def __init__(self) -> None:
        self.refusals: dict[Refusal, int] = dict.fromkeys(Refusal, 0)

    def refuse(self, reason: Refusal, count: int = 1) -> None:
        """Count one, or several."""
        self.refusals[reason] += count

    def refused(self) -> dict[str, int]:
        """The reasons that occurred, with how often."""
        return {reason.value: count for reason, count in self.refusals.items() if count}
