"""T23: one client declares more than it may, then leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.limits import DEFAULT_LIMITS
from elea.wire.codec import NetworkMessage
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare

THREAT: Final = "T22, T23"
RSS_GROWTH: Final = 48 * MIB
SIZES: Final = {"small": 11_000, "full": 100_000}
_ALIASES: Final = 5_000


def attack(target: Target, size: int) -> list[Check]:
    raw = Raw.connect(target.port)
    raw.send(_declarations(size))
    kept = 0.0

    def arrived() -> bool:
        nonlocal kept
        kept = target.counter("elea_declared_keys", kind="subscriber")
        dropped = target.counter("elea_drops_total", where="routing", reason="declaration_limit")
        return raw.is_closed() or kept + dropped >= size

    if target.peer == "elea":
        until(arrived)
    peak = kept
    raw.close()
    left = until(lambda: target.counter("elea_declared_keys", kind="subscriber") <= 10)
    refused = target.counter("elea_drops_total", where="routing", reason="alias_limit")
    counted = refused >= _ALIASES - DEFAULT_LIMITS.aliases_count or target.peer != "elea"
    return [
        Check("declarations_kept", peak, DEFAULT_LIMITS.declarations_count + 10),
        Check("declarations_left", float(not left), 0),
        Check("aliases_not_counted", float(not counted), 0),
    ]


def _declarations(count: int) -> Iterator[NetworkMessage]:
    for number in range(1, _ALIASES + 1):
        alias = DeclareKeyExpr(number, WireExpr(0, f"flood/alias/{number}"))
        yield Declare(alias, qos=QOS_DECLARE)
    for number in range(count):
        key = WireExpr(0, f"flood/{number % 100}/{number}")
        yield Declare(DeclareSubscriber(number, key), qos=QOS_DECLARE)
