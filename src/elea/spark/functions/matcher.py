"""Many keys against many key expressions, on columns and without Spark.

Each distinct key is looked up once, in a tree of all expressions; texts are compared, not hashes of
them. A join of a million keys with ten thousand expressions takes a few seconds of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import InvalidValueError, KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.tree import KeyExprTree
from elea.limits import DEFAULT_LIMITS

Relation: TypeAlias = Literal["intersects", "includes"]
RELATIONS: Final = get_args(Relation)

# What a plain key never holds: an empty chunk, or a sign that means something else.
_NO_PLAIN_KEY: Final = r"^$|^/|//|/$|[#?$*]"


class Matcher:
    """Key expressions that columns of keys are matched with.

    Args:
        expressions: The key expressions; results name them by their place in here.
        relation: `intersects`: some key belongs to both; `includes`: every key of the column's
            expression belongs to the given one. For keys without wildcards both are the same.

    Raises:
        KeyExprError, LimitError: one is no key expression.
        InvalidValueError: the relation is none of the two.

    Example:
        >>> rows, expressions = Matcher(["fleet/*/imu", "fleet/**"]).match_many(
        ...     ["fleet/r1/imu", "plant/p1", "fleet/r1/gps"])
        >>> rows.to_pylist(), expressions.to_pylist()
        ([0, 0, 2], [0, 1, 1])
    """

    def __init__(self, expressions: Sequence[str], *, relation: Relation = "intersects") -> None:
        if relation not in RELATIONS:
            legal = " or ".join(RELATIONS)
            raise InvalidValueError("relation", f"saw {relation!a}; legal is {legal}")
        self.expressions = tuple(expressions)
        self.relation = relation
        self._tree: KeyExprTree[list[int]] = KeyExprTree()
        for place, expression in enumerate(self.expressions):
            same = self._tree.get(expression)
            if same is None:
                self._tree.insert(expression, [place])
            else:
                same.append(place)
        self._has_repeated = len(set(self.expressions)) < len(self.expressions)

    def __reduce__(self) -> tuple[Callable[..., Matcher], tuple[tuple[str, ...], Relation]]:
        return _matcher, (self.expressions, self.relation)

    def match_lists(self, keys: pa.Array | pa.ChunkedArray) -> pa.Array:
        """For each key the places of the expressions, as `list<int32>`, in order.

        A null has a null. A text that is no key expression belongs to none.
        """
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        if not pa.types.is_dictionary(keys.type):
            keys = keys.cast(pa.string()).dictionary_encode()
        distinct = keys.dictionary.cast(pa.string())
        order = pc.sort_indices(distinct)
        texts = pc.take(distinct, order)
        lists = self._sorted_lists(texts)
        back = pc.take(pc.sort_indices(order), keys.indices)
        return lists.take(back)

    def match_many(self, keys: Sequence[str | None] | pa.Array) -> tuple[pa.Array, pa.Array]:
        """The pairs that match: rows of `keys`, and places of expressions."""
        if not isinstance(keys, (pa.Array, pa.ChunkedArray)):
            keys = pa.array(keys, pa.string())
        lists = self.match_lists(keys)
        return pc.list_parent_indices(lists).cast(pa.int64()), pc.list_flatten(lists)

    def _sorted_lists(self, texts: pa.Array) -> pa.Array:
        keys = texts.to_pylist()
        odd = pc.or_(
            pc.match_substring_regex(texts, _NO_PLAIN_KEY),
            pc.greater(pc.binary_length(texts), DEFAULT_LIMITS.keyexpr_len),
        )
        for row in pc.indices_nonzero(odd.fill_null(True)).to_pylist():
            keys[row] = _canonical(keys[row])
        tree = self._tree
        of_each = tree.intersecting_each if self.relation == "intersects" else tree.including_each
        ends, found = of_each(keys)
        if self._has_repeated:
            places, ends = _spread(ends, found)
        else:
            places = [value[0] for value in found]
        lists = pa.ListArray.from_arrays(
            pa.array([0, *ends], pa.int32()), pa.array(places, pa.int32())
        )
        return _ordered(lists)


def _matcher(expressions: tuple[str, ...], relation: Relation) -> Matcher:
    return Matcher(expressions, relation=relation)


def _canonical(text: str | None) -> str:
    """An expression as it is; what is none becomes one that nothing belongs to."""
    try:
        return str(KeyExpr(text or ""))
    except (KeyExprError, LimitError):
        return _NOTHING


# Verbatim and longer than any key expression may be: no stored one includes or intersects it.
_NOTHING: Final = "@" * (DEFAULT_LIMITS.keyexpr_len + 1)


def _spread(ends: list[int], found: list[list[int]]) -> tuple[list[int], list[int]]:
    """Where an expression was given more than once, all of its places."""
    places: list[int] = []
    spread: list[int] = []
    at = 0
    for end in ends:
        for value in found[at:end]:
            places.extend(value)
        at = end
        spread.append(len(places))
    return places, spread


def _ordered(lists: pa.Array) -> pa.Array:
    """Each list in ascending order: the tree's is that of its own walk."""
    rows = pc.list_parent_indices(lists)
    places = lists.values
    order = pc.sort_indices(
        pa.record_batch([rows, places], names=["row", "place"]),
        sort_keys=[("row", "ascending"), ("place", "ascending")],
    )
    return pa.ListArray.from_arrays(lists.offsets, pc.take(places, order))
