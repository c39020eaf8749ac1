"""What is kept is followed, within a bound."""

from __future__ import annotations

from elea.devices.follow import EVERYTHING, FOLLOWED_COUNT, Follow
from elea.timestamp import HybridClock, TimestampId
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.samples.sample import Sample

CLOCK = HybridClock(TimestampId.from_bytes(b"\1"))


class Subscriber:
    def __init__(self, key_expr: str, there: list[str]) -> None:
        self.key_expr = key_expr
        self._there = there
        there.append(key_expr)

    def undeclare(self) -> None:
        self._there.remove(self.key_expr)


def made(*keys: str) -> tuple[Follow, MemoryStore, list[str]]:
    there: list[str] = []
    store = MemoryStore()
    for key in keys:
        store.write(Sample.of_key(key, b"", CLOCK.now(0)), 0)
    follow = Follow([store], lambda key: Subscriber(key, there))  # type: ignore[arg-type, return-value]
    return follow, store, there


def test_what_nobody_keeps_is_not_followed() -> None:
    follow, _, there = made()
    follow.keep("a/*", Subscriber("a/*", there))  # type: ignore[arg-type]
    assert there == []


def test_a_pattern_is_followed_until_the_last_of_it_is_deleted() -> None:
    follow, store, there = made("a/b", "a/c")
    follow.keep("a/*", Subscriber("a/*", there))  # type: ignore[arg-type]
    for key, left in (("a/b", ["a/*"]), ("a/c", [])):
        store.delete(key, CLOCK.now(0), 0)
        follow.deleted(key)
        assert there == left


def test_a_publisher_takes_over() -> None:
    follow, _, there = made("a")
    follow.begin(["a"])
    assert there == ["a"]
    assert follow.take("a") is not None
    assert follow.declared() == []
    assert follow.take("a") is None


def test_beyond_the_bound_everything_is_followed() -> None:
    keys = [f"k/{number}" for number in range(FOLLOWED_COUNT + 2)]
    follow, _, there = made(*keys)
    follow.begin(keys)
    assert there == [EVERYTHING]
    follow.note("k/late")
    assert there == [EVERYTHING]
    assert len(follow.declared()) == 1
