"""T26: more queries than may be open, for ever if the asker had its way, and floods of replies."""

from __future__ import annotations

from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.limits import DEFAULT_LIMITS
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declare import Declare
from elea.wire.network.request import Request
from elea.wire.network.response import Response

THREAT: Final = "T26"
RSS_GROWTH: Final = 32 * MIB
SIZES: Final = {"small": 1_500, "full": 20_000}  # queries, and replies that nobody asked for
_KEY: Final = WireExpr(0, "amplified")
_HOUR_MS: Final = 3_600_000


def attack(target: Target, size: int) -> list[Check]:
    silent, asker = Raw.connect(target.port), Raw.connect(target.port)
    silent.send([Declare(DeclareQueryable(1, _KEY), qos=QOS_DECLARE)])
    until(lambda: target.counter("elea_declared_keys", kind="queryable") >= 2 or _other(target))
    asker.send(Request(number, _KEY, Query(), timeout_ms=_HOUR_MS) for number in range(size))
    unasked = range(10**6, 10**6 + size)
    silent.send(Response(number, _KEY, Reply(Put(b"late" * 64))) for number in unasked)
    beyond = size - DEFAULT_LIMITS.queries_count
    bounded = _other(target) or until(
        lambda: (
            target.counter("elea_drops_total", where="routing", reason="query_limit") >= beyond
            and target.counter("elea_drops_total", where="routing", reason="reply_late") >= size
        )
    )
    asker.close()
    silent.close()
    gone = until(lambda: target.counter("elea_declared_keys", kind="queryable") <= 1)
    return [Check("unbounded", float(not bounded), 0), Check("left_behind", float(not gone), 0)]


def _other(target: Target) -> bool:
    return target.peer != "elea"
