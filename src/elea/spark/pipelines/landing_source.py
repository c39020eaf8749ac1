"""The source of a landing: a stream over a log whose tasks write files of many tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from elea.decode.columns.drift import Drift
from elea.spark import archive_source, places
from elea.spark.archive_source import taken
from elea.spark.offsets import Offset
from elea.spark.options import Stream
from elea.spark.pipelines import travel
from elea.spark.pipelines.definition import BAD, Archive, Decoded
from elea.spark.pipelines.handed import HandedFile
from elea.spark.pipelines.landing import Place, drift_of, land_range, to_rows
from elea.spark.pipelines.silver import BAD_COLUMNS
from elea.spark.starts import initial
from elea.spark.stream import Range, StreamReader
from elea.store.tables.table import format_of

NAME: Final = "zenoh_landing"
OPTION: Final = "landing"

# As that of an archive, of which it is about, and what was odd in the samples.
MANIFEST: Final = pa.schema(
    [
        pa.field("table", pa.string()),
        *archive_source.MANIFEST,
        pa.field("drift", pa.string()),
    ]
)
_SQL: Final = f"`table` STRING, {archive_source.SQL}, drift STRING"


def option_of(place: Place, tables: Sequence[Archive | Decoded]) -> str:
    """What a landing is, as an option of its source."""
    return json.dumps({"place": asdict(place), "tables": travel.dumps(tables)})


class LandingSource(DataSource):
    """Made by `elea.spark.pipelines`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        told, self._stream = taken(options, OPTION)
        self._place, self._tables = Place(**told["place"]), travel.loads(told["tables"])

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return _SQL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LandingReader(self._stream, self._place, self._tables)


class LandingRange(Range):
    """Rows of one shard, for the tables that lack them."""

    def __init__(
        self,
        span: tuple[UUID, int, int, int],
        tables: Sequence[str],
        drift: Mapping[str, Sequence[Drift]],
    ) -> None:
        super().__init__(*span)
        self.tables = tuple(tables)
        self.drift = {name: tuple(ones) for name, ones in drift.items()}


class LandingReader(StreamReader):
    """A log as a stream of files."""

    def __init__(self, options: Stream, place: Place, tables: Sequence[Archive | Decoded]) -> None:
        super().__init__(options)
        self._target = place
        self._tables = tuple(tables)
        self._held_ends: dict[str, dict[int, int]] | None = None
        self._held_bad_ends: list[dict[int, int]] | None = None
        self._planned: dict[int, int] | None = None  # where the batch that was planned last ends

    def _initial(self, place: places.Place) -> dict[int, int]:
        """Where the table ends that is most behind; one that is new begins as options say."""
        first = initial(self._options, place)
        found = [first | ends for ends in self._held(place.log_id, as_defined=True).values()]
        return {shard: min(one[shard] for one in found) for shard in first}

    def _held(self, log_id: UUID, *, as_defined: bool = False) -> dict[str, dict[int, int]]:
        """By table, up to where it was handed each shard; as it was when the query began.

        Later it is further: then files are written that are not wanted, and not committed.
        """
        if self._held_ends is None:
            consumer = self._target.consumer
            handed = HandedFile(self._target.storage)
            self._held_ends = {}
            for table in self._tables:
                own = self._target.open(table.name).ends(consumer, log_id)
                self._held_ends[table.name] = handed.ends(table, log_id, own, as_defined=as_defined)
        return self._held_ends

    def _bad_ends(self, log_id: UUID) -> list[dict[int, int]]:
        """Where tables of bad rows end: after a crash they may be ahead of the table itself."""
        if self._held_bad_ends is None:
            names = [table.name + BAD for table in self._tables if isinstance(table, Decoded)]
            self._held_bad_ends = [
                self._target.open(name, BAD_COLUMNS).ends(self._target.consumer, log_id)
                for name in names
                if format_of(self._target.path(name)) is not None
            ]
        return self._held_bad_ends

    def _limited(
        self, place: places.Place, starts: list[int], ends: list[int], limit: ReadLimit
    ) -> list[int]:
        """A batch ends where a table ends, so that each table has all of it or nothing."""
        ends = super()._limited(place, starts, ends, limit)
        for held in (*self._held(place.log_id).values(), *self._bad_ends(place.log_id)):
            for shard, (start, end) in enumerate(zip(starts, ends, strict=True)):
                if start < held.get(shard, 0) < end:
                    ends[shard] = held[shard]
        return ends

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found = super().partitions(start, end)
        drift = {
            table.name: drift_of(self._target, table.name)
            for table in self._tables
            if isinstance(table, Decoded)
        }
        parts: list[InputPartition] = []
        is_next, seen = Offset.from_json(start).ends == self._planned, set()
        for part in found:
            assert isinstance(part, Range)
            parts += self._ranges(part, drift, is_first=not is_next and part.shard not in seen)
            seen.add(part.shard)
        self._planned = dict(Offset.from_json(end).ends)
        return parts

    def _ranges(
        self, part: Range, drift: Mapping[str, Sequence[Drift]], *, is_first: bool
    ) -> list[LandingRange]:
        """Rows of a shard for the tables that lack them; before those, what a table lacks alone.

        A query that goes on may be ahead of a table whose notes are lost.
        """
        found, names = [], []
        for name, ends in self._held(part.log_id).items():
            held = ends.get(part.shard, part.first)
            if held < part.end:
                names.append(name)
            if held < part.first and is_first and not self._target.lossy:
                span = (part.log_id, part.shard, held, part.first)
                found.append(LandingRange(span, [name], drift))
        if names:
            span = (part.log_id, part.shard, part.first, part.end)
            found.append(LandingRange(span, names, drift))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LandingRange)
        span = (partition.log_id, partition.shard, partition.first, partition.end)
        wanted = [table for table in self._tables if table.name in partition.tables]
        landed = land_range(self._options.source, self._target, wanted, partition.drift, span)
        yield pa.RecordBatch.from_pylist(to_rows(landed), schema=MANIFEST)
