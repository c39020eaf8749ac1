"""What the functions of SQL do, on Arrow columns and without Spark.

A null anywhere gives a null. Each pair of texts that differs from the others is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import includes, intersects
from elea.keyexpr.template import KeyFormat

FIELDS_TYPE = pa.map_(pa.string(), pa.string())


def ke_intersects(a: pa.Array, b: pa.Array, *, lenient: bool = False) -> pa.Array:
    """Whether some key belongs to both expressions.

    Raises:
        KeyExprError, LimitError: a text is no key expression; if lenient, that is a null.
    """
    return _relation(a, b, intersects, lenient=lenient)


def ke_includes(a: pa.Array, b: pa.Array, *, lenient: bool = False) -> pa.Array:
    """Whether every key of `b` belongs to `a`; raises as `ke_intersects` does."""
    return _relation(a, b, includes, lenient=lenient)


def ke_fields(keys: pa.Array, templates: pa.Array) -> pa.Array:
    """The fields of each key by a template, as `map<string, string>`; null if it does not fit.

    Raises:
        KeyExprError: the template is none.
    """
    formats: dict[str, KeyFormat] = {}

    def fields(key: str, template: str) -> dict[str, str] | None:
        known = formats.get(template)
        if known is None:
            known = formats[template] = KeyFormat(template)
        try:
            return known.parse(key)
        except (KeyExprError, LimitError):
            return None

    return _by_pairs(keys, templates, fields, FIELDS_TYPE)


def _relation(
    a: pa.Array, b: pa.Array, relation: Callable[[str, str], bool], *, lenient: bool
) -> pa.Array:
    known: dict[str, str | None] = {}

    def canonical(text: str) -> str | None:
        if text not in known:
            try:
                known[text] = str(KeyExpr(text))
            except (KeyExprError, LimitError):
                if not lenient:
                    raise
                known[text] = None
        return known[text]

    def holds(first: str, second: str) -> bool | None:
        x, y = canonical(first), canonical(second)
        return None if x is None or y is None else relation(x, y)

    return _by_pairs(a, b, holds, pa.bool_())


def _by_pairs(
    a: pa.Array, b: pa.Array, value: Callable[[str, str], object], type: pa.DataType
) -> pa.Array:
    """`value` of each distinct pair, spread over the rows that have it."""
    if len(a) == 0:
        return pa.array([], type)
    first, second = _encoded(a), _encoded(b)
    width = pa.scalar(max(1, len(second.dictionary)), pa.int64())
    indices = pc.add(
        pc.multiply(first.indices.cast(pa.int64()), width), second.indices.cast(pa.int64())
    ).dictionary_encode()
    xs, ys = first.dictionary.to_pylist(), second.dictionary.to_pylist()
    count = max(1, len(ys))
    values = [value(xs[pair // count], ys[pair % count]) for pair in indices.dictionary.to_pylist()]
    return pa.array(values, type).take(indices.indices)


def _encoded(texts: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(texts.type):
        return texts
    return texts.cast(pa.string()).dictionary_encode()
