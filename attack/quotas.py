"""A neighbour with a quota sends more than it may, and adds links and reconnects to get more.

It has as much as its quota gives for the time that it took, whatever it does: a link that it adds,
a new ZID and a new connection find the account that it owes.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push

THREAT: Final = "links and reconnections to escape a quota"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 12, "full": 200}  # connections
_RATE: Final = 500  # messages per second
_AT_ONCE: Final = 400  # messages of one connection, in one batch
_QOS_BLOCK: Final = 0x0D
_SETTINGS: Final = {"elea/quotas": [{"id": "few", "messages_per_second": _RATE}]}


def attack(target: Target, size: int) -> list[Check]:
    """Send all at once by one connection after the other, then by links of one neighbour."""
    with Target("elea", settings=_SETTINGS) as limited, limited.session() as session:
        received = 0

        def count(_sample: object) -> None:
            nonlocal received
            received += 1

        session.declare_subscriber("quota/**", count)
        session.put("quota/a", "x")
        heard = until(lambda: received)
        began_s = time.monotonic()
        for number in range(size):  # a ZID of its own for each, and then one for several links
            zid = None if number % 2 else b"\x77" * 16
            flood(limited.port, zid)
        served = until(lambda: limited.counter("elea_sessions") > 0)  # it waits, as all of its do
        got, elapsed_s = received, time.monotonic() - began_s
        # A second in advance, and what one connection sent before it was over its quota.
        allowed = _RATE * (elapsed_s + 1) + _AT_ONCE
    print({"received": got, "allowed": allowed, "elapsed": elapsed_s}, file=sys.stderr)
    return [
        Check("not_heard", float(not heard), 0),
        Check("beyond_its_quota", max(0.0, got - allowed), 0),
        Check("not_served", float(not served), 0),
    ]


def flood(port: int, zid: bytes | None) -> None:
    """Connect and send as much as fits at once."""
    try:
        raw = Raw.connect(port, zid=zid)
    except ConnectionError:
        return  # as many links as it may have
    raw.send(Push(WireExpr(0, "quota/a"), Put(b"x"), _QOS_BLOCK) for _ in range(_AT_ONCE))
    until(lambda: raw.drain() or True)
    raw.close()
