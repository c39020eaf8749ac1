"""Fuzz tickets of Arrow Flight: any bytes are a ticket that reads back, or an InvalidValueError."""

from __future__ import annotations

from elea.errors import InvalidValueError
from elea.store.log.ticket import Ticket

SEEDS = [
    b'{"v": 1, "log": "fleet", "shard": 0, "lo": 7, "hi": 9, "columns": ["key", "seq"]}',
    b'{"v": 1, "log": "fleet", "id": "1c9a3b0e-0000-4000-8000-000000000000", "lossy": true}',
    b'{"v": 1, "log": "fleet", "keyexpr": ["a/**", "b/*/c", "**"], "from": 1, "until": 2}',
    b'{"v": 1, "log": "\\ud800", "shard": 18446744073709551616}',
    b'{"v": 1, "log": "x", "lo": 1e999, "hi": NaN, "columns": [[], {}, null]}',
    b'{"v": true, "log": "x"}',
    b"[" * 200,
    b"",
]

# What does not grow with the input: names of columns, the JSON scanner, a key expression.
MEMORY_ALLOWANCE = 64 * 1024


def one_input(data: bytes) -> None:
    try:
        ticket = Ticket.decode(data)
    except InvalidValueError:
        return
    assert Ticket.decode(ticket.encode()) == ticket
