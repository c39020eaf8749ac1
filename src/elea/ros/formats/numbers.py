"""Sequences of numbers in messages: arrays of numpy, where that is installed (R2-602).

They are views of the payload and cannot be written. Without numpy they are `memoryview`, or
`array.array` where the order of bytes is not that of the machine.
"""

from __future__ import annotations

import array
import importlib
import sys
from contextlib import suppress
from functools import cache
from typing import Any, Final

_NATIVE: Final = "<" if sys.byteorder == "little" else ">"
_TYPES: Final = {
    "?": "b1",
    "b": "i1",
    "B": "u1",
    "h": "i2",
    "H": "u2",
    "i": "i4",
    "I": "u4",
    "q": "i8",
    "Q": "u8",
    "f": "f4",
    "d": "f8",
}


class _NumPy:
    """numpy and its types of numbers, imported on first use: it costs 0.1 s."""

    __slots__ = ("dtypes", "module")

    def __init__(self) -> None:
        self.module: Any = None
        self.dtypes: dict[tuple[str, str], Any] = {}
        with suppress(ModuleNotFoundError):  # it is optional
            self.module = importlib.import_module("numpy")
            self.dtypes = {
                (code, order): self.module.dtype(order + name)
                for code, name in _TYPES.items()
                for order in ("<", ">")
            }


@cache
def _numpy() -> _NumPy:
    return _NumPy()


def numbers_at(data: bytes, at: int, count: int, code: str, order: str) -> Any:
    """A view of numbers in a payload; `code` is that of `struct`."""
    numpy = _numpy()
    if numpy.module is not None:
        return numpy.module.frombuffer(data, numpy.dtypes[code, order], count, at)
    width = int(_TYPES[code][1])
    view = memoryview(data)[at : at + count * width]
    if order == _NATIVE or width == 1:
        return view.cast(code)  # type: ignore[call-overload]  # one of those it knows
    swapped = array.array(code, view.tobytes())
    swapped.byteswap()
    return swapped


def zeros(count: int, code: str) -> Any:
    """Numbers of a message that nobody has set; these may be written."""
    numpy = _numpy()
    if numpy.module is not None:
        return numpy.module.zeros(count, numpy.dtypes[code, _NATIVE])
    if code == "?":
        return [False] * count
    return array.array(code, [0] * count)


def empty_numbers(code: str) -> Any:
    """No numbers."""
    return zeros(0, code)


def is_numbers(value: object) -> bool:
    """Whether a value is such a sequence."""
    if isinstance(value, (memoryview, array.array)):
        return True
    numpy = sys.modules.get("numpy")  # an array exists only where it was imported
    return numpy is not None and isinstance(value, numpy.ndarray)


def as_list(value: Any) -> list[Any]:
    """Plain numbers."""
    found: list[Any] = value.tolist()
    return found
