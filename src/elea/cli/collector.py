"""Python's collector of cycles: what starting makes stays, so that it is not looked at."""

from __future__ import annotations

import gc
from typing import Final

# More objects than a start makes: a collection among them takes 5 ms, and finds nothing.
_STARTING: Final = (80_000, 10, 10)
_RUNNING: Final = (20_000, 10, 10)

_was_begun = False


def begin() -> None:
    """Collect rarely from now on: this process starts."""
    global _was_begun
    _was_begun = True
    gc.set_threshold(*_STARTING)


def settle() -> None:
    """Leave what is there out of collections, and collect as often as long runs need it.

    Nothing happens where `begin` was not called: the process belongs to another program.
    """
    global _was_begun
    if _was_begun:
        _was_begun = False
        gc.freeze()
        gc.set_threshold(*_RUNNING)
