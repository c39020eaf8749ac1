"""The verbs of Python: those of `pyspark.pipelines`, and those of a data space.

    from elea.spark import pipelines as dp

    dp.pipeline("fleet", log="/var/lib/elea/log", storage="lake")
    dp.bronze("bronze")
    dp.silver("imu", decode="json", key="fleet/{robot}/imu", schema={"ax": "f64"})
    dp.gold("imu_1s", "window", source="imu", every="1 second", by=["robot"], values={"ax": "avg"})

    @dp.materialized_view
    def fastest():
        return spark.table("imu_1s").orderBy("ax_avg")

A verb adds to the pipeline that is being defined: by `load`, by `definition()`, or by whoever has
called neither, the one of the process, which `defined` returns.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from elea.errors import ConfigError
from elea.spark.pipelines import reading
from elea.spark.pipelines.definition import Pipeline, Query, Sink, Stream, Table, View
from elea.spark.pipelines.graph import problems_of
from elea.spark.pipelines.lazy_session import (
    Maker,
    default_session,
    lazily_active,
    needs_session,
)
from elea.spark.pipelines.problems import Problems
from elea.spark.pipelines.supervision import OF_USER, told

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Makes the session of a file that uses one while it is loaded; None: as `elea.spark.session`.
SESSION_MAKER: Final[ContextVar[Maker | None]] = ContextVar("session_maker", default=None)
_Function = TypeVar("_Function", bound="Callable[..., Any]")


class Definition:
    """A pipeline while it is being defined: what a file would have, and functions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: dict[str, object] = {}
        self.tables: dict[str, object] = {}
        self.views: dict[str, View] = {}
        self.streams: dict[str, dict[str, Query]] = {}
        self.sinks: dict[str, Sink] = {}
        self.flows: list[tuple[str, str, Query]] = []

    def name(self, name: str) -> str:
        """A name that nothing has yet.

        Raises:
            ConfigError: something has it.
        """
        for known in (self.tables, self.views, self.streams, self.sinks):
            if name in known:
                raise ConfigError(f"tables.{name}", "is defined twice; rename one")
        return name

    def pipeline(self, problems: Problems) -> Pipeline | None:
        """What was defined."""
        told = Problems()
        made = reading.parsed({**self.told, "tables": self.tables}, self.folder, told)
        problems.found += [one for one in told.found if one.place != "tables"]
        return None if made is None else self.added(made, problems)

    def added(self, made: Pipeline, problems: Problems) -> Pipeline:
        """A pipeline with what was defined by functions."""
        sinks = dict(self.sinks)
        streams = {name: dict(flows) for name, flows in self.streams.items()}
        for target, name, query in self.flows:
            if target in streams:
                streams[target][name] = query
            elif target in sinks:
                flows = {**sinks[target].flows, name: query}
                sinks[target] = replace(sinks[target], flows=flows)
            else:
                legal = ", ".join((*streams, *sinks)) or "none"
                problems.add(f"flow {name}", f"saw target {target!a}; legal are {legal}")
        functions: list[Table] = [*self.views.values()]
        functions += [Stream(name, flows) for name, flows in streams.items()]
        found = replace(
            made,
            tables=(*made.tables, *functions),
            sinks=(*made.sinks, *sinks.values()),
        )
        for problem in problems_of(found):
            if problem not in problems.found:
                problems.add(problem.place, problem.reason)
        return found


_PROCESS: Final = Definition(Path())
_ACTIVE: Final[ContextVar[Definition]] = ContextVar("elea_pipeline", default=_PROCESS)


@contextmanager
def definition(folder: str | Path = ".") -> Iterator[Definition]:
    """Verbs inside of the block define one pipeline; paths in it are below `folder`."""
    made = Definition(Path(folder))
    token = _ACTIVE.set(made)
    try:
        yield made
    finally:
        _ACTIVE.reset(token)


def defined(made: Definition | None = None) -> Pipeline:
    """The pipeline that verbs have defined so far.

    Raises:
        ConfigError: it cannot be used.
    """
    problems = Problems()
    found = (made or _ACTIVE.get()).pipeline(problems)
    problems.raise_first()
    assert found is not None
    return found


def of_file(file: Path, problems: Problems) -> Pipeline | None:
    """The pipeline that a file of Python defines."""
    made = _run(file, problems)
    return None if made is None else made.pipeline(problems)


def extended(pipeline: Pipeline, file: Path, problems: Problems) -> Pipeline:
    """A pipeline with the tables that a file of Python defines."""
    made = _run(file, problems)
    if made is None:
        return pipeline
    told = {**_settings(pipeline), "tables": made.tables}
    more = reading.parsed(told, file.parent, inner := Problems())
    problems.found += [one for one in inner.found if one.place.startswith("tables.")]
    tables = () if more is None else more.tables
    return made.added(replace(pipeline, tables=(*pipeline.tables, *tables)), problems)


def _settings(pipeline: Pipeline) -> dict[str, object]:
    return {"pipeline": pipeline.name, "log": pipeline.log, "storage": pipeline.storage}


def _run(file: Path, problems: Problems) -> Definition | None:
    maker = SESSION_MAKER.get() or default_session
    for has_session in (False, True):
        with definition(file.parent) as made, lazily_active(maker):
            try:
                runpy.run_path(str(file), run_name="__elea_pipeline__")
            except OF_USER as error:
                if not has_session and needs_session(error):
                    maker()
                    continue
                problems.add("", f"{file}: {told(error)}")
                return None
        return made
    return None


def pipeline(name: str, *, log: str, storage: str, **settings: object) -> None:
    """Name the pipeline, and say where it reads and writes.

    Args:
        settings: `connect`, `config`, `format`, `trigger`, `refresh`, `options`: as in a file.
    """
    _ACTIVE.get().told.update({"pipeline": name, "log": log, "storage": storage, **settings})


def bronze(name: str = "bronze", keyexpr: str | Sequence[str] = "**") -> None:
    """A table of samples as they are: `archive` in a file."""
    keys = keyexpr if isinstance(keyexpr, str) else list(keyexpr)
    _ACTIVE.get().tables[_new(name)] = {"archive": keys}


def silver(name: str, *, decode: str, **options: object) -> None:
    """A table of samples with columns in place of payloads: `decode` in a file."""
    _ACTIVE.get().tables[_new(name)] = {"decode": decode, **options}


def gold(
    name: str,
    kind: str,
    *,
    source: str | Sequence[str],
    publish: str | Mapping[str, object] | None = None,
    **options: object,
) -> None:
    """A table that a kind of gold makes of others: `{from: source, kind: options}` in a file."""
    sources = source if isinstance(source, str) else list(source)
    entry: dict[str, object] = {"from": sources, kind: options}
    if publish is not None:
        entry["publish"] = publish if isinstance(publish, str) else dict(publish)
    _ACTIVE.get().tables[_new(name)] = entry


@overload
def table(query_function: _Function) -> _Function: ...
@overload
def table(
    *,
    query_function: None = None,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: dict[str, str] | None = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    schema: StructType | str | None = None,
    format: str | None = None,
) -> Callable[[_Function], _Function]: ...
def table(
    query_function: Any = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: dict[str, str] | None = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    schema: StructType | str | None = None,
    format: str | None = None,
) -> Any:
    """A table to which the stream that a function returns is appended.

    Args are those of `pyspark.pipelines.table`. What is about how Spark lays files out has no
    effect: the format is that of the pipeline, the schema that of the stream.
    """

    def outer(function: _Function) -> _Function:
        made = _ACTIVE.get()
        chosen = made.name(name or _named(function))
        made.streams[chosen] = {chosen: function}
        return function

    return outer if query_function is None else outer(query_function)


@overload
def materialized_view(query_function: _Function) -> _Function: ...
@overload
def materialized_view(
    *,
    query_function: None = None,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: dict[str, str] | None = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    schema: StructType | str | None = None,
    format: str | None = None,
) -> Callable[[_Function], _Function]: ...
def materialized_view(
    query_function: Any = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: dict[str, str] | None = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    schema: StructType | str | None = None,
    format: str | None = None,
) -> Any:
    """A table that is made anew, of what a function returns, when other tables have changed.

    Args are those of `pyspark.pipelines.materialized_view`, with the same remark as for `table`.
    """
    return _view(query_function, name, is_temporary=False)


@overload
def temporary_view(query_function: _Function) -> _Function: ...
@overload
def temporary_view(
    *,
    query_function: None = None,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: dict[str, str] | None = None,
) -> Callable[[_Function], _Function]: ...
def temporary_view(
    query_function: Any = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: dict[str, str] | None = None,
) -> Any:
    """A name for what a function returns; it is not kept."""
    return _view(query_function, name, is_temporary=True)


def create_streaming_table(
    name: str,
    *,
    comment: str | None = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    schema: StructType | str | None = None,
    format: str | None = None,
) -> None:
    """A table to which flows append; as `pyspark.pipelines.create_streaming_table`."""
    _ACTIVE.get().streams[_new(name)] = {}


def create_sink(name: str, format: str, options: dict[str, str] | None = None) -> None:
    """Somewhere to which flows write, by a format of Spark: `zenoh`, for one."""
    _ACTIVE.get().sinks[_new(name)] = Sink(name, format, dict(options or {}))


def append_flow(
    *, target: str, name: str | None = None, spark_conf: dict[str, str] | None = None
) -> Callable[[_Function], _Function]:
    """The stream that a function returns goes to a table or a sink."""

    def outer(function: _Function) -> _Function:
        _ACTIVE.get().flows.append((target, name or _named(function), function))
        return function

    return outer


def _view(query_function: Any, name: str | None, *, is_temporary: bool) -> Any:
    def outer(function: _Function) -> _Function:
        made = _ACTIVE.get()
        chosen = made.name(name or _named(function))
        made.views[chosen] = View(chosen, query=function, is_temporary=is_temporary)
        return function

    return outer if query_function is None else outer(query_function)


def _new(name: str) -> str:
    return _ACTIVE.get().name(name)


def _named(function: Callable[..., Any]) -> str:
    if not callable(function):
        raise ConfigError("decorator", f"saw {function!a}; legal is a function")
    return function.__name__
