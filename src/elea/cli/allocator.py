"""The allocator of a process that runs for long: the system's, which gives memory back.

Python's own keeps a megabyte for every object in it that outlives the others. A router whose
largest client has left kept a tenth more than before; with the C library's allocator it keeps
nothing, and a sample costs a few per cent more.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_VARIABLE: Final = "PYTHONMALLOC"


def use_system_allocator() -> None:
    """Begin this process anew with it, unless it has it, or the environment asks for another.

    Only for the program itself, before it has begun anything: what is there is gone. So nothing
    happens where the command line is not the one that the process was begun with.
    """
    given = sys.argv[1:]
    if _VARIABLE in os.environ or not _has_glibc():
        return
    if not given or sys.orig_argv[-len(given) :] != given:
        return
    os.environ[_VARIABLE] = "malloc"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # ourselves


def _has_glibc() -> bool:
    """Whether it is known what the system's allocator does."""
    try:
        return sys.platform == "linux" and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (OSError, ValueError):  # another C library
        return False
