"""T24: small interests that ask for every declaration, by somebody who reads no answer."""

from __future__ import annotations

from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.limits import DEFAULT_LIMITS
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.interest import OPTION_SUBSCRIBERS, Interest, InterestMode

THREAT: Final = "T24"
RSS_GROWTH: Final = 32 * MIB
SIZES: Final = {"small": 1_000, "full": 9_000}  # declarations that each interest asks for
_INTERESTS: Final = 400  # of which 256 are kept
_WANTED: Final = _INTERESTS - DEFAULT_LIMITS.interests_count


def attack(target: Target, size: int) -> list[Check]:
    declarer, asker = Raw.connect(target.port), Raw.connect(target.port)
    declarer.send(
        Declare(DeclareSubscriber(number, WireExpr(0, f"i/{number}")), qos=QOS_DECLARE)
        for number in range(size)
    )
    until(lambda: target.counter("elea_declared_keys", kind="subscriber") >= size or _other(target))
    asker.send(
        (
            Interest(number, InterestMode.CURRENT_FUTURE, OPTION_SUBSCRIBERS)
            for number in range(1, _INTERESTS + 1)
        ),
        read=False,
    )
    declarer.keep_alive()
    # Either it is kept within its bounds, or closed for not reading what it asked for.
    bounded = _other(target) or until(
        lambda: (
            target.counter("elea_drops_total", where="routing", reason="interest_limit") >= _WANTED
            or target.counter("elea_sessions", whatami="client") <= 4
        )
    )
    peak = target.rss_len()
    declarer.close()
    asker.close()
    return [Check("unbounded", float(not bounded), 0), Check("rss_peak_mib", peak / MIB, 400)]


def _other(target: Target) -> bool:
    return target.peer != "elea"
