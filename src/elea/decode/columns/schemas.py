"""`schemas.toml`: which payloads are of which type, as a file; and plans from samples.

unmatched = "keep"                          # or "dead"

[[schema]]
key = "fleet/*/imu"                         # a key expression, an encoding, or both
encoding = "application/cdr"
decoder = "cdr"                             # if the encoding does not say it
message = "sensor_msgs/msg/Imu"
definitions = "imu.msg"                     # a file beside this one
into = "imu"

[[schema]]
key = "fleet/*/battery"
decoder = "json"
layout = "{volts: f64, cells: [f32]}"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from elea.decode.columns.drift import layout_of_values
from elea.decode.columns.plan import Plan
from elea.decode.columns.rules import DDS, Rule, decoder_for
from elea.decode.columns.types import TEXT
from elea.decode.formats import DECODERS
from elea.decode.layout import layout_text
from elea.decode.type_schemas import PREFIX as SCHEMAS_PREFIX
from elea.decode.type_schemas import TypeSchema, TypeSchemas, type_of_encoding
from elea.errors import ConfigError, EleaError, LimitError
from elea.limits import DEFAULT_LIMITS
from elea.store.log.schema import RowKind

_NAMES: Final = ("key", "encoding", "decoder", "layout", "message", "definitions", "into", "topic")
_TOP: Final = ("schema", "unmatched")
AUTO: Final = "auto"


def read_schemas(path: str | Path) -> Plan:
    """The plan of a file.

    Raises:
        ConfigError: the file cannot be used; the path says where in it.
        LimitError: it makes too many columns.
    """
    file = Path(path)
    try:
        if file.stat().st_size > DEFAULT_LIMITS.config_len:
            raise ConfigError(str(file), f"longer than {DEFAULT_LIMITS.config_len} octets")
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(str(file), str(error)) from error
    _check_names(told, _TOP, str(file))
    entries = told.get("schema", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{file}: schema", "write [[schema]], once for each")
    rules = tuple(
        _rule(entry, file.parent, f"{file}: schema {number}")
        for number, entry in enumerate(entries, 1)
    )
    return Plan(rules, told.get("unmatched", "keep"))


def plan_of_samples(
    batches: Iterable[pa.RecordBatch],
    declared: Plan | None = None,
    definitions: Mapping[str, bytes] | None = None,
) -> Plan:
    """A plan for what is in some rows: declared rules first, then what encodings say, then a look.

    CDR of a type whose schema is among the rows, as a DDS bridge publishes it, gets that layout.
    Payloads of JSON and CBOR whose encoding says nothing more get the layout that a thousand of
    them have in common, in a column of their own for each encoding if their names collide.

    Args:
        batches: Rows with `key`, `payload`, `encoding`, `kind`.
        declared: Rules that come first.
        definitions: As for `decoder_for`.
    """
    plan = declared or Plan()
    looked_at: dict[str, list[object]] = {}
    known: dict[str, Rule | None] = {}
    recorded = TypeSchemas()
    left = DEFAULT_LIMITS.decode_sample_count
    for batch in batches:
        for row in batch.select(["key", "payload", "encoding", "kind"]).to_pylist():
            if row["kind"] != RowKind.PUT or left <= 0:
                continue
            left -= 1
            if row["key"].startswith(SCHEMAS_PREFIX):
                recorded.add(row["payload"])
                continue
            encoding = row["encoding"]
            if plan.place_of(row["key"], encoding) >= 0:
                continue
            if encoding not in known:
                known[encoding] = decoder_for(encoding, row["key"], definitions)
            rule = known[encoding]
            if rule is not None and rule.layout is None and DECODERS[rule.decoder].describes_itself:
                looked_at.setdefault(encoding, []).append(_seen(rule, row["payload"]))
    found = list(plan.rules)
    for encoding, rule in known.items():
        if rule is None:
            rule = _rule_of_recorded(encoding, recorded)
        if rule is None:
            continue
        layout = layout_of_values(looked_at.get(encoding, []))
        if layout is not None and layout != TEXT:
            rule = Rule(decoder=rule.decoder, encoding=encoding, layout=layout_text(layout))
        found.append(_apart(found, rule))
    return Plan(tuple(found), plan.unmatched)


def _rule_of_recorded(encoding: str, recorded: TypeSchemas) -> Rule | None:
    """The rule for CDR of a type whose schema was recorded."""
    name = type_of_encoding(encoding)
    schema = None if name is None else recorded.get(name)
    return None if schema is None else rule_of_schema(schema)


def rule_of_schema(schema: TypeSchema, into: str | None = None) -> Rule:
    """The rule for CDR of a type that has a schema.

    Raises:
        ConfigError, LimitError: its layout makes no columns.
    """
    return Rule(
        decoder=DDS,
        encoding=f"application/cdr;{schema.name}",
        layout=schema.layout,
        key_layout=schema.key_layout,
        into=into,
    )


def rules_of_schemas(
    schemas: Iterable[TypeSchema], before: tuple[Rule, ...] = (), into: str | None = None
) -> tuple[Rule, ...]:
    """Rules for all types that have schemas; where columns collide, one `into` a column of its own.

    A type whose layout makes no columns is left out: its payloads stay bytes.
    """
    found: list[Rule] = []
    for schema in schemas:
        try:
            rule = _apart([*before, *found], rule_of_schema(schema, into))
            Plan((*before, *found, rule))
        except (ConfigError, LimitError):
            continue
        found.append(rule)
    return tuple(found)


def _seen(rule: Rule, payload: bytes) -> object:
    # The decoder of a rule without a layout gives texts; any layout makes one that gives values.
    reader = Rule(decoder=rule.decoder, layout="{_: bool}").compiled()
    try:
        return reader.unknown(payload)
    except (ValueError, RecursionError):
        return None


def _apart(found: list[Rule], rule: Rule) -> Rule:
    """A rule whose columns do not collide with those there are."""
    try:
        Plan((*found, rule))
    except ConfigError:
        named = "".join(c if c.isalnum() else "_" for c in str(rule.encoding))[:64]
        return Rule(
            decoder=rule.decoder,
            encoding=rule.encoding,
            layout=rule.layout,
            message=rule.message,
            definitions=rule.definitions,
            into=named,
            key_layout=rule.key_layout,
        )
    return rule


def that_fit(declared: Plan, rules: tuple[Rule, ...]) -> list[Rule]:
    """Rules behind those of a plan; where columns collide, one `into` a column of its own."""
    found: list[Rule] = []
    for rule in rules:
        found.append(_apart([*declared.rules, *found], rule))
    return found


def _rule(entry: object, folder: Path, where: str) -> Rule:
    if not isinstance(entry, dict):
        raise ConfigError(where, "is no table")
    _check_names(entry, _NAMES, where)
    for name, value in entry.items():
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {name}", f"saw {value!a}; legal is a text")
    if "key" not in entry and "encoding" not in entry:
        raise ConfigError(where, "says for what it is by `key`, `encoding` or both")
    try:
        return Rule(
            decoder=entry.get("decoder") or _decoder_of(entry),
            key_expr=entry.get("key"),
            encoding=entry.get("encoding"),
            layout=entry.get("layout"),
            message=entry.get("message"),
            definitions=_definitions(entry, folder),
            into=entry.get("into"),
            topic=entry.get("topic"),
        )
    except EleaError as error:
        raise ConfigError(where, str(error)) from error


def _decoder_of(entry: Mapping[str, str]) -> str:
    encoding = entry.get("encoding", "")
    named = f"{encoding.partition(';')[0]};{{_: bool}}"
    found = decoder_for(named, "") if encoding else None
    if found is not None:
        return found.decoder
    if encoding.partition(";")[0] == "application/protobuf":
        return "protobuf"
    raise ConfigError("decoder", f"is not clear from the encoding; one of {', '.join(DECODERS)}")


def _definitions(entry: Mapping[str, str], folder: Path) -> bytes | None:
    name = entry.get("definitions")
    if name is None:
        return None
    file = folder / name
    try:
        if file.stat().st_size > DEFAULT_LIMITS.config_len:
            raise ConfigError("definitions", f"longer than {DEFAULT_LIMITS.config_len} octets")
        return file.read_bytes()
    except OSError as error:
        raise ConfigError("definitions", str(error)) from error


def _check_names(told: Mapping[str, object], legal: tuple[str, ...], where: str) -> None:
    for name in told:
        if name not in legal:
            raise ConfigError(f"{where}: {name}", f"no such key; legal are {', '.join(legal)}")
