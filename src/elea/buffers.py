"""The buffer protocol for a class of ours: `memoryview(x)`, `numpy.frombuffer(x)`, without a copy.

Interpreted classes have it from Python 3.12 on, through `__buffer__`. Before, and for compiled
classes, it takes the small extension module that compiled builds come with.
"""

from __future__ import annotations

from importlib import import_module


def export(cls: type) -> None:
    """Let instances export the buffer of their `view()`, where that is possible."""
    try:
        module = import_module("elea._buffer")
    except ImportError:
        return  # an interpreted build
    module.export(cls)
