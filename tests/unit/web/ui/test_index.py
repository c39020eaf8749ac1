"""The tree of keys: any window of it is that part of the whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elea.web.ui.index import Index

KEYS = st.lists(
    st.lists(st.sampled_from("abc*"), min_size=1, max_size=4).map("/".join), max_size=20
).map(dict.fromkeys)


def test_rows_of_what_is_open() -> None:
    index = Index({"fleet/r1/imu": "p", "fleet/r1": "t", "lamp": "q"})
    assert index.rows(frozenset(), 0, 10) == (
        [[0, "fleet", "fleet", 2, "", False], [0, "lamp", "lamp", 0, "q", False]],
        2,
    )
    rows, total = index.rows(frozenset({"fleet", "fleet/r1", "gone"}), 1, 2)
    assert rows == [
        [1, "r1", "fleet/r1", 1, "t", True],
        [2, "imu", "fleet/r1/imu", 0, "p", False],
    ]
    assert total == 4


def test_a_place_inside_a_closed_one_is_not_shown() -> None:
    rows, total = Index({"a/b/c": "p"}).rows(frozenset({"a/b"}), 0, 10)
    assert (len(rows), total) == (1, 1)


def test_what_a_screen_would_act_on_is_escaped() -> None:
    rows, _ = Index({"\u202e\x1b": "p"}).rows(frozenset(), 0, 1)
    assert rows == [[0, "\\u202e\\x1b", "\u202e\x1b", 0, "p", False]]


def test_words_are_found_in_any_order_and_case() -> None:
    index = Index({"fleet/R1/imu": "p", "fleet/r2/battery": "p"})
    assert index.search("IMU fleet", 0, 10) == (
        [[0, "fleet/R1/imu", "fleet/R1/imu", 0, "p", False]],
        1,
    )
    assert index.search("lamp", 0, 10) == ([], 0)


@given(KEYS, st.integers(0, 8), st.integers(1, 8))
def test_a_window_is_a_part_of_all_rows(keys: dict[str, None], offset: int, limit: int) -> None:
    index = Index(dict.fromkeys(keys, "p"))
    opened = frozenset(part for key in keys for part in (key, key.rpartition("/")[0]))
    everything, total = index.rows(opened, 0, 1_000)
    assert len(everything) == total
    assert index.rows(opened, offset, limit) == (everything[offset : offset + limit], total)
