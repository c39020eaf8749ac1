"""T28: subscribers that read nothing, of samples that may be dropped and of ones that may not."""

from __future__ import annotations

import time
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

import elea
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare

THREAT: Final = "T28"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 24 * MIB, "full": 512 * MIB}  # octets that are published
_PAYLOAD_LEN: Final = 8_192


def attack(target: Target, size: int) -> list[Check]:
    checks = []
    for control in (elea.CongestionControl.DROP, elea.CongestionControl.BLOCK):
        checks += _publish(target, size // 2, control)
    return checks


def _publish(target: Target, size: int, control: elea.CongestionControl) -> list[Check]:
    name = control.name.lower()
    key = f"slow/{name}"
    base = target.rss_len()
    frozen = Raw.connect(target.port)
    frozen.send([Declare(DeclareSubscriber(1, WireExpr(0, key)), qos=QOS_DECLARE)])
    received = 0
    stall_s = 0.0

    def heard(sample: elea.Sample) -> None:
        nonlocal received
        received += 1

    def wait_until_read(count: int) -> None:
        until(lambda: received >= count)

    with (
        target.session() as reader,
        target.session() as writer,
        reader.declare_subscriber(key, heard),
    ):
        publisher = writer.declare_publisher(key, congestion_control=control)
        until(lambda: publisher.matching_status.matching)
        sent = size // _PAYLOAD_LEN
        for number in range(sent):
            begun_s = time.monotonic()
            publisher.put(bytes(_PAYLOAD_LEN))
            stall_s = max(stall_s, time.monotonic() - begun_s)
            if control is elea.CongestionControl.DROP and number % 16 == 0:
                wait_until_read(number - 256)  # so that who reads has room
        all_came = until(lambda: received >= sent)
        peak = target.rss_len()
        dropped = target.counter("elea_drops_total", where="transport", reason="congestion")
    checks = [
        Check(f"{name}_lost", float(not all_came) * (sent - received), 0),
        Check(f"{name}_rss_peak_mib", (peak - base) / MIB, 16),
    ]
    if control is elea.CongestionControl.BLOCK:
        closed = until(lambda: _ended(frozen))
        checks.append(Check("frozen_not_closed", float(not closed), 0))
        checks.append(Check("stall_s", stall_s, 1.5, timed=True))
    elif target.peer == "elea":
        checks.append(Check("drops_not_counted", float(dropped == 0), 0))
    frozen.close()
    return checks


def _ended(frozen: Raw) -> bool:
    """Whether the router gave up; what it had written is read only now."""
    frozen.drain()
    return frozen.closed
