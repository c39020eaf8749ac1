"""TransportStats: every counter has a name to be shown under."""

from __future__ import annotations

from elea.transport.stats import TransportStats


def test_every_counter_is_shown_and_starts_at_nothing() -> None:
    stats = TransportStats()
    shown = stats.as_dict()
    counters = [name for name in dir(stats) if not name.startswith("_")]
    assert sorted(shown) == sorted(name for name in counters if not callable(getattr(stats, name)))
    for value in shown.values():
        assert value in (0, [0] * 8, {})


def test_lost_messages_are_counted_by_reason() -> None:
    stats = TransportStats()
    for reason in ("idle", "idle", "broken"):
        stats.lose_fragments(reason)
    assert stats.as_dict()["lost_fragments"] == {"idle": 2, "broken": 1}
