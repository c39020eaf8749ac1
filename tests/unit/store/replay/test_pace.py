"""When rows are due, by a clock that only goes on when it is told to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import InvalidValueError
from elea.store.replay.pace import Pacer

TIMES = st.integers(0, 10**15)
SPEEDS = st.floats(0.001, 1000)
ACTS = st.one_of(
    st.tuples(st.just("wait"), st.integers(0, 10**10)),
    st.tuples(st.just("speed"), SPEEDS),
    st.tuples(st.just("pause"), st.just(0)),
    st.tuples(st.just("resume"), st.just(0)),
    st.tuples(st.just("seek"), TIMES),
)


@given(acts=st.lists(ACTS, max_size=20))
def test_the_position_is_the_sum_of_what_went_by(acts: list[tuple[str, float]]) -> None:
    """Against the obvious model: time that passes while it plays, times the speed."""
    pacer = Pacer(1.0)
    now_ns, position, speed, paused = 0, 0.0, 1.0, False
    for verb, value in acts:
        if verb == "wait":
            now_ns += int(value)
            position += 0 if paused else int(value) * speed
        elif verb == "speed":
            pacer.set_speed(value, now_ns)
            speed = value
        elif verb == "pause":
            pacer.pause(now_ns)
            paused = True
        elif verb == "resume":
            pacer.resume(now_ns)
            paused = False
        else:
            pacer.seek(int(value), now_ns)
            position = int(value)
        assert pacer.position_ns(now_ns) == pytest.approx(position, abs=len(acts) + 1)
        assert (pacer.paused, pacer.speed) == (paused, speed)


@given(begin=TIMES, later=st.integers(0, 10**12), speed=SPEEDS, now=TIMES)
def test_due_and_position_agree(begin: int, later: int, speed: float, now: int) -> None:
    pacer = Pacer(speed)
    pacer.seek(begin, now)
    due_ns = pacer.due_ns(begin + later)
    assert due_ns is not None
    assert due_ns >= now
    assert pacer.position_ns(due_ns) == pytest.approx(begin + later, abs=speed + 1, rel=1e-9)
    assert pacer.behind_ns(begin + later, due_ns + 7) == 7
    assert pacer.behind_ns(begin + later, due_ns) == 0


def test_as_fast_as_possible_is_due_at_once_and_stays_where_it_came_to() -> None:
    pacer = Pacer(0)
    pacer.seek(1_000, now_ns=5)
    assert pacer.due_ns(10**18) == 5
    pacer.reached(2_000)
    assert pacer.position_ns(now_ns=10**9) == 2_000
    pacer.set_speed(1, now_ns=100)
    assert pacer.due_ns(2_010) == 110
    pacer.reached(9_999)  # means nothing with a speed
    assert pacer.position_ns(now_ns=110) == 2_010


def test_paused_is_never_due() -> None:
    pacer = Pacer(2)
    pacer.seek(0, now_ns=0)
    pacer.pause(now_ns=10)
    pacer.pause(now_ns=20)
    assert pacer.due_ns(0) is None
    assert pacer.behind_ns(0, now_ns=99) == 0
    pacer.resume(now_ns=1_000)
    assert pacer.due_ns(40) == 1_010


@pytest.mark.parametrize("speed", [-1, float("nan"), float("inf"), "2", None, True])
def test_no_speed(speed: float) -> None:
    with pytest.raises(InvalidValueError, match="legal is"):
        Pacer(speed)
