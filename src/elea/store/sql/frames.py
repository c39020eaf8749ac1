"""Frames: what a process for SQL says to the one that started it, and what both know of bounds."""

from __future__ import annotations

import struct
from typing import Final

# Frames: their kind, then their length, then that many bytes.
HEAD: Final = struct.Struct("<cI")
READY: Final = b"R"
SCHEMA: Final = b"S"  # of the rows, as an Arrow stream without any
PIECE: Final = b"P"  # the number of rows, then a row as JSON or a batch as an Arrow stream
DONE: Final = b"D"  # JSON: whether the answer was cut, and whether the process goes on
ERROR: Final = b"E"  # JSON: what is wrong
ROWS: Final = struct.Struct("<I")
INVALID: Final = "invalid"
FAILED: Final = "failed"

_SLACK_LEN: Final = 64 * 2**20  # the answer on its way

LENGTH: Final = ROWS  # of a request, in front of it


def allowance(memory_len: int) -> int:
    """How much more than at its start a process may use for a question of these bounds.

    DuckDB has `memory_len`. As much again is for Arrow, which decodes a table by row groups.
    """
    return 2 * memory_len + _SLACK_LEN


def too_much_memory(memory_len: int) -> str:
    """What is told of a question that exceeds its memory."""
    return f"the answer exceeds memory_mb ({memory_len // 2**20} MiB of memory); ask for less"


def too_much_time(time_s: float) -> str:
    """What is told of a question that exceeds its time."""
    return f"the answer exceeds seconds ({time_s:g} s); ask for less"
