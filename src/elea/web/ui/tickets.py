"""Tickets: a WebSocket of a browser cannot send a header, so a request gets it a ticket first.

A ticket is good once, for seconds, and from the address that asked for it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from elea.limits import Limits
from elea.session.rights import Identity, bucket_of

_LEN = 24  # random bytes


@dataclass(frozen=True, slots=True)
class _Ticket:
    identity: Identity
    address: str
    until_ns: int


class Tickets:
    """Those that were given out and not used yet.

    Args:
        limits: How many there may be, and how long they are valid.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[str, _Ticket] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._open)

    def issue(self, identity: Identity, now_ns: int) -> str:
        """A new ticket for somebody; the oldest makes room."""
        while len(self._open) >= self._limits.ui_tickets_count:
            del self._open[next(iter(self._open))]
        text = secrets.token_urlsafe(_LEN)
        until_ns = now_ns + self._limits.ui_ticket_ns
        self._open[text] = _Ticket(identity, bucket_of(identity.links[0].address), until_ns)
        return text

    def take(self, text: str, host: str, now_ns: int) -> Identity | None:
        """Whose ticket this is; None if it is unknown, used, too old, or of another address."""
        ticket = self._open.pop(text, None)
        if ticket is None or now_ns >= ticket.until_ns or bucket_of(host) != ticket.address:
            return None
        return ticket.identity
