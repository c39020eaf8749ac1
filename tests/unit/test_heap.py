"""The heap of the C library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from elea import heap

KEEPS = """
import resource
from elea import heap
heap.keep()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        pieces = [b"1" * 10_000_000 for _ in range(4)]
        del pieces
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


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


def test_what_is_large_and_needed_again_is_kept() -> None:
    """In a process of its own, since that is for good."""
    told = subprocess.run([sys.executable, "-c", KEEPS], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 2_000  # pages, of 200,000
