"""The source of a decoded table as a stream: rows of the log, decoded where they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from elea.decode.columns.types import quoted, sql_type
from elea.spark.options import Options
from elea.spark.pipelines import travel
from elea.spark.pipelines.definition import Decoded, Publish
from elea.spark.pipelines.publish import SQL, samples
from elea.spark.pipelines.silver import Silver
from elea.spark.stream import StreamReader
from elea.store.log.ranges import COLUMNS

NAME: Final = "zenoh_table"
OPTION: Final = "table"


def option_of(table: Decoded, publish: Publish | None = None) -> str:
    """A table as an option of its source; with `publish`, its rows as samples."""
    told = None if publish is None else asdict(publish)
    return json.dumps({"table": travel.to_json(table), "publish": told})


class TableSource(DataSource):
    """Made by `elea.spark.pipelines`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        given = {name: value for name, value in options.items() if name.lower() != OPTION}
        [told] = [json.loads(value) for name, value in options.items() if name.lower() == OPTION]
        table = travel.from_json(told["table"])
        assert isinstance(table, Decoded)
        publish = None if told["publish"] is None else Publish(**told["publish"])
        self._plan = SilverPlan(table, publish)
        self._stream = Options(given).stream()

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return self._plan.sql_schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self._stream, self._plan)


@dataclass(frozen=True, slots=True)
class SilverPlan:
    """Good rows of a table; as samples, if they are published."""

    table: Decoded
    publish: Publish | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a log's rows that it has to be given."""
        return COLUMNS

    def sql_schema(self) -> str:
        """The columns of the rows that come out, for Spark."""
        if self.publish is not None:
            return SQL
        return ", ".join(f"{quoted(one.name)} {sql_type(one.type)}" for one in self._schema())

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with columns in place of payloads."""
        silver = Silver(self.table)
        keys = batch.schema.get_field_index("key")
        batch = batch.set_column(keys, "key", batch.column(keys).dictionary_encode())
        good = silver.split(silver.wanted(batch)).good
        schema = self._schema()
        plain = pa.RecordBatch.from_arrays(
            [good.column(one.name).cast(one.type) for one in schema], schema=schema
        )
        return plain if self.publish is None else samples(plain, self.publish)

    def _schema(self) -> pa.Schema:
        return pa.schema([one for one in Silver(self.table).columns if one.name != "log"])
