"""Samples of DDS as columns, by the schemas that a bridge published beside them (D-875, D-878).

The layout of a type comes from `@schema/cdr/**`: rows of the log, if they were recorded with the
samples, or what bridges answer now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from elea.decode.layout import parse_layout
from elea.decode.property_list import SERIALIZED_KEY, read_properties
from elea.decode.type_schemas import KEY_EXPR, TypeSchemas, type_of_encoding
from elea.errors import StoreError
from elea.spark.decode.slices import LayoutDecoder
from elea.spark.decode.types import checked
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind

TIMEOUT_S: Final = 2.0


def recorded_schemas(log: Path | str) -> TypeSchemas:
    """Return the schemas that a log has; none if it is not a directory here."""
    found = TypeSchemas()
    try:
        reader = LogReader(Path(log))
    except (StoreError, OSError):
        return found
    rows: list[dict[str, Any]] = []
    for batch in reader.select(KEY_EXPR, columns=["key", "kind", "payload", "hlc", "recv_ts"]):
        rows += batch.to_pylist()
    rows.sort(key=lambda row: (row["hlc"] or 0, row["recv_ts"]))
    for row in rows:
        if row["kind"] == RowKind.PUT:
            found.add(row["payload"])
    return found


def types_of_keys(log: Path | str, key_exprs: Sequence[str]) -> set[str]:
    """Return the types that the newest samples of some keys in a log are of."""
    found: set[str] = set()
    try:
        reader = LogReader(Path(log))
    except (StoreError, OSError):
        return found
    for key_expr in key_exprs:
        for batch in reader.latest_of(key_expr):
            encodings = batch.column("encoding").to_pylist()
            found |= {name for one in encodings if (name := type_of_encoding(one)) is not None}
    return found


def published_schemas(connect: str) -> TypeSchemas:
    """Return the schemas that bridges answer with at some endpoints, asked for two seconds."""
    # Here: a plan for a local log opens no session.
    from elea.config.config import Config
    from elea.session.session import open as open_session

    config = Config()
    endpoints = ", ".join(f'"{one.strip()}"' for one in connect.split(","))
    for path, value in (
        ("mode", '"client"'),
        ("scouting/multicast/enabled", "false"),
        ("connect/endpoints", f"[{endpoints}]"),
    ):
        config.insert_json5(path, value)
    found = TypeSchemas()
    with open_session(config) as session:
        for reply in session.get(KEY_EXPR, timeout=TIMEOUT_S):
            if reply.ok is not None:
                found.add(reply.ok.payload.to_bytes())
    return found


def ended_instances(
    batch: pa.RecordBatch,
    rows: Iterable[int],
    key_layout: str,
    columns: pa.Schema,
    into: str | None,
) -> tuple[list[int], dict[str, pa.Array]]:
    """Return the deletions that say which instance ended, and the columns of its key (D-878).

    Args:
        batch: Rows of a log.
        rows: Which of them may be deletions of the rule's topic.
        key_layout: Of serialised keys.
        columns: Of the rule's payloads.
        into: As `Rule` has it.
    """
    if "attachment" not in batch.schema.names:
        return [], {}
    kinds, attachments = batch.column("kind"), batch.column("attachment")
    keys: dict[int, bytes] = {}
    for row in rows:
        octets = attachments[row].as_py()
        if kinds[row].as_py() != RowKind.DELETE or octets is None:
            continue
        with suppress(ValueError):  # not from a bridge
            key = read_properties(octets).get(SERIALIZED_KEY)
            if key is not None:
                keys[row] = key
    if not keys:
        return [], {}
    decoder = LayoutDecoder(checked(parse_layout(key_layout)), cdr=True)
    outcome = decoder.decode(pa.array(list(keys.values()), pa.binary()))
    numbers = list(keys)
    taken = [numbers[index] for index in outcome.rows.to_pylist()]
    values = outcome.values.to_pylist()
    if into is not None:
        values = [{into: one} for one in values]
    return taken, {
        column.name.lower(): pa.array([one.get(column.name) for one in values], column.type)
        for column in columns
    }
