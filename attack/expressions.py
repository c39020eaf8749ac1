"""T20, T21: the worst key expressions that are legal, over many subscriptions and samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attack.harness import MIB, Check, Raw, Target

from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push

THREAT: Final = "T20, T21"
RSS_GROWTH: Final = 64 * MIB
SIZES: Final = {"small": 300, "full": 9_000}
_CHUNK: Final = "a$*" * 7 + "b"
_HOSTILE: Final = (
    "/".join(f"**/{'a' * (number + 1)}" for number in range(16)),
    "/".join([_CHUNK] * 40),
    "**/" + "/".join(["*"] * 60) + "/b",
)


def attack(target: Target, size: int) -> list[Check]:
    raw = Raw.connect(target.port)
    raw.send(_declarations(size))
    raw.send(_samples(size))
    beyond = Raw.connect(target.port)
    beyond.send([_declare(1, "/".join(["**/x"] * 17))])  # one `**` more than is legal
    checks = [Check("closed_for_legal_keys", float(raw.is_closed()), 0)]
    raw.close()
    beyond.close()
    return checks


def _declarations(count: int) -> Iterator[NetworkMessage]:
    for number in range(count):
        yield _declare(number, f"{_HOSTILE[number % len(_HOSTILE)]}/c{number}")


def _declare(number: int, key: str) -> Declare:
    return Declare(DeclareSubscriber(number, WireExpr(0, key)), qos=QOS_DECLARE)


def _samples(count: int) -> Iterator[NetworkMessage]:
    for number in range(count):
        key = "/".join(["a" * (1 + (number + chunk) % 16) for chunk in range(40)])
        yield Push(WireExpr(0, key), Put(b"x"))
