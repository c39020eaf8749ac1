"""The time, as a node was last told it."""

from __future__ import annotations


class Now:
    """One cell per node: every input sets it, and the machines that act on that input read it."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0  # monotonic
