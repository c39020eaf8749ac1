"""The nodes of a KeyExprTree, one per chunk of the keys it holds, and sets of them.

Each node keeps its plain children in a dictionary and the wildcard children apart from them, so
that a look-up touches only what can match:

    plain     literal and verbatim chunks, by text
    star      the child `*`
    double    the child `**`
    subs      children with `$*`, found by their literal head or tail

A plain key is looked up by holding the set of nodes that the chunks read so far can stand at.
Going down consumes one chunk and each node has one parent, so only `**`, which may stay where it
is, can be reached in two ways; those are kept in an ordered set.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from elea.keyexpr.match import sub_wild_matches

T = TypeVar("T")


class Node(Generic[T]):
    """One chunk of one or more keys; `key` is set where a stored key ends."""

    __slots__ = ("chunk", "double", "key", "parent", "plain", "star", "subs", "value")

    def __init__(self, chunk: str, parent: Node[T] | None) -> None:
        self.chunk = chunk
        self.parent = parent
        self.plain: dict[str, Node[T]] = {}
        self.star: Node[T] | None = None
        self.double: Node[T] | None = None
        self.subs: SubChildren[T] | None = None
        self.key: str | None = None
        self.value: T | None = None

    def child(self, chunk: str) -> Node[T] | None:
        if chunk == "*":
            return self.star
        if chunk == "**":
            return self.double
        if is_sub_wild(chunk):
            return None if self.subs is None else self.subs.nodes.get(chunk)
        return self.plain.get(chunk)

    def add_child(self, chunk: str) -> Node[T]:
        node: Node[T] = Node(chunk, self)
        if chunk == "*":
            self.star = node
        elif chunk == "**":
            self.double = node
        elif is_sub_wild(chunk):
            if self.subs is None:
                self.subs = SubChildren()
            self.subs.add(node)
        else:
            self.plain[chunk] = node
        return node

    def drop_child(self, chunk: str) -> None:
        if chunk == "*":
            self.star = None
        elif chunk == "**":
            self.double = None
        elif is_sub_wild(chunk):
            subs = self.subs
            assert subs is not None
            subs.drop(chunk)
            if len(subs.nodes) == 0:
                self.subs = None
        else:
            del self.plain[chunk]

    def children(self) -> list[Node[T]]:
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


class SubChildren(Generic[T]):
    """Children with `$*`, under their literal head, or their tail when they have no head.

    A chunk is asked for with each head length in use, so thousands of `robot17$*` beside one
    another cost a few dictionary look-ups and not thousands of comparisons.
    """

    __slots__ = ("head_lens", "heads", "nodes", "tail_lens", "tails")

    def __init__(self) -> None:
        self.nodes: dict[str, Node[T]] = {}
        self.heads: dict[str, dict[str, Node[T]]] = {}
        self.tails: dict[str, dict[str, Node[T]]] = {}
        self.head_lens: dict[int, int] = {}  # length to how many distinct heads have it
        self.tail_lens: dict[int, int] = {}

    def add(self, node: Node[T]) -> None:
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

    def append_matching(self, text: str, found: list[Node[T]]) -> None:
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


class Standing(Generic[T]):
    """Where the chunks read so far can stand: at nodes reached by the last, or in an open `**`."""

    __slots__ = ("doubles", "reached")

    def __init__(self, reached: list[Node[T]], doubles: dict[Node[T], None]) -> None:
        self.reached = reached
        self.doubles = doubles  # each stays until a verbatim chunk; shared, never changed

    def after(self, chunk: str) -> Standing[T]:
        """The same with one chunk more, in which a wildcard is one more word."""
        reached: list[Node[T]] = []
        doubles = self.doubles
        nodes = self.reached
        if len(doubles) > 0:
            nodes = [*nodes, *doubles]
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
        elif chunk != "**":  # only the `**` that are open include another
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
        shared = True
        for node in reached:
            double = node.double
            if double is not None and double not in doubles:
                if shared:
                    doubles = dict(doubles)
                    shared = False
                doubles[double] = None
        return Standing(reached, doubles)

    def append_values(self, found: list[T]) -> None:
        """Add the values of the keys that end here."""
        for node in self.reached:
            if node.key is not None:
                found.append(cast(T, node.value))
        for node in self.doubles:
            if node.key is not None:
                found.append(cast(T, node.value))


def standing_at(root: Node[T]) -> Standing[T]:
    """Where the first chunk finds itself."""
    return Standing([root], {} if root.double is None else {root.double: None})


def is_sub_wild(chunk: str) -> bool:
    """Whether a `$*` of this chunk is a wildcard; in a verbatim chunk it is plain text."""
    return "$" in chunk and chunk[0] != "@"


def _bucket_add(
    buckets: dict[str, dict[str, Node[T]]], lens: dict[int, int], affix: str, node: Node[T]
) -> None:
    bucket = buckets.get(affix)
    if bucket is None:
        bucket = {}
        buckets[affix] = bucket
        lens[len(affix)] = lens.get(len(affix), 0) + 1
    bucket[node.chunk] = node


def _bucket_drop(
    buckets: dict[str, dict[str, Node[T]]], lens: dict[int, int], affix: str, chunk: str
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
