"""The option `decode` of sources: by which rules payloads become columns."""

from __future__ import annotations

from collections.abc import Mapping

from elea.decode.columns.plan import Plan, auto_rules
from elea.decode.columns.rules import DDS, Rule
from elea.decode.columns.schemas import AUTO, read_schemas, rules_of_schemas, that_fit
from elea.decode.formats import DECODERS
from elea.decode.type_schemas import TypeSchemas
from elea.errors import ConfigError
from elea.spark.type_sources import published_schemas, recorded_schemas


def plan_of_options(options: Mapping[str, str]) -> Plan:
    """The plan that a source's options `decode` and `schemas` ask for.

    `decode=auto` takes the file's rules first, then the schemas of types that the log has, then
    what encodings say; `dds` is the same without encodings, and asks bridges if the log has no
    schema. The name of another decoder takes it for all payloads that the file does not name.

    Raises:
        ConfigError, LimitError: there is no such decoder, or the file cannot be used.
    """
    declared = read_schemas(options["schemas"]) if "schemas" in options else Plan()
    name = options.get("decode", AUTO)
    if name in (AUTO, DDS):
        found = recorded_schemas(options["log"]) if "log" in options else TypeSchemas()
        schemas = list(found)
        if not schemas and name == DDS and "connect" in options:
            schemas = list(published_schemas(options["connect"]))
        rules = (*declared.rules, *rules_of_schemas(schemas, declared.rules))
        if name == DDS and not rules:
            reason = "the log has no schemas; record '@schema/**' with the topics, or give schemas"
            raise ConfigError("option decode", reason)
        rest = that_fit(Plan(rules), auto_rules()) if name == AUTO else []
        return Plan((*rules, *rest), declared.unmatched)
    if name not in DECODERS:
        legal = ", ".join((AUTO, *DECODERS))
        raise ConfigError("option decode", f"saw {name!a}; legal are {legal}")
    if declared.rules and DECODERS[name].read is None:
        return declared
    return Plan((*declared.rules, Rule(decoder=name)), declared.unmatched)
