"""Numbers over time: thinned without changing what is seen, broken where something is missing."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.encoding import Encoding
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SourceInfo
from elea.series import FIELDS_COUNT, Losses, Number, Row, number_of, numbers, read, shown, thin

JSON = Encoding("application/json")
POINTS = st.lists(
    st.tuples(st.floats(0, 100), st.floats(-1e6, 1e6)), max_size=200, unique_by=lambda one: one[0]
).map(sorted)


def source(sn: int, eid: int = 1) -> Number | None:
    return number_of(SourceInfo(EntityGlobalId(ZenohId(b"\x01"), EntityId(eid)), sn))


def row(at_s: float, value: float, sn: int | None = None) -> Row:
    payload = b'{"temp": %f}' % value
    return Row(at_s, payload, JSON, None if sn is None else source(sn))


@given(POINTS, st.integers(1, 20))
def test_a_thinned_line_covers_the_same_pixels(
    points: list[tuple[float, float]], columns: int
) -> None:
    kept = thin(points, 0, 100, columns)
    assert len(kept) <= 4 * (columns + 1)
    assert kept == sorted(set(kept) & set(points))

    def spans(some: list[tuple[float, float]]) -> dict[int, tuple[float, ...]]:
        columns_of: dict[int, list[float]] = {}
        for at_s, value in some:
            columns_of.setdefault(int(at_s * columns / 100), []).append(value)
        return {
            column: (values[0], min(values), max(values), values[-1])
            for column, values in columns_of.items()
        }

    assert spans(kept) == spans(points)


@pytest.mark.parametrize(
    ("payload", "encoding"),
    [
        (b"[" * 100_000, "application/json"),
        (b"\xff\xfe", "text/plain"),
        (b"{", "application/json"),
        (b"NaN", "application/json"),
        (b"1e999", "application/json"),
        (b'{"n": 1e400, "m": true, "s": "1"}', "application/json"),
        (b"abc", "zenoh/bytes"),
    ],
)
def test_what_is_no_number_is_no_point(payload: bytes, encoding: str) -> None:
    assert numbers(payload, Encoding(encoding)) == {}


def test_fields_are_bounded_and_safe_to_show() -> None:
    many = b"{" + b",".join(b'"k%d": %d' % (n, n) for n in range(1_000)) + b"}"
    assert len(numbers(many, JSON)) == FIELDS_COUNT
    long_name = b"x" * 1_000
    assert [len(name) for name in numbers(b'{"%s": 1}' % long_name, JSON)] == [60]
    assert [*numbers('{"\u202eevil": 1}'.encode(), JSON)] == ["\\u202eevil"]


def test_losses_are_counted_by_publisher() -> None:
    losses = Losses()
    assert losses.lost(source(5), 0) is None
    assert losses.lost(source(6), 1) is None
    assert losses.lost(source(10), 2) == (1, 3)
    assert losses.lost(source(9), 3) is None  # late
    assert losses.lost(source(1, eid=2), 4) is None  # another one
    assert losses.lost(source(0xFFFF_FFFF, eid=3), 5) is None
    assert losses.lost(source(1, eid=3), 6) == (5, 1)  # numbers begin again at 0
    assert losses.lost(source(1, eid=0x8000_0000), 7) is None
    assert losses.lost(source(9, eid=0x8000_0000), 8) is None  # its numbers are of any key
    losses.clear()
    assert losses.lost(source(50), 9) is None


def test_the_line_is_broken_where_samples_were_lost_or_none_came() -> None:
    rows = [row(n, n, sn=n) for n in range(10)] + [row(n, n, sn=n) for n in range(12, 20)]
    rows += [row(n, n, sn=n - 20) for n in range(40, 45)]
    part = shown(read(rows, ["temp"], Losses()), 0, 50, 500, whole=True)
    assert part["lost"] == [[9_000, 12_000, 2]]
    series: Any = part["series"]
    times, values = series["temp"]
    assert [at for at, value in zip(times, values, strict=True) if value is None] == [
        12_000,
        40_000,
    ]
    assert part["step"] == 1


def test_the_first_two_fields_are_plotted_if_none_is_asked_for() -> None:
    rows = [Row(n, b'{"a": 1, "b": 2, "c": {"d": 3}}', JSON, None) for n in range(3)]
    found = read(rows, (), Losses())
    assert found.fields == ("a", "b", "c.d")
    assert [*found.points] == ["a", "b"]
    assert math.isclose(found.points["a"][-1][0], 2)
