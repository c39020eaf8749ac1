"""Index: the keys in use as a tree of chunks, of which a browser asks for the rows in view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from elea.json5 import Json
from elea.operate.text import escape

MARKS: Final = {"publisher": "p", "subscriber": "s", "queryable": "q", "querier": "r", "token": "t"}
RECORDED: Final = "l"  # a log has rows of it


@dataclass(slots=True)
class Branch:
    """One place of the tree."""

    marks: str = ""  # how its own key is used; empty: it only has keys below it
    below_count: int = 0
    children: dict[str, Branch] = field(default_factory=dict)
    order: list[str] | None = None  # sorted when first asked for


class Index:
    """The tree of all keys at one moment.

    Args:
        keys: How each key is used: letters of `MARKS`.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = keys
        self._root = Branch()
        for key, marks in keys.items():
            branch = self._root
            for chunk in key.split("/"):
                branch.below_count += 1
                branch = branch.children.setdefault(chunk, Branch())
            branch.marks = marks

    def __len__(self) -> int:
        return len(self._keys)

    def rows(self, opened: frozenset[str], offset: int, limit: int) -> tuple[list[Json], int]:
        """Rows in view of the tree with these places open, and how many rows there are.

        A row is `[depth, name, key, keys below, marks, is open]`. The name is safe to show.
        """
        found: list[Json] = []
        passed = 0
        waiting: list[Iterator[tuple[str, str, Branch]]] = [self._children("", self._root)]
        total = self._visible(self._root, opened)
        while waiting and len(found) < limit:
            try:
                name, key, branch = next(waiting[-1])
            except StopIteration:
                waiting.pop()
                continue
            is_open = key in opened and bool(branch.children)
            if passed >= offset:
                depth = len(waiting) - 1
                below_count = branch.below_count
                found.append([depth, escape(name), key, below_count, branch.marks, is_open])
            passed += 1
            if is_open:
                waiting.append(self._children(key, branch))
        return found, total

    def search(self, words: str, offset: int, limit: int) -> tuple[list[Json], int]:
        """Rows of the keys that hold all words, in any order, whatever their case."""
        parts = words.lower().split()
        hits = sorted(key for key in self._keys if all(one in key.lower() for one in parts))
        rows: list[Json] = [
            [0, escape(key), key, 0, self._keys[key], False]
            for key in hits[offset : offset + limit]
        ]
        return rows, len(hits)

    def _children(self, prefix: str, branch: Branch) -> Iterator[tuple[str, str, Branch]]:
        if branch.order is None:
            branch.order = sorted(branch.children)
        for name in branch.order:
            yield name, f"{prefix}/{name}" if prefix else name, branch.children[name]

    def _visible(self, branch: Branch, opened: frozenset[str]) -> int:
        """How many rows are below a place: each place that is open adds its children."""
        total = len(branch.children)
        for key in opened:
            place: Branch | None = branch
            path = ""
            chunks = key.split("/")
            for number, chunk in enumerate(chunks):
                place = None if place is None else place.children.get(chunk)
                path = f"{path}/{chunk}" if path else chunk
                if number < len(chunks) - 1 and path not in opened:
                    place = None  # it is inside a place that is closed
            total += 0 if place is None else len(place.children)
        return total
