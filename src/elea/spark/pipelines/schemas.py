"""What payloads of a table hold: `schema`, in a file of a pipeline or beside it, as rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.predicate.layout import PRIMITIVES
from elea.predicate.model import name_text
from elea.spark.decode.plan import Plan, auto_rules
from elea.spark.decode.rules import DECODERS, Rule
from elea.spark.decode.schemas import AUTO, read_schemas

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
