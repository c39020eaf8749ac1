"""The source of an archive: a stream over a log whose tasks write files, and tell of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from elea.spark.archiving import archive_range
from elea.spark.options import Options, Stream
from elea.spark.places import Place
from elea.spark.starts import initial
from elea.spark.stream import Range, StreamReader
from elea.store.tables.layout import Layout
from elea.store.tables.table import open_table

NAME: Final = "zenoh_archive"
OPTION: Final = "archive"

# One row for each file, or one for a range without rows.
MANIFEST: Final = pa.schema(
    [
        pa.field("log", pa.string()),
        pa.field("shard", pa.int32()),
        pa.field("lo", pa.int64()),
        pa.field("hi", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("file", pa.string()),  # the rest, as JSON
    ]
)
SQL: Final = "log STRING, shard INT, lo BIGINT, hi BIGINT, rows BIGINT, bytes BIGINT, file STRING"


def taken(options: Mapping[str, str], name: str) -> tuple[Any, Stream]:
    """What an option of ours says, as JSON, and the others as those of a stream."""
    given = {one: value for one, value in options.items() if one.lower() != name}
    [told] = [value for one, value in options.items() if one.lower() == name]
    return json.loads(told), Options(given).stream()


class ArchiveSource(DataSource):
    """Made by `elea.spark.archive`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        target, self._stream = taken(options, OPTION)
        self._layout, self._consumer = Layout(**target["layout"]), target["consumer"]

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SQL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ArchiveReader(self._stream, self._layout, self._consumer)


class ArchiveReader(StreamReader):
    """A log as a stream of files."""

    def __init__(self, options: Stream, layout: Layout, consumer: str) -> None:
        super().__init__(options)
        self._layout = layout
        self._consumer = consumer

    def _initial(self, place: Place) -> dict[int, int]:
        """Where the table ends; shards of which it has nothing begin as options say."""
        held = open_table(self._layout.root).ends(self._consumer, place.log_id)
        return initial(self._options, place) | held

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        span = (partition.log_id, partition.shard, partition.first, partition.end)
        part = archive_range(self._options.source, self._layout, *span)
        yield pa.RecordBatch.from_pylist(part.to_rows(), schema=MANIFEST)
