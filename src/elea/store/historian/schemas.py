"""Types of CDR payloads by the schemas that logs have, recorded from DDS bridges (D-875)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from elea.decode.layout import Layout
from elea.decode.type_schemas import KEY_EXPR, TypeSchemas, type_of_encoding
from elea.encoding import Encoding
from elea.store.historian.source import Source
from elea.store.log.schema import RowKind

LOOK_NS: Final = 1_000_000_000  # between two looks for a type that was not found
_EVER: Final = (1 << 63) - 1


class RecordedSchemas:
    """The schemas of some sources; looked for when a type is not known, at most once a second."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._schemas = TypeSchemas()
        self._looked_ns: int | None = None

    def layout_of(self, encoding: Encoding) -> Layout | None:
        """Return the type of payloads of an encoding; None: no schema names it."""
        found = self._schemas.layout_of(encoding)
        if found is None and type_of_encoding(str(encoding)) is not None and self._look():
            found = self._schemas.layout_of(encoding)
        return found

    def _look(self) -> bool:
        """Read the schemas of the sources, unless that was done just now."""
        now_ns = time.monotonic_ns()
        if self._looked_ns is not None and now_ns - self._looked_ns < LOOK_NS:
            return False
        self._looked_ns = now_ns
        rows: list[dict[str, Any]] = []
        for source in self._sources:
            for batch in source.select(KEY_EXPR, 0, _EVER):
                rows += batch.select(["kind", "payload", "hlc", "recv_ts"]).to_pylist()
        rows.sort(key=lambda row: (row["hlc"] or 0, row["recv_ts"]))
        for row in rows:
            if row["kind"] == RowKind.PUT:
                self._schemas.add(row["payload"])
        return True
