"""Columns from payloads, as the option `decode` asks for: where the source meets the decoders."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final, Protocol

import pyarrow as pa

from elea.errors import ConfigError

_DECODERS: Final = "elea.spark.decode"


class Plan(Protocol):
    """What is to be decoded: made on the driver, travels to where rows are read."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a log's rows that it has to be given."""

    def sql_schema(self) -> str:
        """The columns of the rows that come out, for Spark."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with columns in place of payloads."""


def plan_of(options: Mapping[str, str]) -> Plan | None:
    """The plan for options of a source; None if nothing is to be decoded.

    Raises:
        ConfigError: there are no decoders here, or none of that name.
    """
    if not options:
        return None
    try:
        decoders = importlib.import_module(_DECODERS)
    except ModuleNotFoundError as error:
        reason = f"saw {options['decode']!a}; this installation has no decoders: {error}"
        raise ConfigError("option decode", reason) from error
    plan: Plan = decoders.plan_of_options(options)
    return plan
