"""Storage: last writer wins, deletions are remembered, bounds hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.volumes import ALL, opened

from elea.errors import LimitError, StoreError
from elea.limits import Limits
from elea.store.backend import Backend, Mark, Stored
from elea.store.backends.memory import MemoryBackend, MemoryHistory
from elea.store.storage import Storage
from elea.store.testing import at, value
from elea.timerange import TimeRange
from elea.timestamp import Timestamp

NOW_NS = at(1_000).time.as_nanos()


def shown(storage: Storage, key_expr: str = "**", times: str | None = None) -> dict[str, list[str]]:
    chosen = None if times is None else TimeRange.parse(times)
    found = {
        key: [one.payload.decode() for one in storage.values(key, chosen, NOW_NS)]
        for key in storage.keys(key_expr)
    }
    return {key: values for key, values in found.items() if values}


def test_the_newest_wins() -> None:
    storage = Storage(MemoryBackend())
    assert storage.put("a", value("2", 2))
    assert not storage.put("a", value("1", 1))
    assert not storage.put("a", value("2", 2))
    assert storage.put("a", value("3", 3))
    assert shown(storage) == {"a": ["3"]}


def test_a_deletion_is_remembered() -> None:
    storage = Storage(MemoryBackend())
    assert storage.delete("a", at(2))
    assert not storage.delete("a", at(1))
    assert not storage.put("a", value("1", 1))
    assert shown(storage) == {}
    assert storage.put("a", value("3", 3))
    assert not storage.delete("a", at(2))
    assert shown(storage) == {"a": ["3"]}


def test_an_update_of_many_as_eclipse_tests_it() -> None:
    storage = Storage(MemoryBackend())
    storage.put("wild/test/*", value("1", 1))
    assert shown(storage) == {}
    storage.put("wild/test/a", value("2", 2))
    storage.put("wild/test/b", value("3", 2))
    assert shown(storage, "wild/test/*") == {"wild/test/a": ["2"], "wild/test/b": ["3"]}
    storage.put("wild/test/*", value("4", 4))
    assert shown(storage) == {"wild/test/a": ["4"], "wild/test/b": ["4"]}
    storage.delete("wild/test/*", at(5))
    assert shown(storage) == {}


def test_an_update_of_many_does_not_bring_back_what_was_deleted() -> None:
    storage = Storage(MemoryBackend())
    storage.put("a/x", value("1", 1))
    storage.put("a/**", value("5", 5))
    assert shown(storage) == {"a/x": ["5"]}
    storage.delete("a/*", at(3))  # late: when the update came, there was no value
    assert shown(storage) == {}
    storage.put("a/x", value("4", 4))
    assert shown(storage) == {"a/x": ["5"]}


def test_what_was_updated_stays_if_the_mark_is_forgotten() -> None:
    storage = Storage(MemoryBackend())
    storage.put("a/x", value("1", 1))
    storage.put("a/**", value("5", 5))
    assert storage.collect(NOW_NS) == 1
    storage.put("a/x", value("4", 4))
    assert shown(storage) == {"a/x": ["5"]}


def test_marks_are_collected_by_age() -> None:
    storage = Storage(MemoryBackend())
    storage.delete("a", at(1))
    storage.delete("b/**", at(2))
    storage.put("c/**", value("x", 3))
    assert storage.marks_count == 3
    assert storage.collect(at(2).time.as_nanos()) == 1
    assert storage.put("a", value("late", 0))
    assert not storage.put("b/x", value("late", 0))
    assert storage.collect(NOW_NS) == 2
    assert storage.marks_count == 0
    assert storage.put("b/x", value("late", 0))


def test_bounds() -> None:
    storage = Storage(MemoryBackend(), limits=Limits(storage_keys_count=2, storage_marks_count=2))
    storage.put("a", value("1", 1))
    storage.put("b", value("1", 1))
    with pytest.raises(LimitError, match="storage_keys_count allows 2, got 3"):
        storage.put("c", value("1", 1))
    assert storage.put("a", value("2", 2))
    for number in range(5):
        storage.delete(f"gone/{number}", at(number))
    assert storage.marks_count == 2
    assert storage.forgotten_count == 3
    assert not storage.put("gone/4", value("late", 1))


def test_a_prefix_is_left_out() -> None:
    backend = MemoryBackend()
    storage = Storage(backend, "demo/x/**", "demo/x")
    storage.put("demo/x", value("0", 1))
    storage.put("demo/x/a/b", value("1", 1))
    assert dict(backend.entries()) == {"": at(1), "a/b": at(1)}
    again = Storage(backend, "demo/x/**", "demo/x")
    assert shown(again, "demo/**") == {"demo/x": ["0"], "demo/x/a/b": ["1"]}
    again.delete("**", at(2))
    assert list(backend.entries()) == []


def test_entries_of_another_storage_are_left_alone() -> None:
    backend = MemoryBackend()
    for key in ("a/b", "b", "", "x//y", "x/*"):
        backend.put(key, value("1", 1))
    storage = Storage(backend, "a/**")
    assert shown(storage) == {"a/b": ["1"]}
    assert storage.foreign_count == 4


def test_a_range_of_time_is_asked_of_the_newest_value() -> None:
    storage = Storage(MemoryBackend())
    storage.put("a", value("1", 1))
    storage.put("b", value("900", 900))
    assert shown(storage, times="[now(-5m)..]") == {"b": ["900"]}
    assert shown(storage, times="[..now(-5m)]") == {"a": ["1"]}


def test_history() -> None:
    storage = Storage(MemoryHistory())
    for second in (5, 1, 3):
        assert storage.put("a", value(str(second), second))
    assert shown(storage) == {"a": ["5"]}
    assert shown(storage, times="[..]") == {"a": ["1", "3", "5"]}
    assert shown(storage, times="[now(-999s)..now(-997s)]") == {"a": ["1", "3"]}
    assert shown(storage, times="]now(-999s)..now(-997s)[") == {}
    assert storage.delete("a", at(3))
    assert not storage.put("a", value("2", 2))
    assert shown(storage, times="[..]") == {"a": ["5"]}
    storage.put("*", value("9", 9))
    storage.put("a", value("7", 7))
    assert shown(storage, times="[..]") == {"a": ["5", "7", "9"]}
    storage.delete("**", at(10))
    assert shown(storage, times="[..]") == {}


class Failing(MemoryBackend):
    """A backend that fails when it is told to, and loses what was not flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_for: set[str] = set()
        self.is_full = False

    def put(self, key: str, value: Stored) -> None:
        if key in self.fails_for:
            raise OSError("no")
        super().put(key, value)

    def flush(self) -> None:
        if self.is_full:
            self._values.clear()
            raise StoreError("full")


def test_what_fails_changes_nothing_and_the_others_are_done() -> None:
    backend = Failing()
    storage = Storage(backend)
    for key in ("a", "b", "c"):
        storage.put(key, value("1", 1))
    backend.fails_for = {"b"}
    with pytest.raises(OSError, match="no"):
        storage.put("b", value("2", 2))
    with pytest.raises(OSError, match="no"):
        storage.put("*", value("3", 3))
    assert shown(storage) == {"a": ["3"], "b": ["1"], "c": ["3"]}
    backend.fails_for = set()
    assert storage.put("b", value("4", 4))


def test_after_a_flush_that_failed_the_index_is_what_the_backend_has() -> None:
    backend = Failing()
    storage = Storage(backend)
    storage.put("a", value("1", 1))
    backend.is_full = True
    with pytest.raises(StoreError, match="full"):
        storage.flush()
    assert len(storage) == 0
    backend.is_full = False
    assert storage.put("a", value("1", 1))


@pytest.mark.parametrize("kind", ALL)
def test_a_full_storage_still_deletes(kind: str, tmp_path: Path) -> None:
    storage = Storage(opened(kind, tmp_path, quota=200_000))
    refusals: list[str] = []
    for number in range(60):
        try:
            storage.put(f"a/{number}", Stored(bytes(9_000), at(number)))
            storage.flush()
        except StoreError as error:
            refusals.append(str(error))
    assert refusals
    kept = storage.keys("**")
    assert 10 < len(kept) < 30
    for key in kept[:5]:
        assert storage.delete(key, at(100))
    assert storage.delete("a/$*9", at(100))
    with contextlib.suppress(StoreError):
        storage.flush()
    assert set(storage.keys("**")) < set(kept[5:])
    assert storage.put("a/new", Stored(bytes(9_000), at(101)))
    storage.flush()
    assert storage.keys("a/new") == ["a/new"]
    assert not storage.put(kept[0], value("late", 50))
    storage.close()


def test_a_plain_class_is_enough() -> None:
    class Mine(Backend):
        def __init__(self) -> None:
            self.kept: dict[str, Stored] = {}

        def put(self, key: str, value: Stored) -> None:
            self.kept[key] = value

        def get(self, key: str) -> Stored | None:
            return self.kept.get(key)

        def delete(self, key: str, timestamp: Timestamp) -> None:
            self.kept.pop(key, None)

        def entries(self) -> Iterator[tuple[str, Timestamp]]:
            return ((key, one.timestamp) for key, one in self.kept.items())

    storage = Storage(Mine())
    storage.put("a", value("1", 1))
    storage.delete("b", at(1))
    storage.flush()
    assert shown(storage) == {"a": ["1"]}
    storage.close()


def test_marks_come_back_with_the_backend() -> None:
    class Marking(MemoryBackend):
        def __init__(self) -> None:
            super().__init__()
            self.known: dict[tuple[str, bool], Mark] = {}

        def mark(self, mark: Mark) -> None:
            self.known[mark.key, mark.value is None] = mark

        def unmark(self, mark: Mark) -> None:
            self.known.pop((mark.key, mark.value is None), None)

        def marks(self) -> list[Mark]:
            return list(self.known.values())

    backend = Marking()
    storage = Storage(backend)
    storage.delete("a/**", at(5))
    storage.delete("b", at(5))
    again = Storage(backend)
    assert not again.put("a/x", value("late", 4))
    assert not again.put("b", value("late", 4))
    assert again.put("b", value("new", 6))
    assert set(backend.known) == {("a/**", True)}
    again.collect(NOW_NS)
    assert backend.known == {}
