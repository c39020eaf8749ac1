"""The data source `zenoh`: which reader or writer it is, by how it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from elea.errors import ConfigError
from elea.spark.options import Live, Options
from elea.spark.schema import sql_schema, sql_types
from elea.spark.tasks import told_briefly

if TYPE_CHECKING:
    from elea.decode.columns.plan import Plan

# Readers, writers and decoders are imported late: Spark imports this module in each of its Python
# processes, and only some of them need a session of the data space.


class ZenohSource(DataSource):
    """The data space and its logs, for Spark: `spark.read.format("zenoh")` and its like.

    Options that are unknown or wrong are errors where `load`, `save` or `start` is called.
    """

    @told_briefly
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._parsed = Options(options)

    @classmethod
    def name(cls) -> str:
        return "zenoh"

    @told_briefly
    def schema(self) -> str:
        self._parsed.check_values()  # here, at `load`: later Spark hides what is wrong
        plan = self._plan()
        if plan is not None:
            return plan.sql_schema()
        return sql_schema(self._parsed.columns())

    @told_briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._parsed.batch()
        self._check(schema)
        plan = self._plan()
        if not isinstance(options, Live):
            from elea.spark.batch import HistoryReader

            return HistoryReader(options, plan)
        if plan is not None:
            raise ConfigError("option decode", "is for a log; selector asks the data space")
        from elea.spark.live import LiveReader

        return LiveReader(options)

    @told_briefly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from elea.spark.stream import RefusedReader, StreamReader

        try:
            options = self._parsed.stream()
            self._check(schema)
            return StreamReader(options, self._plan())
        except ConfigError as error:
            # Spark does not say at `load` that it is a stream, and here a second error of its own
            # would hide this one.
            return RefusedReader(error)

    @told_briefly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            reason = "is refused: samples that were published cannot be replaced; use append"
            raise ConfigError("mode overwrite", reason)
        from elea.spark.sink import Writer

        return Writer(self._parsed.sink(), schema)

    @told_briefly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from elea.spark.sink import StreamWriter

        return StreamWriter(self._parsed.sink(), schema)

    def _plan(self) -> Plan | None:
        """What payloads are decoded to; None: nothing."""
        options = self._parsed.decoding()
        if not options:
            return None
        from elea.spark.decoding import plan_of_options

        return plan_of_options(options)

    def _check(self, schema: StructType) -> None:
        """A schema of the user has to be the one there is: `columns` chooses among them."""
        if self._parsed.text("decode") is not None:
            return
        columns = list(self._parsed.columns())
        if schema.fieldNames() != columns:
            reason = f"saw {', '.join(schema.fieldNames())}; rows have {', '.join(columns)}"
            raise ConfigError("schema", f"{reason}; choose by the option columns")
        for field, type_name in zip(schema.fields, sql_types(columns), strict=True):
            seen = field.dataType.simpleString().upper()
            if seen != type_name:
                reason = f"column {field.name} is {type_name}, not {seen}"
                raise ConfigError("schema", f"{reason}; CAST it after load, or use decode")
