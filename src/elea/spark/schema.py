"""The rows that Spark sees: the columns of a log, as Spark's types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from elea.store.log.ranges import COLUMNS
from elea.store.log.schema import POSITION, SCHEMA, TIME

_REPEATED_COUNT: Final = 8  # columns of one text that are kept,
_REPEATED_LEN: Final = 8 << 20  # and the octets that one may have
LIVE_COLUMNS: Final = tuple(SCHEMA.names)  # of answers to a query: they have no place in a log

_SQL: Final = {
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.int8(): "TINYINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    TIME: "TIMESTAMP",
}


def _plain(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


# Spark takes plain texts, and columns that may hold nulls, only.
_FIELDS: Final = {
    field.name: pa.field(field.name, _plain(field.type)) for field in (*SCHEMA, *POSITION)
}
assert tuple(_FIELDS) == COLUMNS


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """What a source yields for these columns."""
    return pa.schema([_FIELDS[name] for name in columns])


def sql_schema(columns: Sequence[str]) -> str:
    """The same for Spark."""
    named = zip(columns, sql_types(columns), strict=True)
    return ", ".join(f"`{name}` {type_name}" for name, type_name in named)


def sql_types(columns: Sequence[str]) -> list[str]:
    """The types of these columns for Spark, in capitals."""
    return [_SQL[_FIELDS[name].type] for name in columns]


def plain_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a log as Spark takes them; only texts are copied."""
    columns = [
        _texts(column) if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _texts(column: pa.DictionaryArray) -> pa.Array:
    texts = column.dictionary
    count = 1 << len(column).bit_length()
    if len(texts) != 1 or column.null_count or count * texts.nbytes > _REPEATED_LEN:
        return column.dictionary_decode()
    # All rows have the same, as encodings and publishers mostly are: likely those before had, too.
    return _repeated(texts[0].as_py(), count).slice(0, len(column))


@lru_cache(_REPEATED_COUNT)
def _repeated(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)
