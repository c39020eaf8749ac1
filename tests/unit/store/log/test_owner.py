"""A writer owns its files: nothing is acknowledged when they are not where they were."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.store.log.rows import numbers_of, rows

from elea.errors import StoreError
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.verify import verify

SEGMENT = "shard-0000/00000000000000000000"


@pytest.mark.parametrize("what", ["lock", "shard-0000", ".", f"{SEGMENT}.arrows", f"{SEGMENT}.idx"])
@pytest.mark.parametrize("how", ["deleted", "renamed", "replaced", "linked"])
def test_nothing_is_acknowledged_when_its_files_are_not_where_they_were(
    tmp_path: Path, what: str, how: str
) -> None:
    path = tmp_path / "log"
    log = Log(path, LogSettings(low_water_percent=0))
    log.store(rows(0, 5))
    target = path / what
    if how == "deleted":
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    elif how == "linked" and not target.is_dir():  # another name does not help
        (tmp_path / "link").hardlink_to(target)
        target.unlink()
    else:
        target = path if what == "." else target
        target.rename(tmp_path / "away")
        if how == "linked":
            target.symlink_to(tmp_path / "elsewhere")
        elif how == "replaced" and (tmp_path / "away").is_dir():
            shutil.copytree(tmp_path / "away", target)
        elif how == "replaced":
            shutil.copy(tmp_path / "away", target)
    with pytest.raises(StoreError, match=r"deleted|replaced"):
        log.store(rows(5, 5))
    assert log.broken is not None
    with pytest.raises(StoreError, match="open it again"):
        log.store(rows(5, 5))
    log.close()


def test_a_second_writer_ends_the_first_one(tmp_path: Path) -> None:
    """Somebody deleted the file `lock` to get in."""
    first = Log(tmp_path, LogSettings(low_water_percent=0))
    first.store(rows(0, 5))
    (tmp_path / "lock").unlink()
    with Log(tmp_path, LogSettings(low_water_percent=0)) as second:
        with pytest.raises(StoreError, match="another writer"):
            first.store(rows(5, 5))
        assert second.store(rows(10, 5)).ranges == {0: (5, 10)}
        first.close()
    assert verify(RealDisk(tmp_path, writable=False)).damage == []
    assert numbers_of(list(LogReader(tmp_path).read(0, 0))) == [*range(5), *range(10, 15)]
