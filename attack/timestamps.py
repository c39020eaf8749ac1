"""T31: samples from the future. Whoever believes one would win over all others, for years."""

from __future__ import annotations

import time
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

import elea
from elea.timestamp import NTP64
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.push import Push

THREAT: Final = "T31"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 1_000, "full": 100_000}
_YEAR_S: Final = 365 * 86_400
_KEY: Final = "future/key"


def attack(target: Target, size: int) -> list[Check]:
    heard: list[elea.Sample] = []
    raw = Raw.connect(target.port)
    with target.session() as session, session.declare_subscriber("future/**", heard.append):
        later = int(NTP64.from_nanos(time.time_ns() + _YEAR_S * 10**9))
        raw.send(
            Push(WireExpr(0, _KEY), Put(b"x", timestamp=Stamp(later + number, b"\x66")))
            for number in range(size)
        )
        until(lambda: len(heard) >= size)
        with target.session() as other:
            other.put("future/now", b"now")
            until(lambda: any(str(one.key_expr) == "future/now" for one in heard))
        now_s = time.time()
    ahead_s = 0.0
    for sample in heard:
        if sample.timestamp is not None:
            ahead_s = max(ahead_s, sample.timestamp.get_time().timestamp() - now_s)
    came = any(str(one.key_expr) == "future/now" for one in heard)
    raw.close()
    return [Check("ahead_s", ahead_s, 1), Check("nothing_came", float(not came), 0)]
