"""Where the types of CDR are known: rows of a log, or what bridges of DDS answer now (D-875).

The layout of a type comes from `@schema/cdr/**`, which a bridge publishes beside its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from elea.decode.type_schemas import KEY_EXPR, TypeSchemas, type_of_encoding
from elea.errors import StoreError
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
