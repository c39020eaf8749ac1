"""A pipeline, as data: where it reads, where it keeps tables, and what each table is.

A file and the verbs of Python make the same objects. Nothing here touches Spark, a log or a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from elea.decode.columns.plan import Plan
from elea.keyexpr.template import KeyFormat
from elea.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Query: TypeAlias = "Callable[[], DataFrame]"

OWN: Final = "_elea"  # what is below the storage and no table: checkpoints and state
BAD: Final = "_bad"  # how the name ends of a table with what could not be decoded


@dataclass(frozen=True, slots=True)
class Publish:
    """New rows of a table as samples: a key for each, made of its columns, and an encoding."""

    key: str
    encoding: str = "json"
    express: bool = False
    ack: str = "router"  # or "stored"

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that make the key."""
        return KeyFormat(self.key).fields


@dataclass(frozen=True, slots=True)
class Archive:
    """Samples as they are, of some keys."""

    name: str
    key_exprs: tuple[str, ...] = ()  # none: all

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables it is made of: it is made of the log."""
        return ()

    @property
    def publish(self) -> Publish | None:
        """Samples are on the bus already."""
        return None


@dataclass(frozen=True, slots=True)
class Decoded:
    """Samples of some keys, with columns in place of payloads."""

    name: str
    plan: Plan
    key_exprs: tuple[str, ...]
    key: str | None = None  # a template, whose fields are columns
    deletes: bool = True
    drift: str = "add"  # or "ignore"
    publish: Publish | None = None
    drift_max: int = DEFAULT_LIMITS.drift_columns_count  # columns that payloads may add

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables it is made of: it is made of the log."""
        return ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that are made of keys."""
        return () if self.key is None else KeyFormat(self.key).fields


@dataclass(frozen=True, slots=True)
class Gold:
    """What a kind of `elea.spark.pipelines.gold` makes of other tables."""

    name: str
    kind: str
    sources: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    publish: Publish | None = None

    @property
    def has_late(self) -> bool:
        """Whether rows can come too late for it: they are in a table of their own."""
        return "late" in self.options


@dataclass(frozen=True, slots=True)
class View:
    """What SQL, or a function, makes of other tables, as they are now.

    Args:
        is_temporary: It is not kept: others read it by its name.
    """

    name: str
    sources: tuple[str, ...] = ()
    sql: str | None = None
    query: Query | None = None
    is_temporary: bool = False
    publish: Publish | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A table to which flows append; each is a function that returns a stream."""

    name: str
    flows: Mapping[str, Query] = field(default_factory=dict)
    publish: Publish | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Not known before the functions are called."""
        return ()


@dataclass(frozen=True, slots=True)
class Sink:
    """Somewhere else, to which flows write: a format of Spark and its options."""

    name: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, Query] = field(default_factory=dict)


Table: TypeAlias = Archive | Decoded | Gold | View | Stream


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All of it.

    Args:
        name: Consumers of the log and applications of tables are named by it.
        log: As the option `log` of the source.
        storage: The directory below which tables are, each by its name.
        format: Of tables: delta, iceberg or parquet.
        connect: Endpoints, where a log is served and results are published.
        config: A file, for what `connect` cannot say.
        trigger_s: Seconds from one batch to the next; None: what there is now, and then it ends.
        refresh_s: Seconds from one look at views to the next, at least.
        options: More options of the source: `startingOffsets`, `maxRowsPerTrigger`, ...
    """

    name: str
    log: str
    storage: str
    tables: tuple[Table, ...] = ()
    sinks: tuple[Sink, ...] = ()
    format: str = "delta"
    connect: str | None = None
    config: str | None = None
    trigger_s: float | None = 2.0
    refresh_s: float = 10.0
    options: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """The table of that name; KeyError."""
        for one in self.tables:
            if one.name == name:
                return one
        raise KeyError(name)

    def path(self, table: str) -> Path:
        """Where a table is."""
        return Path(self.storage) / table

    @property
    def own(self) -> Path:
        """Where checkpoints and state are."""
        return Path(self.storage) / OWN

    @property
    def landed(self) -> tuple[Archive | Decoded, ...]:
        """The tables that are made of the log by files alone."""
        return tuple(one for one in self.tables if isinstance(one, (Archive, Decoded)))

    def reach(self) -> dict[str, str]:
        """How the data space is reached, as options of the source and the sink."""
        told = {"connect": self.connect, "config": self.config}
        return {name: value for name, value in told.items() if value is not None}
