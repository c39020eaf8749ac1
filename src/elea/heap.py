"""The heap of the C library: free pages given back to the system, or kept.

What was allocated in small pieces and freed again stays with the process, scattered, until somebody
needs as much again. glibc gives whole free pages back when it is asked to. What was allocated in
large pieces it gives back at once: whoever needs as much again soon gets new pages, and to clear
those costs more than to fill them.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1  # names of glibc's malloc.h
_MMAP_THRESHOLD: Final = -3
_PIECE_LEN: Final = 32 * 1024 * 1024  # the longest that glibc can keep
_KEPT_LEN: Final = 2 * _PIECE_LEN


def give_back() -> None:
    """Give free pages back, where the C library can; takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def keep() -> None:
    """Keep some free megabytes, for a process that needs large pieces again and again.

    This is how glibc decides by itself once a piece of 32 MiB was freed: it keeps 64 MiB then.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it
    if tune is not None:
        tune(_MMAP_THRESHOLD, _PIECE_LEN)
        tune(_TRIM_THRESHOLD, _KEPT_LEN)
