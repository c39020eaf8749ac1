"""Which table is made of which: missing ones, circles, and the order in which they are made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.spark.pipelines.definition import BAD, Decoded, Gold, Pipeline, Table, View
from elea.spark.pipelines.gold.late import LATE
from elea.spark.pipelines.problems import Problem, shown

# Texts and comments of SQL, in which names mean nothing.
_SILENT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.S)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def problems_of(pipeline: Pipeline, declared: Iterable[str] = ()) -> Iterator[Problem]:
    """What is wrong with how tables refer to each other.

    Args:
        declared: Names of tables that the file has, also of those that are wrong in themselves:
            who is made of one is not to blame.
    """
    declared = list(declared)
    if not pipeline.tables and not pipeline.sinks and not declared:
        yield Problem("tables", "is missing: names, and what each table is")
    count, count_max = len(pipeline.tables), DEFAULT_LIMITS.pipeline_tables_count
    if count > count_max:
        yield Problem("tables", f"saw {count} tables; legal are {count_max} at most")
        return
    known: dict[str, str] = {}
    for table in pipeline.tables:
        for name in names_of(table):
            if name.lower() in known:
                reason = f"{known[name.lower()]} makes a table of that name, too; rename one"
                yield Problem(f"tables.{table.name}", f"{name}: {reason}")
            known[name.lower()] = table.name
    legal = [name for table in pipeline.tables for name in names_of(table)]
    bad = [name for name in declared if name not in legal]
    legal += [name for one in bad for name in (one, one + BAD)]
    for table in pipeline.tables:
        for source in table.sources:
            if source not in legal or source == table.name:
                hidden = {*names_of(table), *(name + BAD for name in bad)}
                others = [name for name in legal if name not in hidden]
                reason = f"saw {shown(source)}; legal are {', '.join(others) or 'none'}"
                yield Problem(f"tables.{table.name}.from", reason)
        if table.publish is not None and not pipeline.reach():
            reason = "needs `connect`: where results are published"
            yield Problem(f"tables.{table.name}.publish", reason)
    circle = _circle(pipeline)
    if circle:
        reason = f"is made of itself: {' from '.join(circle)}"
        yield Problem(f"tables.{circle[0]}", reason)


def names_of(table: Table) -> tuple[str, ...]:
    """The tables that one definition makes."""
    if isinstance(table, Decoded):
        return (table.name, table.name + BAD)
    if isinstance(table, Gold) and table.has_late:
        return (table.name, table.name + LATE)
    return (table.name,)


def sources_of(pipeline: Pipeline, table: Table) -> tuple[str, ...]:
    """The tables that a table is made of: what it says, or what its SQL names."""
    if table.sources or not isinstance(table, View):
        return table.sources
    legal = {name.lower(): name for one in pipeline.tables for name in names_of(one)}
    if table.sql is None:
        return ()  # a function: what it reads is not known before it is called
    words = (word.lower() for word in _WORD.findall(_SILENT.sub(" ", table.sql)))
    found = dict.fromkeys(legal[word] for word in words if word in legal)
    return tuple(name for name in found if name != table.name)


def ordered(pipeline: Pipeline) -> list[Table]:
    """The tables, each after those it is made of; else as they are written."""
    done: dict[str, Table] = {}
    by_name = {name: one for one in pipeline.tables for name in names_of(one)}

    def visit(table: Table, open_names: frozenset[str]) -> None:
        if table.name in done or table.name in open_names:
            return
        for source in sources_of(pipeline, table):
            if source in by_name:
                visit(by_name[source], open_names | {table.name})
        done[table.name] = table

    for table in pipeline.tables:
        visit(table, frozenset())
    return list(done.values())


def only(pipeline: Pipeline, names: Iterable[str]) -> Pipeline:
    """The pipeline with these tables, and those they are made of.

    Raises:
        ConfigError: there is no such table.
    """
    by_name = {name: one for one in pipeline.tables for name in names_of(one)}
    wanted: dict[str, Table] = {}
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        if name not in by_name:
            raise ConfigError("table", f"saw {shown(name)}; legal are {', '.join(by_name)}")
        table = by_name[name]
        if table.name not in wanted:
            wanted[table.name] = table
            open_names += sources_of(pipeline, table)
    tables = tuple(table for table in pipeline.tables if table.name in wanted)
    return replace(pipeline, tables=tables)


def after(pipeline: Pipeline, name: str) -> list[Gold]:
    """The gold tables that are made of a table, or of what is made of it, in their order."""
    found: dict[str, Gold] = {}
    for table in ordered(pipeline):
        if isinstance(table, Gold) and any(
            source in found or source == name for source in table.sources
        ):
            found[table.name] = table
    return list(found.values())


def _circle(pipeline: Pipeline) -> list[str]:
    """Tables that are made of each other, in their order; nothing if there are none."""
    by_name = {name: one for one in pipeline.tables for name in names_of(one)}
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done or name not in by_name:
            return []
        for source in sources_of(pipeline, by_name[name]):
            if found := visit(source, [*path, name]):
                return found
        done.add(name)
        return []

    for table in pipeline.tables:
        if found := visit(table.name, []):
            return found
    return []
