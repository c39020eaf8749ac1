"""Hints to mypyc, which compiles the compiled modules. They mean nothing when code is interpreted.

Compiled modules cannot choose between two definitions of a name, so the choice is made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_hints: object):
        """Mark a class for the compiler; `acyclic`: the garbage collector may ignore it."""
        return lambda cls: cls
