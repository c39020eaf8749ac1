from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from elea.errors import InvalidValueError
from elea.ids import ZenohId
from elea.timestamp import COUNTER_MASK, NTP64, HybridClock, Timestamp, TimestampId

SECOND = 1_000_000_000
NOON = datetime(2024, 7, 1, 13, 51, 12, 129693, tzinfo=UTC)
ID = ZenohId(b"\x33")


def test_ntp64_is_seconds_and_fractions() -> None:
    assert NTP64(1, 500_000_000).value == 0x1_8000_0000
    assert NTP64(1, 1).value == 4294967300
    assert NTP64(1, SECOND) == NTP64(2, 0)
    assert NTP64.from_nanos(1_500_000_000) == NTP64(1, 500_000_000)
    time = NTP64.from_datetime(NOON)
    assert (int(time), str(time)) == (7386664595088445305, "7386664595088445305")
    assert (time.as_secs(), time.subsec_nanos()) == (1719841872, 129693000)
    assert time.as_nanos() == 1719841872129693000
    assert time.as_secs_f64() == 1719841872.129693
    assert time.to_datetime() == NOON


def test_a_fraction_that_rounds_up_to_the_next_second() -> None:
    time = NTP64.from_value(0xFFFF_FFFF)
    assert time.as_nanos() == SECOND
    assert time.to_string_rfc3339_lossy() == "1970-01-01T00:00:01.000000000Z"


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("2024-07-01T13:51:12.129693Z", 7386664595088445305, "2024-07-01T13:51:12.129693000Z"),
        ("2024-07-01T13:51:12.1Z", 7386664594960914841, "2024-07-01T13:51:12.100000000Z"),
        ("2024-07-01T13:51:12.1234567891Z", 7386664595061660983, "2024-07-01T13:51:12.123456789Z"),
        ("2024-06-30T23:59:60Z", 7386450391627464704, "2024-06-30T23:59:59.000000000Z"),
        ("2024-06-30T23:59:60.5Z", 7386450393774948352, "2024-06-30T23:59:59.500000000Z"),
        ("2106-02-07T06:28:15Z", 18446744069414584320, "2106-02-07T06:28:15.000000000Z"),
    ],
)
def test_rfc3339(text: str, value: int, shown: str) -> None:
    time = NTP64.parse_rfc3339(text)
    assert time.value == value
    assert time.to_string_rfc3339_lossy() == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "12",
        "2024-07-01",
        "2024-07-01T13:51:12",
        "2024-07-01T13:51:12+02:00",
        "2024-07-01 13:51:12Z",
        "2024-07-01t13:51:12z",
        "2024-07-01T13:51:12.Z",
        "2024-02-30T00:00:00Z",
        "2024-07-01T24:00:00Z",
        "0000-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2106-02-07T06:28:16Z",
        "2024-07-01T13:51:12Z\n",
        "٢٠٢٤-07-01T13:51:12Z",
    ],
)
def test_what_is_no_rfc3339_time(text: str) -> None:
    with pytest.raises(InvalidValueError):
        NTP64.parse_rfc3339(text)


@pytest.mark.parametrize("value", [-1, 2**64])
def test_ntp64_has_64_bits(value: int) -> None:
    with pytest.raises(InvalidValueError, match="64 bits"):
        NTP64.from_value(value)
    with pytest.raises(InvalidValueError, match="1970 to 2106"):
        NTP64(value, 0)


def test_timestamp_texts() -> None:
    stamp = Timestamp(NOON, b"\x33")
    assert str(stamp) == "7386664595088445305/33"
    assert stamp.to_string_rfc3339_lossy() == "2024-07-01T13:51:12.129693000Z/33"
    assert Timestamp.parse(str(stamp)) == stamp
    assert repr(stamp) == str(stamp)
    assert Timestamp.parse_rfc3339(stamp.to_string_rfc3339_lossy()) == stamp
    assert Timestamp.parse_rfc3339("2024-07-01T13:51:12Z/aBc").get_id() == ZenohId(b"\xbc\x0a")


@pytest.mark.parametrize(
    "text", ["", "1", "/33", "1/", "x/33", "1/033", "1/0", "²/1", "9" * 21 + "/1"]
)
def test_what_is_no_timestamp(text: str) -> None:
    with pytest.raises(InvalidValueError):
        Timestamp.parse(text)


@pytest.mark.parametrize("text", ["2024-07-01T13:51:12Z", "2024-07-01T13:51:12Z/", "1/33"])
def test_what_is_no_rfc3339_timestamp(text: str) -> None:
    with pytest.raises(InvalidValueError):
        Timestamp.parse_rfc3339(text)


def test_timestamp_parts() -> None:
    stamp = Timestamp(NTP64.from_datetime(NOON), bytearray(b"\x33"))
    assert stamp.get_time() == NOON
    assert stamp.get_time_as_ntp64() == NTP64.from_datetime(NOON)
    assert stamp.get_id() == TimestampId(b"\x33")
    two_hours_east = timezone(timedelta(hours=2))
    assert Timestamp(NOON.astimezone(two_hours_east), ID) == stamp


def test_a_naive_datetime_names_no_instant() -> None:
    with pytest.raises(TypeError, match="time zone"):
        Timestamp(NOON.replace(tzinfo=None), ID)


def test_a_number_is_no_time() -> None:
    with pytest.raises(TypeError, match="got int"):
        Timestamp(5, ID)  # type: ignore[arg-type]  # what an untyped caller does


def test_order_is_time_then_octets() -> None:
    late = Timestamp(NOON + timedelta(microseconds=1), b"\x01")
    low, high = Timestamp(NOON, b"\x01\x02"), Timestamp(NOON, b"\x02\x01")
    assert sorted([late, high, low]) == [low, high, late]


def test_difference_has_a_sign() -> None:
    early = Timestamp(datetime(2024, 1, 1, tzinfo=UTC), ID)
    late = Timestamp(NOON, ID)
    assert late.get_diff_duration(early) == NOON - early.get_time()
    assert early.get_diff_duration(late) == early.get_time() - NOON


def test_values_pickle_and_hash() -> None:
    stamp = Timestamp(NOON, ID)
    assert pickle.loads(pickle.dumps(stamp)) == stamp
    assert len({stamp, Timestamp(NOON, ID)}) == 1


def test_clock_follows_the_wall_and_counts_in_between() -> None:
    clock = HybridClock(ID)
    first = clock.now(10 * SECOND)
    assert first.time.value == 10 << 32
    assert [clock.now(10 * SECOND).time.value & COUNTER_MASK for _ in range(3)] == [1, 2, 3]
    assert clock.now(11 * SECOND).time.value == 11 << 32


def test_clock_does_not_go_back_with_the_wall() -> None:
    clock = HybridClock(ID)
    first = clock.now(10 * SECOND)
    second = clock.now(1 * SECOND)
    assert second > first
    assert second.time.value == first.time.value + 1


def test_clock_follows_a_neighbour_within_the_drift() -> None:
    clock = HybridClock(ID)
    ahead = Timestamp(NTP64.from_nanos(10 * SECOND + 500_000_000), b"\xff")
    assert clock.update(10 * SECOND, ahead)
    assert clock.now(10 * SECOND) > ahead
    assert clock.refused_count == 0


def test_clock_a_year_ahead_moves_nobody() -> None:
    clock = HybridClock(ID)
    poison = Timestamp(NTP64(365 * 86_400, 0), b"\xff")
    assert not clock.update(10 * SECOND, poison)
    assert clock.refused_count == 1
    assert clock.now(10 * SECOND).time.value == 10 << 32


def test_drift_is_measured_from_the_wall_not_from_the_last_stamp() -> None:
    clock = HybridClock(ID, max_drift_ns=SECOND)
    wall_ns = 10 * SECOND
    for step in range(1, 4):  # a neighbour that pushes a little further each time gets no further
        remote = Timestamp(NTP64.from_nanos(wall_ns + step * 900_000_000), b"\xff")
        assert clock.update(wall_ns, remote) is (step == 1)
    assert clock.refused_count == 2


def test_an_older_neighbour_changes_nothing() -> None:
    clock = HybridClock(ID)
    first = clock.now(10 * SECOND)
    assert clock.update(10 * SECOND, Timestamp(NTP64(1, 0), b"\xff"))
    assert clock.now(10 * SECOND).time.value == first.time.value + 1


def test_a_run_of_timestamps_may_be_issued_outside_of_the_clock() -> None:
    clock = HybridClock(ID)
    wall_ns = 10 * SECOND
    assert clock.floor(wall_ns) + 1 == 10 << 32 == clock.tick(wall_ns)
    assert clock.floor(wall_ns) == 10 << 32
    clock.advance((10 << 32) + 7)
    clock.advance(3)
    assert clock.tick(wall_ns) == (10 << 32) + 8
    latest = clock.latest(wall_ns)
    assert clock.accept(wall_ns, latest)
    assert not clock.accept(wall_ns, latest + 1)
