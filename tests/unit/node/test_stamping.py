"""Timestamps of what a router forwards (behaviour.md 5.3)."""

from __future__ import annotations

from elea.fast.stamping import Stamper
from elea.ids import ZenohId
from elea.timestamp import NTP64, HybridClock
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, WireEncoding, WireExpr
from elea.wire.network.push import Push

NOW_NS = 1_000_000_000_000
KEY = WireExpr(0, "a")


def stamper(*, drops_future: bool = False) -> Stamper:
    clock = HybridClock(ZenohId(b"\x07"))
    return Stamper(clock, lambda: NOW_NS, drops_future=drops_future)


def at(seconds: float) -> Stamp:
    return Stamp(NTP64.from_nanos(NOW_NS + int(seconds * 1e9)).value, b"\x09")


def test_a_value_without_timestamp_gets_one_and_keeps_the_rest() -> None:
    push = Push(KEY, Put(b"x", None, WireEncoding(3), b"attached"), 9)
    stamped = stamper().stamp(push)
    assert stamped is not None
    assert isinstance(stamped.body, Put)
    known = stamped.body.timestamp
    assert known is not None
    assert known.id == b"\x07"
    assert known.time >> 32 == NOW_NS // 1_000_000_000
    assert stamped == Push(KEY, Put(b"x", known, WireEncoding(3), b"attached"), 9)


def test_timestamps_never_repeat() -> None:
    one = stamper()
    times = []
    for _ in range(20):
        stamped = one.stamp(Push(KEY, Put(b"")))
        assert stamped is not None
        assert isinstance(stamped.body, Put)
        assert stamped.body.timestamp is not None
        times.append(stamped.body.timestamp.time)
    assert times == sorted(set(times))


def test_what_has_a_timestamp_and_what_is_deleted_stays_as_it_is() -> None:
    for push in (Push(KEY, Put(b"", at(0.4))), Push(KEY, Put(b"", at(-9))), Push(KEY, Del())):
        assert stamper().stamp(push) is push


def test_the_future_is_stamped_anew_or_dropped() -> None:
    push = Push(KEY, Put(b"x", at(0.6)))
    stamped = stamper().stamp(push)
    assert stamped is not None
    assert isinstance(stamped.body, Put)
    assert stamped.body.timestamp is not None
    assert stamped.body.timestamp.id == b"\x07"
    strict = stamper(drops_future=True)
    assert strict.stamp(push) is None
