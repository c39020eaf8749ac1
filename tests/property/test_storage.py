"""A storage against its definition: all updates of a key, applied in the order of their time."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.volumes import opened

from elea.keyexpr.match import intersects
from elea.store.backend import Stored
from elea.store.storage import Storage
from elea.store.testing import at
from elea.timerange import TimeRange

KEYS = ("a", "a/b", "a/c", "a/b/c", "b", "b/c", "@v/a")
WILD = ("**", "*", "a/**", "*/c", "a/*", "a/b$*", "@v/**", "**/c")

Update = tuple[str, bool, int]  # key, whether it deletes, time

updates = st.lists(
    st.tuples(st.sampled_from(KEYS * 2 + WILD), st.booleans(), st.integers(0, 10_000)),
    max_size=40,
    unique_by=lambda update: update[2],
)


def replayed(updates: list[Update], key: str) -> str | None:
    """What the value of a key is: no cleverness."""
    found: str | None = None
    for expression, deletes, time in sorted(updates, key=lambda update: update[2]):
        meets = intersects(expression, key) and found is not None
        if expression == key or meets:
            found = None if deletes else str(time)
    return found


def apply(storage: Storage, update: Update) -> None:
    key, deletes, time = update
    if deletes:
        storage.delete(key, at(time))
    else:
        storage.put(key, Stored(str(time).encode(), at(time)))


def shown(storage: Storage) -> dict[str, str]:
    found = {}
    for key in (*storage.keys("**"), *storage.keys("@v/**")):
        [value] = storage.values(key, None, 0)
        assert value.timestamp == at(int(value.payload))
        found[key] = value.payload.decode()
    return found


def expected(updates: list[Update]) -> dict[str, str]:
    found = {key: replayed(updates, key) for key in KEYS}
    return {key: value for key, value in found.items() if value is not None}


@given(updates=updates)
def test_whatever_the_order_the_result_is_that_of_the_times(updates: list[Update]) -> None:
    storage = Storage(opened("memory", Path()))
    for update in updates:
        apply(storage, update)
    assert shown(storage) == expected(updates)


@pytest.mark.parametrize("kind", ["fs", "sqlite"])
@settings(max_examples=30)  # each synchronises files
@given(updates=updates, again=st.integers(0, 40))
def test_the_same_on_disk_and_twice_over(kind: str, updates: list[Update], again: int) -> None:
    """Repeated deliveries and flushes in between change nothing."""
    updates = [update for update in updates if update[0][0] != "@"]  # `**` has no such keys
    with TemporaryDirectory() as folder:
        storage = Storage(opened(kind, Path(folder)))
        for number, update in enumerate([*updates, *updates[:again]]):
            apply(storage, update)
            if number % 7 == 0:
                storage.flush()
        storage.flush()
        assert shown(storage) == expected(updates)
        storage.close()
        reopened = Storage(opened(kind, Path(folder)))
        assert shown(reopened) == expected(updates)
        reopened.close()


@given(updates=updates)
def test_history_holds_every_put_that_no_later_deletion_met(updates: list[Update]) -> None:
    storage = Storage(opened("memory all", Path()))
    plain = [update for update in updates if update[1] or "*" not in update[0]]
    for update in plain:
        apply(storage, update)
    for key in KEYS:
        deletions = [time for one, deletes, time in plain if deletes and intersects(one, key)]
        puts = sorted(time for one, deletes, time in plain if one == key and not deletes)
        kept = [time for time in puts if not any(time < other for other in deletions)]
        everything = storage.values(key, TimeRange(), at(20_000).time.as_nanos())
        assert [int(one.payload) for one in everything] == kept
