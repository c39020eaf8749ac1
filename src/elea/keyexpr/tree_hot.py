"""KeyExprTree[T]: values stored by key expression, looked up by match.

A trie over chunks. Each node keeps its plain children in a dictionary and the wildcard children
apart from them, so that a look-up touches only what can match:

    plain     literal and verbatim chunks, by text
    star      the child `*`
    double    the child `**`
    subs      children with `$*`, found by their literal head or tail

A plain key is looked up by holding the set of nodes that the chunks read so far can stand at. Going
down consumes one chunk and each node has one parent, so only `**`, which may stay where it is, can
be reached in two ways; those are kept in an ordered set. An expression with wildcards is walked the
other way round: each node is visited at most once, with the set of positions in the expression that
it can stand at. So the cost is bounded by nodes times chunks, whatever the expressions are (threats
T20, T21). Results come in an order that depends on the insertions alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match_hot import chunk_includes, chunk_intersects, sub_wild_matches

T = TypeVar("T")


class _Node(Generic[T]):
    """One chunk of one or more keys; `key` is set where a stored key ends."""

    __slots__ = ("chunk", "double", "key", "parent", "plain", "star", "subs", "value")

    def __init__(self, chunk: str, parent: _Node[T] | None) -> None:
        self.chunk = chunk
        self.parent = parent
        self.plain: dict[str, _Node[T]] = {}
        self.star: _Node[T] | None = None
        self.double: _Node[T] | None = None
        self.subs: _SubChildren[T] | None = None
        self.key: str | None = None
        self.value: T | None = None

    def child(self, chunk: str) -> _Node[T] | None:
        if chunk == "*":
            return self.star
        if chunk == "**":
            return self.double
        if _is_sub_wild(chunk):
            return None if self.subs is None else self.subs.nodes.get(chunk)
        return self.plain.get(chunk)

    def add_child(self, chunk: str) -> _Node[T]:
        node: _Node[T] = _Node(chunk, self)
        if chunk == "*":
            self.star = node
        elif chunk == "**":
            self.double = node
        elif _is_sub_wild(chunk):
            if self.subs is None:
                self.subs = _SubChildren()
            self.subs.add(node)
        else:
            self.plain[chunk] = node
        return node

    def drop_child(self, chunk: str) -> None:
        if chunk == "*":
            self.star = None
        elif chunk == "**":
            self.double = None
        elif _is_sub_wild(chunk):
            subs = self.subs
            assert subs is not None
            subs.drop(chunk)
            if len(subs.nodes) == 0:
                self.subs = None
        else:
            del self.plain[chunk]

    def children(self) -> list[_Node[T]]:
        nodes = list(self.plain.values())
        if self.subs is not None:
            nodes.extend(self.subs.nodes.values())
        if self.star is not None:
            nodes.append(self.star)
        if self.double is not None:
            nodes.append(self.double)
        return nodes

    def is_bare(self) -> bool:
        return (
            self.key is None
            and len(self.plain) == 0
            and self.star is None
            and self.double is None
            and self.subs is None
        )


class _SubChildren(Generic[T]):
    """Children with `$*`, under their literal head, or their tail when they have no head.

    A chunk is asked for with each head length in use, so thousands of `robot17$*` beside one
    another cost a few dictionary look-ups and not thousands of comparisons.
    """

    __slots__ = ("head_lens", "heads", "nodes", "tail_lens", "tails")

    def __init__(self) -> None:
        self.nodes: dict[str, _Node[T]] = {}
        self.heads: dict[str, dict[str, _Node[T]]] = {}
        self.tails: dict[str, dict[str, _Node[T]]] = {}
        self.head_lens: dict[int, int] = {}  # length to how many distinct heads have it
        self.tail_lens: dict[int, int] = {}

    def add(self, node: _Node[T]) -> None:
        chunk = node.chunk
        self.nodes[chunk] = node
        head = chunk[: chunk.index("$")]
        if head:
            _bucket_add(self.heads, self.head_lens, head, node)
        else:
            _bucket_add(self.tails, self.tail_lens, chunk[chunk.rindex("*") + 1 :], node)

    def drop(self, chunk: str) -> None:
        del self.nodes[chunk]
        head = chunk[: chunk.index("$")]
        if head:
            _bucket_drop(self.heads, self.head_lens, head, chunk)
        else:
            _bucket_drop(self.tails, self.tail_lens, chunk[chunk.rindex("*") + 1 :], chunk)

    def append_matching(self, text: str, found: list[_Node[T]]) -> None:
        """Add the children that include the chunk `text`."""
        text_len = len(text)
        for head_len in self.head_lens:
            if head_len <= text_len:
                bucket = self.heads.get(text[:head_len])
                if bucket is not None:
                    for node in bucket.values():
                        if sub_wild_matches(node.chunk, text):
                            found.append(node)
        for tail_len in self.tail_lens:
            if tail_len <= text_len:
                bucket = self.tails.get(text[text_len - tail_len :])
                if bucket is not None:
                    for node in bucket.values():
                        if sub_wild_matches(node.chunk, text):
                            found.append(node)


def _bucket_add(
    buckets: dict[str, dict[str, _Node[T]]], lens: dict[int, int], affix: str, node: _Node[T]
) -> None:
    bucket = buckets.get(affix)
    if bucket is None:
        bucket = {}
        buckets[affix] = bucket
        lens[len(affix)] = lens.get(len(affix), 0) + 1
    bucket[node.chunk] = node


def _bucket_drop(
    buckets: dict[str, dict[str, _Node[T]]], lens: dict[int, int], affix: str, chunk: str
) -> None:
    bucket = buckets[affix]
    del bucket[chunk]
    if len(bucket) == 0:
        del buckets[affix]
        left = lens[len(affix)] - 1
        if left > 0:
            lens[len(affix)] = left
        else:
            del lens[len(affix)]


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
        self._root: _Node[T] = _Node("", None)
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

    def _find(self, text: str) -> _Node[T] | None:
        node: _Node[T] | None = self._root
        for chunk in text.split("/"):
            if node is None:
                return None
            node = node.child(chunk)
        return node

    def _including(self, chunks: list[str]) -> list[T]:
        """Stored keys as patterns over the chunks, in which a wildcard is one more word."""
        nodes = [self._root]
        # The `**` nodes that the position can be inside of; each stays until a verbatim chunk.
        doubles: dict[_Node[T], None] = {}
        if self._root.double is not None:
            doubles[self._root.double] = None
        for chunk in chunks:
            if len(doubles) > 0:
                nodes.extend(doubles)
            reached: list[_Node[T]] = []
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
            if chunk == "*" or chunk == "**" or _is_sub_wild(chunk):
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
        if chunk != "*" and not _is_sub_wild(chunk):
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


def _named_children(node: _Node[T], query: _Query, positions: int) -> list[_Node[T]]:
    """The children that can match when no wildcard of the expression stands at the positions."""
    found: list[_Node[T]] = []
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


def _is_sub_wild(chunk: str) -> bool:
    """Whether a `$*` of this chunk is a wildcard; in a verbatim chunk it is plain text."""
    return "$" in chunk and chunk[0] != "@"
