"""The heap of the C library: free pages given back to the system.

What was allocated in small pieces and freed again stays with the process, scattered, until somebody
needs as much again. glibc gives whole free pages back when it is asked to.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Give free pages back, where the C library can; takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
