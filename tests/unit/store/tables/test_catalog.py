"""What a catalog of any format promises: commits, faults at each step, marks, columns."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableAlterer
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.orm import Session

from elea import atomic_file
from elea.errors import StoreError
from elea.store.tables import delta, iceberg, parquet
from elea.store.tables.catalog import (
    ABSENT,
    CHANGES,
    FORMATS,
    RESULTS,
    Catalog,
    Change,
    OutdatedError,
    Snapshot,
    committed,
    format_of,
    offsets_mark,
    open_catalog,
    vacuum,
)
from elea.store.tables.files import DataFile
from elea.store.tables.layout import STAGING

COLUMNS = pa.schema([pa.field("n", pa.int64())])
WIDER = pa.schema([*COLUMNS, pa.field("more", pa.list_(pa.string()))])
OFFSETS = offsets_mark("c:d", "11111111-1111-1111-1111-111111111111")


def opened(path: Path, format: str) -> Catalog:
    return open_catalog(path, format, RESULTS)


@pytest.fixture(params=FORMATS)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    made = opened(tmp_path / "table", request.param)
    made.commit(made.snapshot(), Change(schema=COLUMNS))
    return made


def written(catalog: Catalog, name: str) -> DataFile:
    """A file that waits for its commit."""
    path = f"{STAGING}/" * (catalog.format == "parquet") + f"rows/{name}.parquet"
    file = catalog.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": [1]}), file, store_schema=False)
    return DataFile(path, 1, file.stat().st_size, "")


def names(snapshot: Snapshot) -> list[str]:
    return [Path(file.path).stem for file in snapshot.files()]


def number(snapshot: Snapshot) -> int:
    return snapshot.marks(CHANGES).get(0, 0)


def add(name: str, change: int) -> Callable[[Catalog], Change]:
    return lambda catalog: Change([written(catalog, name)], marks={CHANGES: {0: change}})


def next_change(file: DataFile, base: Snapshot) -> Change:
    return Change([file], marks={CHANGES: {0: number(base) + 1}})


@pytest.mark.parametrize("format", FORMATS)
def test_to_look_at_a_table_that_is_not_there_makes_nothing(tmp_path: Path, format: str) -> None:
    found = opened(tmp_path / "table", format).snapshot()
    assert (found.version, found.schema, found.files()) == (ABSENT, None, [])
    assert (found.marks(CHANGES), found.marks(OFFSETS)) == ({}, {})
    assert not (tmp_path / "table").exists()
    with pytest.raises(StoreError, match="expected columns for a table that is to be made"):
        opened(tmp_path / "table", format).commit(found, Change(marks={CHANGES: {0: 1}}))
    assert opened(tmp_path / "table", format).snapshot().version == ABSENT


@pytest.mark.parametrize("format", FORMATS)
def test_of_two_that_make_a_table_one_wins(tmp_path: Path, format: str) -> None:
    one, other = (opened(tmp_path / "table", format) for _ in range(2))
    first, second = one.snapshot(), other.snapshot()
    one.commit(first, Change(schema=COLUMNS))
    with pytest.raises(OutdatedError, match="expected version -1"):
        other.commit(second, Change(schema=pa.schema([pa.field("other", pa.int64())])))
    assert format_of(tmp_path / "table") == format
    assert other.snapshot().schema == COLUMNS


def test_the_namespace_of_iceberg_that_two_made_at_once_ended_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (opened(tmp_path / "table", "iceberg") for _ in range(2))
    first, second = one.snapshot(), other.snapshot()
    one.commit(first, Change(schema=COLUMNS))
    looks, exists = [False], SqlCatalog.namespace_exists
    monkeypatch.setattr(
        SqlCatalog, "namespace_exists", lambda *args: looks.pop() if looks else exists(*args)
    )
    with pytest.raises(OutdatedError, match="expected version -1"):
        other.commit(second, Change(schema=COLUMNS))
    assert one.snapshot().version == other.snapshot().version


def test_a_commit_on_an_old_snapshot_is_refused(catalog: Catalog) -> None:
    base = catalog.snapshot()
    late = add("late", 1)(catalog)
    catalog.commit(base, add("first", 1)(catalog))
    for change in (late, Change(marks={OFFSETS: {0: 7}}), Change(schema=WIDER)):
        with pytest.raises(OutdatedError):
            catalog.commit(base, change)
    found = catalog.snapshot()
    assert found.version > base.version
    assert (names(found), number(found), found.marks(OFFSETS)) == (["first"], 1, {})
    assert (catalog.root / late.add[0].path).exists(), "its writer decides what becomes of it"
    catalog.commit(found, Change(late.add, marks={CHANGES: {0: 2}}))
    assert names(catalog.snapshot()) == ["first", "late"]


def test_of_two_writers_each_change_is_in_the_table_once(catalog: Catalog) -> None:
    def write(who: str) -> None:
        mine = opened(catalog.root, catalog.format)
        for at in range(3):
            committed(mine, partial(next_change, written(mine, f"{who}{at}")))

    threads = [threading.Thread(target=write, args=(who,)) for who in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = catalog.snapshot()
    assert names(found) == sorted(f"{who}{at}" for who in "ab" for at in range(3))
    assert number(found) == 6


def test_a_writer_that_never_wins_gives_up(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elea.store.tables.catalog.ATTEMPTS_MAX", 2)
    other = opened(catalog.root, catalog.format)

    def plan(base: Snapshot) -> Change:
        other.commit(base, Change(marks={CHANGES: {0: number(base) + 1}}))
        return Change(marks={CHANGES: {0: 100}})

    with pytest.raises(StoreError, match="gave up after 2 attempts"):
        committed(catalog, plan)
    assert number(catalog.snapshot()) == 2


def test_marks_only_grow(catalog: Catalog) -> None:
    catalog.commit(catalog.snapshot(), Change(marks={OFFSETS: {1: 9}, CHANGES: {0: 3}}))
    base = catalog.snapshot()
    assert (base.marks(OFFSETS), base.marks(CHANGES)) == ({1: 9}, {0: 3})
    for marks in ({OFFSETS: {1: 8}}, {OFFSETS: {0: 20}}, {CHANGES: {0: 2}}):
        with pytest.raises(StoreError, match=r"mark .* expected >= \d"):
            catalog.commit(base, Change([written(catalog, "x")], marks=marks))
    catalog.commit(base, Change(marks={OFFSETS: {0: 4, 1: 9}}))
    found = opened(catalog.root, catalog.format).snapshot()
    assert (found.marks(OFFSETS), number(found), found.files()) == ({0: 4, 1: 9}, 3, [])


def test_columns_come_with_the_files_that_have_them(catalog: Catalog) -> None:
    catalog.commit(catalog.snapshot(), add("a", 1)(catalog))
    catalog.commit(catalog.snapshot(), Change([written(catalog, "b")], schema=WIDER))
    found = catalog.snapshot()
    assert found.schema is not None
    assert found.schema.names == ["n", "more"]
    assert names(found) == ["a", "b"]
    with pytest.raises(StoreError, match="n is int64, and cannot become string"):
        catalog.commit(found, Change(schema=pa.schema([pa.field("n", pa.string())])))
    assert catalog.snapshot().version == found.version


def test_files_that_are_listed_outlive_a_vacuum_and_others_do_not(catalog: Catalog) -> None:
    for change, name in enumerate("abc", start=1):
        catalog.commit(catalog.snapshot(), add(name, change)(catalog))
    base = catalog.snapshot()
    replaced = catalog.root / base.files()[0].path
    os.utime(replaced, (0, 0))
    catalog.commit(base, Change(remove=base.files()[:1], marks={CHANGES: {0: 4}}))
    orphan = catalog.root / written(catalog, "orphan").path
    os.utime(orphan, (0, 0))
    for file in catalog.snapshot().files():
        os.utime(catalog.root / file.path, (0, 0))
    assert str(orphan.relative_to(catalog.root)) in vacuum(catalog, 3_600)
    assert not orphan.exists()
    assert replaced.exists() == (catalog.format != "parquet"), "a reader may be at it"
    found = catalog.snapshot()
    assert names(found) == ["b", "c"]
    assert all((catalog.root / file.path).exists() for file in found.files())


class Killed(BaseException):
    """The process ends here."""


class Faults:
    """Raises an error before or after an effect, counted from the beginning of a commit."""

    def __init__(self, patch: pytest.MonkeyPatch, format: str) -> None:
        self.left: int | None = None
        self.error: BaseException = Killed()
        targets: dict[str, list[tuple[Any, str]]] = {
            "delta": [
                (DeltaTable, "create"),
                (DeltaTable, "create_write_transaction"),
                (TableAlterer, "add_columns"),
                (delta, "sync"),
            ],
            "iceberg": [
                (iceberg, "sync"),
                (Session, "commit"),
                (SqlCatalog, "commit_table"),
            ],
            "parquet": [
                (Path, "replace"),
                (Path, "unlink"),
                (parquet, "sync"),
                (atomic_file, "sync"),
            ],
        }
        for owner, name in targets[format]:
            patch.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            self._step()
            done = effect(*args, **options)
            self._step()
            return done

        return wrapped

    def _step(self) -> None:
        if self.left == 0:
            self.left = None
            raise self.error
        if self.left is not None:
            self.left -= 1


REPORTED = {
    "delta": CommitFailedError("no answer"),
    "iceberg": CommitFailedException("no answer"),
    "parquet": PermissionError(13, "denied"),
}


@pytest.mark.parametrize("kind", ["reported", "disk", "killed"])
def test_whatever_a_commit_ends_with_it_is_in_the_table_whole_or_not_at_all(
    catalog: Catalog, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then it goes on: nothing that the table lists is gone, and no change is there twice."""
    errors = {"reported": REPORTED[catalog.format], "disk": OSError(5, "I/O"), "killed": Killed()}
    catalog.commit(catalog.snapshot(), add("first", 1)(catalog))
    faults = Faults(monkeypatch, catalog.format)
    outcomes: set[tuple[str, bool]] = set()
    for step in range(100):
        base = catalog.snapshot()
        before = base.files()
        assert base.schema is not None
        change = Change(
            [written(catalog, f"file{step:03}")],
            before[:1],
            {CHANGES: {0: number(base) + 1}},
            pa.schema([*base.schema, pa.field(f"c{step}", pa.int64())]),
        )
        faults.left, faults.error = step, errors[kind]
        try:
            catalog.commit(base, change)
            outcome = "done"
        except OutdatedError:
            outcome = "outdated"
        except (OSError, CommitFailedError, CommitFailedException, Killed):
            outcome = "unknown"
        has_failed, faults.left = faults.left is None, None
        catalog = opened(catalog.root, catalog.format)
        found = catalog.snapshot()
        is_there = number(found) == number(base) + 1
        if is_there:
            assert names(found) == [f"file{step:03}"]
            assert found.schema == change.schema
        else:
            assert found.files() == before
            catalog.commit(found, change)
            assert names(catalog.snapshot()) == [f"file{step:03}"]
        for file in catalog.snapshot().files():
            assert pq.read_table(catalog.root / file.path).num_rows == 1
        outcomes.add((outcome, is_there))
        if not has_failed:
            break
    assert not has_failed, "there are more steps than this test takes"
    assert outcomes <= {("done", True), ("outdated", False), ("unknown", True), ("unknown", False)}
    assert ("unknown", False) in outcomes or kind == "reported"
    assert step > 3


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_whose_making_is_killed_at_any_step_is_made_by_the_next_process(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch, format)
    for step in range(100):
        catalog = opened(tmp_path / f"{step}", format)
        file = written(catalog, "first")
        change = Change([file], marks={CHANGES: {0: 1}}, schema=COLUMNS)
        faults.left = step
        with suppress(Killed):
            catalog.commit(catalog.snapshot(), change)
        has_failed, faults.left = faults.left is None, None
        found = opened(catalog.root, format).snapshot()
        if not number(found):
            assert found.files() == []
            catalog.commit(found, change)
        assert names(catalog.snapshot()) == ["first"]
        assert (catalog.root / catalog.snapshot().files()[0].path).exists()
        if not has_failed:
            break
    assert not has_failed
    assert step > 3
