from __future__ import annotations

import pytest

from elea.errors import SelectorError
from elea.timerange import TimeExpr, TimeRange
from elea.timestamp import NTP64, Timestamp

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
NOON_NS = 1_719_835_200 * SECOND  # 2024-07-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[..]", "[..]"),
        ("]..[", "]..["),
        ("[now(-1h)..]", "[now(-1h)..]"),
        ("[..now()]", "[..now()]"),
        ("[now(-2h);1h]", "[now(-2h)..now(-1h)]"),
        ("]now();90[", "]now()..now(90s)["),
        ("[2024-07-01T12:00:00Z..now()[", "[2024-07-01T12:00:00Z..now()["),
        ("[2024-07-01 12:00:00.5..]", "[2024-07-01T12:00:00.5Z..]"),
        (
            "[2024-07-01T12:00:00.226942997Z;1w]",
            "[2024-07-01T12:00:00.226942997Z..2024-07-08T12:00:00.226942997Z]",
        ),
        ("[now(-0)..now(0.0)]", "[now()..now()]"),
        ("[now(1.5h)..now(-0.25ms)]", "[now(90m)..now(-250u)]"),
        ("[now(1.)..now(0.001u)]", "[now(1s)..now(0.001u)]"),
        ("[now(1u)..now(2d)]", "[now(1u)..now(2d)]"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    time_range = TimeRange.parse(text)
    assert str(time_range) == shown
    assert TimeRange.parse(shown) == time_range


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("", 0, "before the start"),
        ("..", 0, "before the start"),
        ("(..]", 0, "before the start"),
        ("[", 1, "after the end"),
        ("[..", 3, "after the end"),
        ("[]", 1, "'..' or ';'"),
        ("[now()]", 6, "'..' or ';'"),
        ("[;1h]", 1, "neither now"),
        ("[now();]", 7, "is no duration"),
        ("[now();-1h]", 7, "is no duration"),
        ("[now(-)..]", 6, "is no duration"),
        ("[now(--1)..]", 6, "is no duration"),
        ("[now(1y)..]", 5, "is no duration"),
        ("[now(1e3)..]", 5, "is no duration"),
        ("[now(.5)..]", 5, "is no duration"),
        ("[now(٣)..]", 5, "is no duration"),
        ("[now( 1h)..]", 5, "is no duration"),
        ("[now(1h30m)..]", 5, "is no duration"),
        ("[now..]", 1, "neither now"),
        ("[..yesterday]", 3, "neither now"),
        ("[1969-12-31T00:00:00Z..]", 1, "1970 to 2106"),
        ("[2024-02-30T00:00:00Z..]", 1, "neither now"),
        ("[2024-07-01T12:00:00+02:00..]", 1, "neither now"),
        ("[now(80000d)..]", 5, "200 years"),
        ("[now(" + "9" * 100 + ")..]", 5, "200 years"),
        ("[now(" + "9" * 300 + ")..]", 256, "256 characters"),
    ],
)
def test_texts_that_are_no_range(text: str, offset: int, reason: str) -> None:
    with pytest.raises(SelectorError, match=reason) as caught:
        TimeRange.parse(text)
    assert caught.value.offset == offset
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("[now(-1h)..now()]", (True, True, True)),
        ("]now(-1h)..now()]", (False, True, True)),
        ("[now(-1h)..now()[", (True, True, False)),
        ("]now(-1h);1h[", (False, True, False)),
        ("[now(-59m)..]", (False, False, True)),
        ("[..now(-1h)]", (True, False, False)),
        ("[..]", (True, True, True)),
        ("[now()..now(-1h)]", (False, False, False)),
    ],
)
def test_bounds(text: str, inside: tuple[bool, bool, bool]) -> None:
    time_range = TimeRange.parse(text)
    times = [NTP64.from_nanos(ns) for ns in (NOON_NS - HOUR, NOON_NS - HOUR + 1, NOON_NS)]
    assert tuple(time_range.contains(time, NOON_NS) for time in times) == inside
    fixed = time_range.resolve(NOON_NS)
    assert tuple(fixed.contains(Timestamp(time, b"\x01"), 0) for time in times) == inside


def test_a_fixed_instant_is_inside_its_own_bounds() -> None:
    # NTP64 cannot hold every nanosecond exactly; the comparison is in nanoseconds, so it need not.
    text = "2024-07-01T12:00:00.123456789Z"
    time = NTP64.parse_rfc3339(text)
    assert TimeRange.parse(f"[{text}..{text}]").contains(time, 0)
    assert not TimeRange.parse(f"]{text}..{text}]").contains(time, 0)


def test_resolved_bounds_may_lie_before_1970() -> None:
    assert str(TimeRange.parse("[now(-36500d)..]").resolve(NOON_NS)) == "[1924-07-26T12:00:00Z..]"
    assert TimeExpr(-5, relative=True).resolve(3) == -2
