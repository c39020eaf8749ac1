"""KeyExprTree[T]: values stored by key expression, looked up by match.

A trie over chunks; its nodes, and how a plain key is looked up, are in `nodes`. An expression
with wildcards is walked the other way round: each node is visited at most once, with the set of
positions in the expression that it can stand at. So the cost is bounded by nodes times chunks,
whatever the expressions are (threats T20, T21). Results come in an order that depends on the
insertions alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import chunk_includes, chunk_intersects
from elea.keyexpr.nodes import Node, is_sub_wild, standing_at

T = TypeVar("T")


class KeyExprTree(Generic[T]):
    """A dictionary from key expressions to values that can also be asked by match.

    One value per key, as in a `dict`; keep a list or a set as the value where several belong to
    one key. Keys given to `insert` are validated. A `str` given to a look-up is taken as valid and
    canonical, as a `KeyExpr` is; it costs nothing to check only once.

    Example:
        >>> tree: KeyExprTree[str] = KeyExprTree()
        >>> tree.insert("fleet/*/pose", "poses")
        >>> tree.insert("fleet/**", "everything")
        >>> tree.intersecting("fleet/r1/imu")
        ['everything']
    """

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root: Node[T] = Node("", None)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: object) -> bool:
        node = self._find(str(key))
        return node is not None and node.key is not None

    def __iter__(self) -> Iterator[str]:
        return iter([key for key, _ in self.items()])

    def insert(self, key: str | KeyExpr, value: T) -> None:
        """Store `value` under `key`, in place of what was there.

        Raises:
            KeyExprError: `key` is no canonical key expression.
            LimitError: `key` is over a bound of `elea.limits`.
        """
        text = str(key) if isinstance(key, KeyExpr) else str(KeyExpr(key))
        node = self._root
        for chunk in text.split("/"):
            child = node.child(chunk)
            node = node.add_child(chunk) if child is None else child
        if node.key is None:
            self._count += 1
            node.key = text
        node.value = value

    def get(self, key: str | KeyExpr) -> T | None:
        """The value under exactly this key, or None."""
        node = self._find(str(key))
        return None if node is None else node.value

    def remove(self, key: str | KeyExpr) -> T:
        """Take the value out from under exactly this key and return it.

        Raises:
            KeyError: nothing is stored under it.
        """
        node = self._find(str(key))
        if node is None or node.key is None:
            raise KeyError(str(key))
        value = cast(T, node.value)
        node.key = None
        node.value = None
        self._count -= 1
        parent = node.parent
        while parent is not None and node.is_bare():
            parent.drop_child(node.chunk)
            node = parent
            parent = node.parent
        return value

    def items(self) -> list[tuple[str, T]]:
        """All keys with their values."""
        found: list[tuple[str, T]] = []
        stack = [self._root]
        while stack:
            node = stack.pop()
            if node.key is not None:
                found.append((node.key, cast(T, node.value)))
            stack.extend(reversed(node.children()))
        return found

    def intersecting(self, key: str | KeyExpr) -> list[T]:
        """The values whose keys intersect `key`; for a plain key, the expressions it belongs to."""
        text = key if isinstance(key, str) else str(key)
        if "*" in text:
            return self._walk(_Query(text.split("/"), False))
        return self._including(text.split("/"))

    def included_by(self, key: str | KeyExpr) -> list[T]:
        """The values whose keys are included by `key`."""
        text = key if isinstance(key, str) else str(key)
        return self._walk(_Query(text.split("/"), True))

    def including(self, key: str | KeyExpr) -> list[T]:
        """The values whose keys include `key`."""
        text = key if isinstance(key, str) else str(key)
        return self._including(text.split("/"))

    def intersecting_each(self, keys: list[str]) -> tuple[list[int], list[T]]:
        """As `intersecting`, of many keys; what a plain key shares with the one before is not read
        again, so sort them.

        Returns:
            Where the values of each key end in the second list, and the values of all keys.

        Example:
            >>> tree: KeyExprTree[int] = KeyExprTree()
            >>> tree.insert("a/*", 1)
            >>> tree.insert("a/**", 2)
            >>> tree.intersecting_each(["a/b", "b", "a"])
            ([2, 2, 3], [1, 2, 2])
        """
        return self._each(keys, True)

    def including_each(self, keys: list[str]) -> tuple[list[int], list[T]]:
        """As `including`, of many keys."""
        return self._each(keys, False)

    def _each(self, keys: list[str], by_intersection: bool) -> tuple[list[int], list[T]]:
        found: list[T] = []
        ends: list[int] = []
        before: list[str] = []
        standings = [standing_at(self._root)]  # after each chunk of the key before
        for key in keys:
            if by_intersection and "*" in key:
                found.extend(self.intersecting(key))
                ends.append(len(found))
                continue
            chunks = key.split("/")
            chunks_count = len(chunks)
            shared = 0
            shared_max = min(chunks_count, len(before))
            while shared < shared_max and chunks[shared] == before[shared]:
                shared += 1
            del standings[shared + 1 :]
            standing = standings[shared]
            while shared < chunks_count:
                standing = standing.after(chunks[shared])
                standings.append(standing)
                shared += 1
            before = chunks
            standing.append_values(found)
            ends.append(len(found))
        return ends, found

    def _find(self, text: str) -> Node[T] | None:
        node: Node[T] | None = self._root
        for chunk in text.split("/"):
            if node is None:
                return None
            node = node.child(chunk)
        return node

    def _including(self, chunks: list[str]) -> list[T]:
        """Stored keys as patterns over the chunks, in which a wildcard is one more word.

        The same as `Standing.after` for one key: without what has to be kept for the next one it
        takes two thirds of the time, and routers ask for one key at a time.
        """
        nodes = [self._root]
        # The `**` nodes that the position can be inside of; each stays until a verbatim chunk.
        doubles: dict[Node[T], None] = {}
        if self._root.double is not None:
            doubles[self._root.double] = None
        for chunk in chunks:
            if len(doubles) > 0:
                nodes.extend(doubles)
            reached: list[Node[T]] = []
            if chunk[0] == "@":
                for node in nodes:
                    child = node.plain.get(chunk)
                    if child is not None:
                        reached.append(child)
                doubles = {}
            elif chunk == "*":
                for node in nodes:
                    if node.star is not None:
                        reached.append(node.star)
            elif chunk == "**":
                pass  # only the `**` that are open include it
            else:
                for node in nodes:
                    child = node.plain.get(chunk)
                    if child is not None:
                        reached.append(child)
                    child = node.star
                    if child is not None:
                        reached.append(child)
                    subs = node.subs
                    if subs is not None:
                        subs.append_matching(chunk, reached)
            for node in reached:
                child = node.double
                if child is not None:
                    doubles[child] = None
            nodes = reached
            if len(nodes) == 0 and len(doubles) == 0:
                return []
        found: list[T] = []
        for node in nodes:
            if node.key is not None:
                found.append(cast(T, node.value))
        for node in doubles:
            if node.key is not None:
                found.append(cast(T, node.value))
        return found

    def _walk(self, query: _Query) -> list[T]:
        """Stored keys against an expression with wildcards of its own, each node at most once."""
        found: list[T] = []
        accepted = 1 << query.end
        nodes = [self._root]
        sets = [query.start]
        while nodes:
            node = nodes.pop()
            positions = sets.pop()
            if positions & accepted and node.key is not None:
                found.append(cast(T, node.value))
            if positions & query.wild:
                children = node.children()
            else:
                children = _named_children(node, query, positions)
            for child in children:
                reached = query.step(positions, child.chunk)
                if reached:
                    nodes.append(child)
                    sets.append(reached)
        return found


class _Query:
    """The chunks of an expression as an automaton over stored chunks.

    A set of positions is an integer with one bit per chunk of the expression and one for its end.
    """

    __slots__ = (
        "by_inclusion",
        "chunks",
        "doubles",
        "end",
        "literals",
        "masks",
        "start",
        "verbatims",
        "wild",
    )

    def __init__(self, chunks: list[str], by_inclusion: bool) -> None:
        self.by_inclusion = by_inclusion
        self.chunks = chunks
        self.end = len(chunks)
        self.literals: dict[str, int] = {}  # plain and verbatim chunks, to their positions
        self.masks: dict[str, int] = {}  # stored chunks met so far, to the positions they match
        self.doubles = 0
        self.verbatims = 0
        self.wild = 0  # positions whose chunk can match more than one stored plain chunk
        bit = 1
        for chunk in chunks:
            if chunk[0] == "@":
                self.verbatims |= bit
            if chunk == "**":
                self.doubles |= bit
            if chunk == "*" or chunk == "**" or is_sub_wild(chunk):
                self.wild |= bit
            else:
                self.literals[chunk] = self.literals.get(chunk, 0) | bit
            bit <<= 1
        self.start = self._skip_doubles(1)

    def step(self, positions: int, chunk: str) -> int:
        """The positions after one more stored chunk."""
        if chunk == "**":
            if self.by_inclusion:
                return self._skip_doubles(positions & self.doubles)
            return self._take_any(positions)
        mask = self.masks.get(chunk, -1)
        if mask < 0:
            mask = self._mask(chunk)
            self.masks[chunk] = mask
        reached = (positions & mask) << 1
        if chunk[0] != "@":
            reached |= positions & self.doubles
        return self._skip_doubles(reached)

    def _skip_doubles(self, positions: int) -> int:
        # A canonical expression has no two `**` in a row: one shift is all there is to skip.
        return positions | ((positions & self.doubles) << 1)

    def _take_any(self, positions: int) -> int:
        """A stored `**` takes no chunk of the expression, or any number that are not verbatim."""
        bit = 1
        for _ in range(self.end):
            if positions & bit and not self.verbatims & bit:
                positions |= bit << 1
            bit <<= 1
        return positions

    def _mask(self, chunk: str) -> int:
        """The positions whose chunk, `**` aside, intersects or includes a stored chunk."""
        if chunk != "*" and not is_sub_wild(chunk):
            mask = self.literals.get(chunk, 0)
            candidates = self.wild & ~self.doubles
        else:
            mask = 0
            candidates = ~self.doubles
        bit = 1
        for own in self.chunks:
            if candidates & bit and (
                chunk_includes(own, chunk) if self.by_inclusion else chunk_intersects(own, chunk)
            ):
                mask |= bit
            bit <<= 1
        return mask


def _named_children(node: Node[T], query: _Query, positions: int) -> list[Node[T]]:
    """The children that can match when no wildcard of the expression stands at the positions."""
    found: list[Node[T]] = []
    for text, mask in query.literals.items():
        if positions & mask:
            child = node.plain.get(text)
            if child is not None:
                found.append(child)
    if not query.by_inclusion:
        if node.star is not None:
            found.append(node.star)
        if node.double is not None:
            found.append(node.double)
        if node.subs is not None:
            found.extend(node.subs.nodes.values())
    return found
