"""Attacks on a listener for datagrams, at small size: as `test_attacks`, with their own router."""

from __future__ import annotations

from attack.run import assault, target_for


def test_a_datagram_listener_keeps_nothing_of_strangers() -> None:
    with target_for("forged_inits", "elea") as target:
        broken = [
            one for one in assault("forged_inits", target, "small") if not (one.held or one.timed)
        ]
    assert broken == []
