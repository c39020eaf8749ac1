"""What payloads of a table hold: `schema`, in a file of a pipeline or beside it, as rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from elea.decode.columns.plan import Plan, auto_rules
from elea.decode.columns.ros import (
    definitions_of,
    hash_keys,
    humble_hash,
    key_exprs_of_type,
    nodes_text,
)
from elea.decode.columns.rules import ROS, Rule
from elea.decode.columns.schemas import AUTO, read_schemas, rules_of_schemas
from elea.decode.formats import DECODERS
from elea.decode.layout import PRIMITIVES
from elea.decode.paths import name_text
from elea.decode.type_schemas import TypeSchemas
from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.keys import parse_key
from elea.ros.formats.names import long_type
from elea.spark.type_sources import published_schemas, recorded_schemas, types_of_keys
from elea.store.log.reader import LogReader

LEGAL: Final = (
    'a layout such as "{ax: f64}", the same as a mapping, or the name of a file beside this one'
)
# Names that others use for the types of layouts.
_ALIASES: Final = {
    "boolean": "bool",
    "tinyint": "i8",
    "smallint": "i16",
    "int": "i32",
    "integer": "i32",
    "long": "i64",
    "bigint": "i64",
    "float": "f32",
    "real": "f32",
    "double": "f64",
    "text": "string",
    "str": "string",
    "binary": "bytes",
}
_OPENS: Final = ("{", "[", "(", "appendable", "map(", "enum")


def plan_of(
    decoder: str,
    schema: object,
    *,
    folder: Path,
    encoding: str | None = None,
    message: str | None = None,
    definitions: str | None = None,
    into: str | None = None,
) -> Plan:
    """The plan of a table; rows that no rule is for are bad rows.

    Args:
        schema: As in the file; None: what the decoder does without.
        folder: Where files are that it names.

    Raises:
        ConfigError: it cannot be used.
        LimitError: it has too many columns.
    """
    if decoder != AUTO and decoder not in DECODERS:
        legal = ", ".join((AUTO, *DECODERS))
        raise ConfigError("decode", f'saw "{decoder}"; legal are {legal}')
    if isinstance(schema, str) and schema.endswith(".toml"):
        declared = read_schemas(folder / schema)
        rest = auto_rules() if decoder == AUTO else ()
        return Plan((*declared.rules, *rest), "dead")
    layout = layout_of(schema, folder)
    if decoder == AUTO:
        if layout is not None or message is not None:
            raise ConfigError("decode", "saw auto; legal with a schema is the name of a decoder")
        return Plan(auto_rules(), "dead")
    octets = None if definitions is None else _octets(folder / definitions, "definitions")
    try:
        rule = Rule(
            decoder=decoder,
            encoding=encoding,
            layout=layout,
            message=message,
            definitions=octets,
            into=into,
        )
    except ConfigError as error:
        place = "schema" if error.path == "layout" else error.path
        raise ConfigError(place, error.reason) from error
    return Plan((rule,), "dead")


def ros_plan(
    *,
    folder: Path,
    log: Path | None,
    key_exprs: Sequence[str],
    type: str | None = None,
    topic: str | None = None,
    definitions: str | None = None,
    into: str | None = None,
) -> Plan:
    """The plan of a table of ROS messages: a rule for each definition of its type (R2-751, R2-753).

    Args:
        log: The log's directory, where definitions may be kept, and keys tell types.

    Raises:
        ConfigError: the type is not known, or there is no definition of it.
    """
    name = _only_type(log, key_exprs) if type is None else long_type(type)
    given = None
    if definitions is not None:
        given = _octets(folder / definitions, "definitions").decode("utf-8", "replace")
    known = definitions_of(name, given, log)
    humble = humble_hash(name, known)
    nodes = None
    if log is not None and log.is_dir():
        nodes = nodes_text(LogReader(log).keys("@ros2_lv/**"), name)
    rules: list[Rule] = []
    for hash, text in known.items():
        more = [
            Rule(
                decoder=ROS,
                key_expr=key_expr,
                message=name,
                definitions=text.encode(),
                into=into,
                topic=topic,
                nodes=nodes,
            )
            for key_hash in hash_keys(hash, humble)
            for key_expr in key_exprs_of_type(name, key_hash)
        ]
        try:
            Plan((*rules, *more), "dead")
        except ConfigError:
            if not rules:
                raise
            continue  # another definition has these columns: its rows are good, those of this bad
        rules += more
    return Plan(tuple(rules), "dead")


def dds_plan(
    *,
    log: Path | None,
    connect: str | None,
    key_exprs: Sequence[str] = (),
    type: str | None = None,
    into: str | None = None,
) -> Plan:
    """The plan of a table of DDS samples: a rule for each of their types (D-875).

    Args:
        log: The log's directory, where schemas were recorded.
        connect: Where bridges are asked for schemas if the log has none.
        key_exprs: The keys of the table; types of others in the log are left out.
        type: Only samples of this type are good; without it, all types that the keys have.

    Raises:
        ConfigError: there is no schema.
    """
    names = {type} if type is not None else set()
    if type is None and log is not None:
        names = types_of_keys(log, key_exprs)
    schemas = TypeSchemas() if log is None else recorded_schemas(log)
    found = [one for one in schemas if not names or one.name in names]
    if not found and connect is not None:
        published = published_schemas(connect)
        found = [one for one in published if not names or one.name in names]
    rules = rules_of_schemas(found, into=into)
    if not rules:
        of = "" if type is None else f" of {type}"
        reason = f"no schema{of} was found; record '@schema/**' with the topics, or give a layout"
        raise ConfigError("schema", reason)
    return Plan(rules, "dead")


def _only_type(log: Path | None, key_exprs: Sequence[str]) -> str:
    """The type that the keys of a log name."""
    found: set[str] = set()
    if log is not None and log.is_dir():
        reader = LogReader(log)
        for key_expr in key_exprs or ("**",):
            topics = (parse_key(key) for key in reader.keys(key_expr))
            found |= {one.type for one in topics if one is not None}
    if len(found) == 1:
        return found.pop()
    if not found:
        raise ConfigError("type", "the log has no such topic yet; give the type")
    raise ConfigError("type", f"the log has the types {', '.join(sorted(found))}; give one")


def layout_of(schema: object, folder: Path) -> str | None:
    """The layout that a schema of a file says; None: it says none.

    Raises:
        ConfigError: it cannot be used.
    """
    if schema is None:
        return None
    if isinstance(schema, dict):
        return layout_text(schema)
    if not isinstance(schema, str):
        raise ConfigError("schema", f"saw {str(schema)[:80]!a}; legal is {LEGAL}")
    text = schema.strip()
    if text.startswith(_OPENS) or text in PRIMITIVES or text in _ALIASES:
        return _ALIASES.get(text, text)
    return _octets(folder / text, "schema").decode("utf-8", "replace").strip()


def layout_text(value: object) -> str:
    """A layout that is written as a mapping of YAML.

    Raises:
        ConfigError: a type is none.

    Example:
        >>> layout_text({"ax": "f64", "pose": {"x": "double"}, "cells": ["f32"]})
        '{ax: f64, pose: {x: f64}, cells: [f32]}'
    """
    match value:
        case Mapping():
            inner = (f"{name_text(str(name))}: {layout_text(one)}" for name, one in value.items())
            return f"{{{', '.join(inner)}}}"
        case [item]:
            return f"[{layout_text(item)}]"
        case str():
            return _ALIASES.get(value, value)
        case _:
            raise ConfigError("schema", f"saw {str(value)[:80]!a}; legal is {LEGAL}")


def _octets(file: Path, place: str) -> bytes:
    try:
        if file.stat().st_size > DEFAULT_LIMITS.config_len:
            raise ConfigError(place, f"{file}: longer than {DEFAULT_LIMITS.config_len} octets")
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(place, f"{error}; legal is {LEGAL}") from error
