"""`pipeline.yaml`: read, checked, with all that is wrong with it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from elea.config import yaml_text
from elea.decode.columns.plan import ERROR, Plan
from elea.decode.columns.ros import key_exprs_of
from elea.decode.columns.rules import DDS, ROS
from elea.decode.formats import DECODERS
from elea.decode.layout import parse_layout
from elea.errors import ConfigError, EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.template import KeyFormat
from elea.limits import DEFAULT_LIMITS
from elea.spark.options import FLIGHT, ZENOH, Options
from elea.spark.pipelines import graph
from elea.spark.pipelines.definition import Archive, Decoded, Gold, Pipeline, Publish, Table, View
from elea.spark.pipelines.gold import KINDS, values
from elea.spark.pipelines.problems import (
    CAUGHT,
    Problem,
    Problems,
    flag_of,
    shown,
    text_of,
    texts_of,
)
from elea.spark.pipelines.ros_tables import TF_TOPICS, table_name, tf_sql, topics_of
from elea.spark.pipelines.schemas import dds_plan, layout_of, plan_of, ros_plan
from elea.store.tables.layout import COLUMNS, DATE
from elea.store.tables.table import FORMATS

# What a file may say, with a line of explanation each: docs/reference/pipeline-file.md.
TOP: Final = {
    "pipeline": "its name: consumers of the log are named by it",
    "log": "a directory, or `zenoh:NAME` or `flight:NAME` for a log that somebody serves; as the"
    " source's option",
    "connect": "endpoints, separated by commas: where a log is served, and results are published",
    "config": "a configuration file of the session, for what `connect` cannot say",
    "storage": "the directory of the tables; below `_elea` are checkpoints and state",
    "format": "of tables: `delta` (if not given), `iceberg` or `parquet`",
    "trigger": "from one batch to the next, `2 seconds` if not given; `available-now`: what there"
    " is, and then it ends",
    "refresh": "from one look at gold tables and views to the next, at least; as `trigger` if not"
    " given",
    "options": "more options of the source: `startingOffsets`, `maxRowsPerTrigger`, ...",
    "python": "files beside this one whose functions are tables too",
    "tables": "names, and what each table is",
    "ros2": "tables of ROS topics, found in the log when the pipeline starts",
}
ROS2: Final = {
    "tables": "names of topics, as key expressions without the first `/`: `**` is all of them. Each"
    " is a table named by its topic, with `_` for `/`",
    "tf": "`true`: `ros_tf`, a row per transform of `/tf` and `/tf_static`",
}
ARCHIVE: Final = {"archive": "key expressions, one or a list: samples of these keys, as they are"}
DECODE: Final = {
    "decode": ", ".join(f"`{name}`" for name in DECODERS)
    + ", or `auto`: columns in place of payloads",
    "keyexpr": "of which keys; without it, those of `key`",
    "key": "a template: `fleet/{robot}/imu` makes a column `robot`",
    "schema": "what payloads hold: a layout, a mapping, or a file beside this one",
    "encoding": "only samples of this encoding are good",
    "message": "the name of a message type, for `protobuf` and `cdr`",
    "topic": "for `ros2`: a name or a template of names, `/{robot}/imu`, in place of `keyexpr`",
    "type": "for `ros2` and `dds`: the type of the samples; without it, those that the log has",
    "definitions": "a file beside this one, with that message",
    "into": "one column for all of it, as a structure",
    "deletes": "whether deletions are rows too, of kind 1 and without values; `true` if not given",
    "drift": "`add` columns for members that nobody declared (if not given), or `ignore` them",
    "drift_max": "how many columns payloads may add so; 32 if not given. Members beyond that are in"
    " the column `_extra`, as JSON",
    "publish": "send new rows",
}
SQL: Final = {
    "sql": "a query over other tables: made anew when they have changed",
    "from": "the tables it reads, if the text does not show them",
    "publish": "send rows that are new",
}
GOLD: Final = {"from": "the table, or the tables, it is made of", "publish": "send new rows"}
PUBLISH: Final = {
    "key": "the key of each row, made of its columns: `gold/{robot}/imu`",
    "encoding": "`json` or `cbor`",
    "express": "whether each is sent at once, not with others",
    "ack": "`router`, or `stored`: rows are sent until a recorder has them on disk",
}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TABLE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_OWN_OPTIONS: Final = ("log", "connect", "config", "consumer", "keyexpr", "columns", "decode")
_FILE: Final = "file:"


def load(path: str | Path) -> Pipeline:
    """The pipeline of a file: `pipeline.yaml`, or Python with the verbs of this package.

    Raises:
        ConfigError: it cannot be used; the path names the place, and `check` tells all of them.
        MissingDependencyError: PyYAML is not installed.
    """
    pipeline, problems = examined(path)
    problems.raise_first()
    assert pipeline is not None
    return pipeline


def check(path: str | Path) -> list[Problem]:
    """All that is wrong with a file."""
    return examined(path)[1].found


def examined(path: str | Path) -> tuple[Pipeline | None, Problems]:
    """The pipeline of a file as far as it can be made, and what is wrong with it."""
    file, problems = Path(path), Problems()
    if file.suffix == ".py":
        from elea.spark.pipelines import verbs

        return verbs.of_file(file, problems), problems
    try:
        if file.stat().st_size > DEFAULT_LIMITS.config_len:
            raise ConfigError("", f"longer than {DEFAULT_LIMITS.config_len} octets")
        told = yaml_text.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        problems.add("", f"{file}: {error.strerror}; `elea pipeline init {file}` writes one")
        return None, problems
    except OSError as error:
        problems.add("", f"{file}: {error.strerror}")
        return None, problems
    except UnicodeDecodeError as error:
        problems.add("", f"{file}: {error}")
        return None, problems
    except EleaError as error:
        problems.add("", f"{file}: {error}")
        return None, problems
    if told is None:
        problems.add("", f"{file}: is empty; `elea pipeline init` writes one to begin with")
        return None, problems
    if not isinstance(told, dict):
        problems.seen("", told, f"a mapping with {', '.join(TOP)}")
        return None, problems
    return parsed(told, file.parent, problems), problems


def parsed(told: Mapping[str, object], folder: Path, problems: Problems) -> Pipeline | None:
    """The pipeline of what a file has; None if it is too wrong to be one."""
    problems.unknown("", told, TOP)
    reader = _Reader(folder, problems)
    made = reader.pipeline(told)
    if made is not None:
        tables = told.get("tables")
        declared = [str(name) for name in tables] if isinstance(tables, dict) else []
        for problem in graph.problems_of(made, declared):
            problems.add(problem.place, problem.reason)
    return made


def missing_logs(pipeline: Pipeline) -> list[Problem]:
    """Logs in directories that are not there: a recorder may make them yet."""
    return [
        Problem("log", f"{one}: there is no log; a recorder makes it: elea record '**' --to {one}")
        for one in pipeline.log.split(",")
        if one and not one.startswith((ZENOH, FLIGHT)) and not Path(_local(one)).is_dir()
    ]


def unusable_storage(pipeline: Pipeline) -> list[Problem]:
    """A storage below which nothing could be made; found by making a directory, and removing it."""
    storage = Path(pipeline.storage)
    there = next(one for one in (storage, *storage.absolute().parents) if one.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".elea-check-", dir=there))
    except OSError as error:
        reason = f"{storage}: nothing can be written below {there}: {error.strerror or error}"
        return [Problem("storage", f"{reason}; name another directory")]
    return []


def _local(text: str) -> str:
    return unquote(urlsplit(text).path) if text.startswith(_FILE) else text


class _Reader:
    """Reads one file, and goes on after a problem."""

    def __init__(self, folder: Path, problems: Problems) -> None:
        self._folder = folder
        self._problems = problems
        self._source = ""  # the log, as it is said
        self._connect: str | None = None

    def pipeline(self, told: Mapping[str, object]) -> Pipeline | None:
        problems = self._problems
        for name in ("pipeline", "log", "storage"):
            if name not in told:
                problems.add(name, f"is missing: {TOP[name]}")
        name = self._text(told, "pipeline", "letters, digits, - and _, at most 64") or "pipeline"
        if _NAME.fullmatch(name) is None:
            problems.seen("pipeline", name, "letters, digits, - and _, at most 64")
        log = self._text(told, "log", TOP["log"])
        storage = self._text(told, "storage", "a directory")
        format = self._text(told, "format", ", ".join(FORMATS)) or "delta"
        if format not in FORMATS:
            problems.seen("format", format, f"one of {', '.join(FORMATS)}")
        trigger_s = self._trigger(told.get("trigger", "2 seconds"))
        refresh_s = self._duration("refresh", told["refresh"]) if "refresh" in told else None
        connect = told.get("connect")
        if isinstance(connect, list):
            connect = ",".join(texts_of(problems, "connect", connect, "endpoints"))
        self._connect = None if connect is None else str(connect)
        self._source = self._log(log or "")
        tables, sinks = tuple(self._tables(told.get("tables"))), ()
        if told.get("ros2") is not None:
            tables += tuple(self._ros_tables(told["ros2"], {one.name for one in tables}))
        made = Pipeline(
            name=name,
            log=self._source,
            storage=str(self._path(storage or ".")),
            tables=tables,
            sinks=sinks,
            format=format,
            connect=None if connect is None else str(connect),
            config=None if told.get("config") is None else str(self._path(str(told["config"]))),
            trigger_s=trigger_s,
            refresh_s=refresh_s or trigger_s or 2.0,
            options=self._options(told.get("options")),
        )
        made = self._python(told.get("python"), made)
        if log is not None and storage is not None:
            self._check_source(made)
        return made

    def _text(self, told: Mapping[str, object], name: str, legal: str) -> str | None:
        return text_of(self._problems, name, told[name], legal) if name in told else None

    def _path(self, text: str) -> Path:
        if text.startswith(_FILE):
            text = unquote(urlsplit(text).path)
        return (self._folder / Path(text).expanduser()).absolute()

    def _log(self, text: str) -> str:
        """Directories are below the file, as all paths in it."""
        places = [one.strip() for one in text.split(",") if one.strip()]
        return ",".join(
            one if one.startswith((ZENOH, FLIGHT, _FILE)) else str(self._path(one))
            for one in places
        )

    def _duration(self, place: str, value: object) -> float | None:
        try:
            return values.some_time(value) / values.SECOND
        except ValueError as error:
            self._problems.add(place, f"saw {shown(value)}; {error}")
            return None

    def _trigger(self, value: object) -> float | None:
        return None if value == "available-now" else self._duration("trigger", value)

    def _options(self, told: object) -> dict[str, str]:
        if told is None:
            return {}
        if not isinstance(told, dict):
            self._problems.seen("options", told, "names and values of options of the source")
            return {}
        found = {}
        for name, value in told.items():
            if name.lower() in _OWN_OPTIONS:
                self._problems.add(f"options.{name}", "is not for here: the pipeline says it")
            elif not isinstance(value, (str, int, float, bool)):
                self._problems.seen(f"options.{name}", value, "a text or a number")
            else:
                found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def _check_source(self, made: Pipeline) -> None:
        """What the source says of its options."""
        problems: dict[str, str] = {}

        def is_good(options: Mapping[str, str]) -> bool:
            try:
                Options(options).stream()
            except ConfigError as error:
                name = error.path.removeprefix("option ")
                place = name if name in TOP else f"options.{name}"
                problems.setdefault(place, error.reason)
                return False
            return True

        log = {"log": made.log}
        given = {**made.reach(), **log}
        if not is_good(given):  # the options may be wrong as well
            given = log
        # One by one, so that each is told; then together.
        are_good = [is_good({name: value, **given}) for name, value in made.options.items()]
        if all(are_good):
            is_good({**made.options, **given})
        for place, reason in problems.items():
            self._problems.add(place, reason)

    def _python(self, told: object, made: Pipeline) -> Pipeline:
        if told is None:
            return made
        from elea.spark.pipelines import verbs

        for text in texts_of(self._problems, "python", told, "names of files"):
            made = verbs.extended(made, self._path(text), self._problems)
        return made

    def _tables(self, told: object) -> Iterator[Table]:
        if told is None:
            return
        if not isinstance(told, dict):
            self._problems.seen("tables", told, "names, and what each table is")
            return
        for name, entry in told.items():
            place = f"tables.{name}"
            if _TABLE_NAME.fullmatch(name) is None:
                legal = "a letter, then letters, digits and _, at most 64"
                self._problems.seen(place, name, legal)
                continue
            if not isinstance(entry, dict):
                self._problems.seen(place, entry, f"one of {', '.join(_kinds())}, with its value")
                continue
            kinds = [kind for kind in _kinds() if kind in entry]
            if len(kinds) != 1:
                seen = " and ".join(kinds) or ", ".join(entry) or "nothing"
                self._problems.add(place, f"saw {seen}; legal is one of {', '.join(_kinds())}")
                continue
            reading = _READERS.get(kinds[0], _Reader._gold)
            made = reading(self, name, entry, kinds[0])
            if made is not None:
                yield made

    def _ros_tables(self, told: object, taken: set[str]) -> Iterator[Table]:
        """A table for each topic of the log that is wanted (R2-752, R2-756)."""
        if not isinstance(told, dict):
            self._problems.seen("ros2", told, "tables and tf")
            return
        self._problems.unknown("ros2", told, ROS2)
        wanted = told.get("tables", [])
        patterns = texts_of(self._problems, "ros2.tables", wanted, "key expressions")
        has_tf = flag_of(self._problems, "ros2.tf", told.get("tf", False))
        patterns = (*patterns, *TF_TOPICS) if has_tf else patterns
        try:
            topics = topics_of(Path(self._source), patterns)
        except CAUGHT as error:
            self._problems.error("ros2.tables", error)
            return
        for topic, type in topics:
            name = table_name(topic)
            if name in taken or _TABLE_NAME.fullmatch(name) is None:
                continue  # a table that is declared has the name
            entry = {"decode": ROS, "topic": topic, "type": type}
            made = self._decode(name, entry, "decode")
            if made is not None:
                taken.add(name)
                yield made
        if has_tf:
            sources = tuple(one for one in TF_TOPICS if one in taken)
            if sources:
                yield View("ros_tf", sources, tf_sql(sources))
            else:
                self._problems.add("ros2.tf", "the log has neither /tf nor /tf_static yet")

    def _archive(self, name: str, entry: Mapping[str, object], _kind: str) -> Table | None:
        place = f"tables.{name}"
        self._problems.unknown(place, entry, ARCHIVE)
        return Archive(name, self._key_exprs(f"{place}.archive", entry["archive"]))

    def _decode(self, name: str, entry: Mapping[str, object], _kind: str) -> Table | None:
        place, problems = f"tables.{name}", self._problems
        problems.unknown(place, entry, DECODE)
        if entry["decode"] == ROS:
            entry = self._with_keys(place, entry)
        key = self._template(f"{place}.key", entry["key"]) if "key" in entry else None
        if "keyexpr" in entry:
            key_exprs = self._key_exprs(f"{place}.keyexpr", entry["keyexpr"])
        elif key is not None:
            key_exprs = (str(KeyFormat(key).key_expr),)
        else:
            if "key" not in entry:  # one that is wrong is told already
                problems.add(f"{place}.keyexpr", f"is missing: {DECODE['keyexpr']}")
            key_exprs = ()
        drift = entry.get("drift", "add")
        if drift not in ("add", "ignore"):
            problems.seen(f"{place}.drift", drift, "one of add, ignore")
        drift_max = entry.get("drift_max", DEFAULT_LIMITS.drift_columns_count)
        if isinstance(drift_max, bool) or not isinstance(drift_max, int) or drift_max < 0:
            problems.seen(f"{place}.drift_max", drift_max, "a whole number from 0 on")
            drift_max = 0
        texts = {
            option: text_of(problems, f"{place}.{option}", entry[option], DECODE[option])
            for option in ("decode", "encoding", "message", "definitions", "into")
            if option in entry
        }
        deletes = flag_of(problems, f"{place}.deletes", entry.get("deletes", True))
        publish = self._publish(place, entry)
        decoder = texts.pop("decode", None)
        if decoder is None:
            return None
        try:
            if decoder == ROS:
                plan = self._ros_plan(place, entry, key_exprs)
            elif decoder == DDS and "schema" not in entry:
                plan = self._dds_plan(place, entry, key_exprs)
            else:
                plan = plan_of(decoder, entry.get("schema"), folder=self._folder, **texts)
        except CAUGHT as error:
            problems.error(place, error)
            if isinstance(error, ConfigError) and error.path == "decode":
                self._check_layout(place, entry.get("schema"))
            return None
        made = Decoded(name, plan, key_exprs, key, deletes, str(drift), publish, drift_max)
        columns = [column.lower() for column in (*COLUMNS.names, DATE, ERROR, *plan.schema.names)]
        for one in made.fields:
            if one.lower() in columns:
                problems.add(f"{place}.key", f"{{{one}}}: rows have such a column; name it anew")
        if publish is not None:
            known = {*COLUMNS.names, *plan.schema.names, *made.fields}
            _check_fields(problems, f"{place}.publish", publish, known)
        return made

    def _with_keys(self, place: str, entry: Mapping[str, object]) -> Mapping[str, object]:
        """An entry of ROS whose topic, if it has one, is said as key expressions."""
        if "topic" not in entry:
            return entry
        topic = self._template(f"{place}.topic", str(entry["topic"]).removeprefix("/"))
        if topic is None:
            return {**entry, "keyexpr": []}
        return {**entry, "keyexpr": list(key_exprs_of(topic, str(entry.get("type", "*"))))}

    def _ros_plan(
        self, place: str, entry: Mapping[str, object], key_exprs: tuple[str, ...]
    ) -> Plan:
        texts = {
            option: text_of(self._problems, f"{place}.{option}", entry[option], DECODE[option])
            for option in ("type", "topic", "definitions", "into")
            if option in entry
        }
        log = Path(self._source) if self._source else None
        return ros_plan(folder=self._folder, log=log, key_exprs=key_exprs, **texts)

    def _dds_plan(
        self, place: str, entry: Mapping[str, object], key_exprs: tuple[str, ...]
    ) -> Plan:
        texts = {
            option: text_of(self._problems, f"{place}.{option}", entry[option], DECODE[option])
            for option in ("type", "into")
            if option in entry
        }
        log = Path(self._source) if self._source else None
        return dds_plan(log=log, connect=self._connect, key_exprs=key_exprs, **texts)

    def _check_layout(self, place: str, schema: object) -> None:
        """What is wrong with a schema, whatever decoder it is for."""
        if isinstance(schema, str) and schema.endswith(".toml"):
            return
        try:
            layout = layout_of(schema, self._folder)
            if layout is not None:
                parse_layout(layout)
        except CAUGHT as error:
            self._problems.add(f"{place}.schema", str(error))

    def _sql(self, name: str, entry: Mapping[str, object], _kind: str) -> Table | None:
        place = f"tables.{name}"
        self._problems.unknown(place, entry, SQL)
        text = text_of(self._problems, f"{place}.sql", entry["sql"], "a query")
        sources = self._sources(place, entry) if "from" in entry else ()
        return View(name, sources, text or "", publish=self._publish(place, entry))

    def _gold(self, name: str, entry: Mapping[str, object], kind: str) -> Table | None:
        place, problems = f"tables.{name}", self._problems
        problems.unknown(place, entry, (kind, *GOLD))
        sources = self._sources(place, entry)
        try:
            KINDS[kind].check_sources(sources, f"{place}.from")
        except CAUGHT as error:
            problems.error(place, error)
        options, errors = KINDS[kind].examined(entry[kind], f"{place}.{kind}")
        for one in errors:
            problems.error(place, one)
        return Gold(name, kind, sources, options, self._publish(place, entry))

    def _sources(self, place: str, entry: Mapping[str, object]) -> tuple[str, ...]:
        if "from" not in entry:
            return ()
        return texts_of(self._problems, f"{place}.from", entry["from"], "a table, or a list")

    def _key_exprs(self, place: str, value: object) -> tuple[str, ...]:
        found = []
        for text in texts_of(self._problems, place, value, "a key expression, or a list"):
            try:
                found.append(str(KeyExpr.autocanonize(text)))
            except EleaError as error:
                self._problems.add(place, f"saw {shown(text)}; {error}")
        return () if "**" in found else tuple(found)

    def _template(self, place: str, value: object) -> str | None:
        text = text_of(self._problems, place, value, "a key with fields: fleet/{robot}/imu")
        if text is None:
            return None
        try:
            KeyFormat(text)
        except EleaError as error:
            self._problems.add(place, f"saw {shown(text)}; {error}")
            return None
        return text

    def _publish(self, place: str, entry: Mapping[str, object]) -> Publish | None:
        if "publish" not in entry:
            return None
        place, told, problems = f"{place}.publish", entry["publish"], self._problems
        if isinstance(told, str):
            told = {"key": told}
        if not isinstance(told, dict):
            problems.seen(place, told, "a key with columns as fields: gold/{robot}/imu")
            return None
        problems.unknown(place, told, PUBLISH)
        key = self._template(f"{place}.key", told.get("key"))
        encoding = told.get("encoding", "json")
        if encoding not in ("json", "cbor"):
            problems.seen(f"{place}.encoding", encoding, "one of json, cbor")
        express = flag_of(problems, f"{place}.express", told.get("express", False))
        ack = told.get("ack", "router")
        if ack not in ("router", "stored"):
            problems.seen(f"{place}.ack", ack, "one of router, stored")
        return None if key is None else Publish(key, str(encoding), express, str(ack))


_READERS: Final[dict[str, Callable[[_Reader, str, Mapping[str, object], str], Table | None]]] = {
    "archive": _Reader._archive,
    "decode": _Reader._decode,
    "sql": _Reader._sql,
}


def _kinds() -> tuple[str, ...]:
    return ("archive", "decode", *KINDS, "sql")


def _check_fields(problems: Problems, place: str, publish: Publish, known: set[str]) -> None:
    for one in publish.fields:
        if one not in known:
            legal = ", ".join(sorted(known))
            problems.add(place, f"{{{one}}}: rows have no such column; legal are {legal}")
