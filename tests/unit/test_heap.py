"""The heap of the C library."""

from __future__ import annotations

from pathlib import Path

from elea import heap


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096 / 1e6


def test_what_is_free_between_what_is_not_is_given_back() -> None:
    kept, freed = [], []
    for _ in range(1_000):
        freed += [bytes([1]) * 1_000 for _ in range(100)]
        kept.append(bytes([1]) * 1_000)  # so that nothing ends where the heap does
    freed.clear()
    before = resident_mb()
    heap.give_back()
    assert resident_mb() < before - 50
    assert len(kept) == 1_000
