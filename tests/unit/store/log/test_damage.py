"""Cut and flipped logs: all damage is told, and all that is not damaged is read."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.store.log.rows import numbers_of, rows
from tests.unit.store.log.test_log import filled, listed, writer_on

from elea.errors import CorruptLogError, StoreError
from elea.store.log import consumers
from elea.store.log.disk import RealDisk
from elea.store.log.ends import read_ends
from elea.store.log.head import HEAD
from elea.store.log.log import Log
from elea.store.log.manifest import read_manifest, write_manifest
from elea.store.log.reader import LogReader
from elea.store.log.record import RECORD_LEN, seed_of
from elea.store.log.segment import DATA, INDEX, KEYS, Damage, Examination, first_seqs, stem_of
from elea.store.log.settings import LogSettings
from elea.store.log.verify import QUARANTINE, repair, verify

SMALL = LogSettings(segment_len=7_000, low_water_percent=0)  # three blocks each


def disk_of(path: Path) -> RealDisk:
    return RealDisk(path, writable=True)


def readable(path: Path) -> tuple[list[int], int]:
    """The numbers that can be read, and how many were told to be lost."""
    told: list[Damage] = []
    reader = LogReader(path, told.append)
    numbers = numbers_of(list(reader.read(0, reader.bounds(0).first)))
    assert reader.lost_count == sum(one.lost_count for one in told)
    return numbers, reader.lost_count


def small_log(path: Path) -> None:
    """Four segments, the last one with two blocks, keys listed."""
    writer = filled(path, 11, SMALL)
    listed(path, writer)
    writer.close()
    assert len(list(path.glob(f"*/*{DATA}"))) == 4


@pytest.fixture(scope="module")
def octets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a small log."""
    path = tmp_path_factory.mktemp("log")
    small_log(path)
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    }


def restore(path: Path, octets: dict[str, bytes]) -> None:
    """Make the directory what it was, without what a writer has added."""
    shutil.rmtree(path)
    path.mkdir()
    for name, content in octets.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)


def files_of(octets: dict[str, bytes], suffix: str) -> list[str]:
    return sorted(name for name in octets if name.endswith(suffix))


def test_a_whole_log_has_no_damage(tmp_path: Path) -> None:
    small_log(tmp_path)
    told: list[tuple[str, int, int]] = []
    found = verify(disk_of(tmp_path), lambda *one: told.append(one))
    assert (found.rows_count, found.blocks_count, found.damage) == (110, 11, [])
    assert told[-1][1] == told[-1][2] == found.octets_count


@pytest.mark.parametrize("place", [0, 3])
def test_a_flip_at_every_octet_is_found(
    place: int, octets: dict[str, bytes], tmp_path: Path
) -> None:
    """In a closed and in the last segment. At most the rows of one block are lost by one flip."""
    restore(tmp_path, octets)
    name = files_of(octets, DATA)[place]
    disk = disk_of(tmp_path)
    content = octets[name]
    first_seq = first_seqs(disk, 0)[place]
    seed = seed_of(LogReader(tmp_path).log_id, 0)
    with (tmp_path / name).open("r+b", buffering=0) as file:
        for at, octet in enumerate(content):
            file.seek(at)
            file.write(bytes([octet ^ 1 << at % 8]))
            damage = Examination(disk, 0, first_seq, seed).damage
            assert damage, f"a flip at octet {at} was not found"
            assert sum(one.lost_count for one in damage) in (0, 10)
            if at % 23 == 0:
                assert verify(disk).damage == damage
                numbers, lost = readable(tmp_path)
                assert len(numbers) == 110 - lost
                assert lost == sum(one.lost_count for one in damage)
            file.seek(at)
            file.write(bytes([octet]))
    assert verify(disk).damage == []


@pytest.mark.parametrize("place", [0, 3])
def test_a_flip_at_every_octet_of_an_index_costs_nothing(
    place: int, octets: dict[str, bytes], tmp_path: Path
) -> None:
    restore(tmp_path, octets)
    name = files_of(octets, INDEX)[place]
    disk = disk_of(tmp_path)
    content = octets[name]
    for at, octet in enumerate(content):
        (tmp_path / name).write_bytes(
            content[:at] + bytes([octet ^ 1 << at % 8]) + content[at + 1 :]
        )
        assert verify(disk).damage
        numbers, lost = readable(tmp_path)
        is_last_record = place == 3 and at >= len(content) - 64
        if is_last_record:  # without record nobody knows whether the block is finished
            assert (numbers, lost) == ([*range(100)], 0)
        else:
            assert (numbers, lost) == ([*range(110)], 0)


def unclose(path: Path, *, power_lost: bool = True) -> None:
    """As if its writer had been killed; or, what was not synchronised is gone, too."""
    disk = disk_of(path)
    write_manifest(disk, replace(read_manifest(disk), ends=()))
    if power_lost:
        disk.remove("ends")


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_segment_that_was_cut_together_with_its_index_is_damaged(
    octets: dict[str, bytes], tmp_path: Path, is_removed: bool
) -> None:
    """A broken copy of a log that was closed: how many rows are gone is known."""
    data, index = files_of(octets, DATA)[-1], files_of(octets, INDEX)[-1]
    for at in range(0, len(octets[data]), 97):
        path = tmp_path / str(at)
        path.mkdir()
        restore(path, octets)
        (path / data).write_bytes(octets[data][:at])
        (path / index).write_bytes(b"")
        if is_removed:
            (path / index).unlink()
        found = verify(disk_of(path))
        writer = writer_on(path, SMALL)
        for damage in (found.damage, writer.report.damage):
            [gone] = [one for one in damage if one.end_seq == 110]
            assert gone.first_seq in (90, 100)
        assert writer.ends() == [110]  # numbers are never given twice
        writer.commit([rows(110, 5)])
        writer.close()
        assert readable(path)[0][-5:] == [*range(110, 115)]


def test_an_index_that_was_deleted_under_a_writer_that_was_killed_is_told(
    octets: dict[str, bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, index = files_of(octets, DATA)[-1], files_of(octets, INDEX)[-1]
    restore(tmp_path, octets)
    unclose(tmp_path)
    (tmp_path / data).write_bytes(octets[data][:-100])
    (tmp_path / index).unlink()
    [damage] = verify(disk_of(tmp_path)).damage
    assert "acknowledged rows after these may be gone" in str(damage)
    with Log(tmp_path, SMALL) as log:
        assert log.report().damage == [damage]
    assert "may be gone" in caplog.text
    for claim in ("no row lost", "never acknowledged"):
        assert claim not in caplog.text


@pytest.mark.parametrize("index_left", [None, 0, RECORD_LEN])
def test_numbers_are_not_given_again_when_segment_and_index_were_cut_under_a_killed_writer(
    octets: dict[str, bytes], tmp_path: Path, index_left: int | None
) -> None:
    data, index = files_of(octets, DATA)[-1], files_of(octets, INDEX)[-1]
    for at in range(0, len(octets[data]), 97):
        path = tmp_path / str(at)
        path.mkdir()
        restore(path, octets)
        unclose(path, power_lost=False)
        (path / data).write_bytes(octets[data][:at])
        (path / index).write_bytes(octets[index][: index_left or 0])
        if index_left is None:
            (path / index).unlink()
        before = verify(disk_of(path))
        writer = writer_on(path, SMALL)
        assert writer.ends() == [110]
        writer.commit([rows(110, 5)])
        writer.close()
        after = verify(disk_of(path))
        for damage in (before.damage, writer.report.damage, after.damage):
            assert {*range(100, 110)} <= {
                seq for one in damage for seq in range(one.first_seq, one.end_seq)
            }
        assert readable(path)[0][-5:] == [*range(110, 115)]
        repair(disk_of(path))
        assert not verify(disk_of(path)).damage


@pytest.mark.parametrize("count", [1, 2, None])
def test_newest_segments_that_were_deleted_whole_under_a_killed_writer_are_told(
    octets: dict[str, bytes], tmp_path: Path, count: int | None
) -> None:
    restore(tmp_path, octets)
    unclose(tmp_path, power_lost=False)
    names = files_of(octets, DATA)
    for name in names if count is None else names[-count:]:
        for suffix in (DATA, INDEX):
            (tmp_path / name.replace(DATA, suffix)).unlink()
    [damage] = verify(disk_of(tmp_path)).damage
    writer = writer_on(tmp_path, SMALL)
    assert writer.ends() == [110]
    assert writer.report.damage[-1].end_seq == damage.end_seq == 110
    writer.close()


def test_an_end_that_is_damaged_or_of_another_log_is_not_believed(
    octets: dict[str, bytes], tmp_path: Path
) -> None:
    restore(tmp_path, octets)
    slot = octets["ends"]
    other = UUID(int=7)
    for text in (b"", slot[:9], bytes(16), b"\xff" * 16, bytes([slot[0] ^ 1]) + slot[1:]):
        (tmp_path / "ends").write_bytes(text)
        assert not verify(disk_of(tmp_path)).damage
        assert read_ends(disk_of(tmp_path), read_manifest(disk_of(tmp_path)).log_id, 1) == [0]
    (tmp_path / "ends").write_bytes(slot)
    assert read_ends(disk_of(tmp_path), other, 2) == [0, 0]


def test_data_that_were_deleted_and_left_their_index_are_told(
    octets: dict[str, bytes], tmp_path: Path
) -> None:
    restore(tmp_path, octets)
    unclose(tmp_path)
    (tmp_path / files_of(octets, DATA)[-1]).unlink()
    writer = writer_on(tmp_path, SMALL)
    [damage] = writer.report.damage
    assert (damage.first_seq, damage.end_seq) == (90, 110)
    assert writer.ends() == [110]
    writer.close()


def test_files_of_others_stay(octets: dict[str, bytes], tmp_path: Path) -> None:
    restore(tmp_path, octets)
    data = files_of(octets, DATA)[0]
    shard = (tmp_path / data).parent
    others = ["notes.txt", f"{Path(data).name}.bak", "x.arrows", "1.idx", f"{'0' * 20}.csv"]
    for name in others:
        (shard / name).write_text("mine")
    (shard / f"{'0' * 19}7.packing.arrows").write_text("litter")
    writer_on(tmp_path, SMALL).close()
    assert {name for name in others if (shard / name).exists()} == set(others)
    assert not list(shard.glob("*packing*"))


def test_a_cut_at_every_octet_opens_and_goes_on(octets: dict[str, bytes], tmp_path: Path) -> None:
    """The last segment and its index, cut as by a crash: whole blocks stay, the rest is cut."""
    data, index = files_of(octets, DATA)[-1], files_of(octets, INDEX)[-1]
    half = len(HEAD) + (len(octets[data]) - len(HEAD)) // 2
    for at in [*range(0, len(octets[data]), 37), *range(half - 20, half + 20), len(octets[data])]:
        restore(tmp_path, octets)
        unclose(tmp_path)
        (tmp_path / data).write_bytes(octets[data][:at])
        (tmp_path / index).write_bytes(b"")
        writer = writer_on(tmp_path, SMALL)
        assert writer.report.damage == []
        [end] = writer.ends()
        assert end in (90, 100, 110)
        writer.commit([rows(end, 5)])
        writer.close()
        assert readable(tmp_path) == ([*range(end + 5)], 0)
        assert verify(disk_of(tmp_path)).damage == []


def test_an_index_tells_damage_from_an_unfinished_end(
    octets: dict[str, bytes], tmp_path: Path
) -> None:
    """The last block is cut although its record says that it was durable."""
    restore(tmp_path, octets)
    data = files_of(octets, DATA)[-1]
    (tmp_path / data).write_bytes(octets[data][:-100])
    writer = writer_on(tmp_path, SMALL)
    [damage] = writer.report.damage
    assert (damage.first_seq, damage.end_seq) == (100, 110)
    assert "the file ends" in str(damage)
    assert writer.ends() == [110]  # no number is used twice
    writer.commit([rows(110, 5)])
    writer.close()
    assert readable(tmp_path) == ([*range(100), *range(110, 115)], 10)
    with pytest.raises(CorruptLogError):
        list(LogReader(tmp_path).read(0, 95))


def test_what_consumers_have_read_is_not_numbered_again(
    octets: dict[str, bytes], tmp_path: Path
) -> None:
    restore(tmp_path, octets)
    unclose(tmp_path)
    reader = LogReader(tmp_path)
    consumers.commit(disk_of(tmp_path), "one", reader.log_id, {0: 105}, now_ns=0)
    data, index = files_of(octets, DATA)[-1], files_of(octets, INDEX)[-1]
    (tmp_path / data).write_bytes(octets[data][:2000])
    (tmp_path / index).write_bytes(b"")
    writer = writer_on(tmp_path, SMALL)
    assert writer.ends() == [105]
    assert "consumers have read" in str(writer.report.damage[-1])
    writer.commit([rows(105, 5)])
    writer.close()
    numbers, lost = readable(tmp_path)
    assert lost == 15
    assert numbers == [*range(90), *range(105, 110)]


@pytest.mark.parametrize("seed", range(40))
def test_repair_keeps_all_that_holds(seed: int, octets: dict[str, bytes], tmp_path: Path) -> None:
    """Flips and cuts anywhere, several at once: afterwards the log is whole, less what is lost."""
    rng = random.Random(seed)
    restore(tmp_path, octets)
    for _ in range(rng.randint(1, 4)):
        name = rng.choice([*files_of(octets, DATA), *files_of(octets, INDEX)])
        content = bytearray((tmp_path / name).read_bytes())
        if not content:
            continue
        if rng.random() < 0.3:
            del content[rng.randrange(len(content)) :]
        else:
            at = rng.randrange(len(content))
            content[at : at + rng.choice([1, 1, 700])] = bytes([rng.randrange(256)])
        (tmp_path / name).write_bytes(content)
    before, _ = readable(tmp_path)
    found = repair(disk_of(tmp_path))
    assert verify(disk_of(tmp_path)).damage == []
    after, lost = readable(tmp_path)
    assert set(before) <= set(after)
    assert after == sorted(after)
    assert found.lost_count >= lost
    if lost:
        assert list((tmp_path / QUARANTINE).iterdir())
    writer = writer_on(tmp_path, SMALL)
    assert writer.report.damage == []
    [end] = writer.ends()
    writer.commit([rows(end, 3)])
    writer.close()
    again, _ = readable(tmp_path)
    assert again == [*after, *range(end, end + 3)] or set(after) < set(again)


def test_repair_needs_the_log_to_itself(tmp_path: Path) -> None:
    writer = filled(tmp_path, 1)
    with pytest.raises(StoreError, match="stop it first"):
        repair(disk_of(tmp_path))
    writer.close()
    with pytest.raises(StoreError, match="no log there"):
        verify(disk_of(tmp_path / "nothing"))


def test_a_damaged_list_of_keys_is_not_used(octets: dict[str, bytes], tmp_path: Path) -> None:
    restore(tmp_path, octets)
    name = files_of(octets, KEYS)[0]
    for at in range(0, len(octets[name]), 11):
        content = bytearray(octets[name])
        content[at] ^= 4
        (tmp_path / name).write_bytes(content)
        assert [one.segment for one in verify(disk_of(tmp_path)).damage] == [name]
    assert numbers_of(list(LogReader(tmp_path).select("k/1"))) == [*range(1, 110, 3)]
    repair(disk_of(tmp_path))
    assert not (tmp_path / name).exists()


def test_a_block_of_another_log_is_none_of_ours(tmp_path: Path) -> None:
    filled(tmp_path / "a", 2).close()
    filled(tmp_path / "b", 2).close()
    stem = stem_of(0, 0)
    for suffix in (DATA, INDEX):
        (tmp_path / "b" / (stem + suffix)).replace(tmp_path / "a" / (stem + suffix))
    before = (tmp_path / "a" / (stem + DATA)).read_bytes()
    writer = writer_on(tmp_path / "a")
    assert "damaged" in str(writer.report.damage[0])
    assert writer.ends()[0] > 20
    writer.close()
    assert (tmp_path / "a" / (stem + DATA)).read_bytes() == before


def test_numbers_of_a_block_of_which_nothing_is_left_are_not_given_again(
    octets: dict[str, bytes], tmp_path: Path
) -> None:
    restore(tmp_path, octets)
    for name in (files_of(octets, DATA)[-1], files_of(octets, INDEX)[-1]):
        (tmp_path / name).write_bytes(octets[name][:-30] + bytes(30))
    [lost] = [one for one in verify(disk_of(tmp_path)).damage if one.lost_count]
    assert "at most" in str(lost)
    repair(disk_of(tmp_path))
    assert verify(disk_of(tmp_path)).damage == []
    writer = writer_on(tmp_path, SMALL)
    assert (writer.report.damage, writer.ends()[0] >= 110) == ([], True)
    writer.close()
