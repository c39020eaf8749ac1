"""What tables of a log were handed, beyond what they say themselves.

A batch without a row for a table does not change that table, as each change costs a commit; only
one batch in some is noted in it. So it lags behind what it was handed. While a query goes on, its
checkpoint knows better. When the tables of a pipeline change, another query begins, where the table
ends that is most behind: with a log that trims what was consumed, before the first row there is.

So there is a file beside the checkpoints: by table, up to where it was handed the log, for the ends
that the table itself had then. It counts only if the table still has these. A query that begins
goes by it only if the definition of the table is the same. A file that is lost costs that rows are
read again; a table whose rows in between may be missing takes no others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from elea.atomic_file import replace_text
from elea.spark.pipelines import travel
from elea.spark.pipelines.definition import OWN, Archive, Decoded
from elea.store.tables.files import Part

_FILE: Final = "handed.json"

Ends = Mapping[int, int]  # by shard, the number after the last row


@dataclass(frozen=True, slots=True)
class Handed:
    """What is noted of one table.

    Args:
        definition: A digest of what it is made of.
        log: Of which log this is.
        own: What the table said itself, then,
        ends: and up to where it was handed the log.
    """

    definition: str
    log: str
    own: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)


class HandedFile:
    """The notes of all tables of a pipeline."""

    def __init__(self, storage: str) -> None:
        self._path = Path(storage) / OWN / _FILE
        try:
            told = json.loads(self._path.read_bytes())
            self._tables = {name: Handed(**one) for name, one in told.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._tables = {}

    def ends(
        self, table: Archive | Decoded, log_id: UUID, own: Ends, *, as_defined: bool = False
    ) -> dict[int, int]:
        """Up to where a table was handed a log, if it itself ends at `own`.

        Args:
            as_defined: And is defined as it was then.
        """
        found = dict(own)
        noted = self._tables.get(table.name)
        if noted is None or noted.own != _texts(own) or noted.log != str(log_id):
            return found
        if as_defined and noted.definition != _digest(table):
            return found
        for shard, end in noted.ends.items():
            found[int(shard)] = max(found.get(int(shard), 0), end)
        return found

    def note(self, table: Archive | Decoded, parts: Sequence[Part], own: Ends | None) -> bool:
        """A batch was handed to a table. False: only the table itself can say so.

        Args:
            parts: Of the batch, with or without rows.
            own: Where the table ends now; None: where it did before, as it got no rows.
        """
        if not parts:
            return True
        log_id = parts[0].log_id
        noted = self._tables.get(table.name)
        if own is not None:
            noted = Handed(_digest(table), str(log_id), _texts(own), _texts(own))
        if noted is None or (noted.definition, noted.log) != (_digest(table), str(log_id)):
            return False
        ends = dict(noted.ends)
        for part in sorted(parts, key=lambda part: (part.shard, part.first)):
            end = ends.get(str(part.shard))
            if end is None or part.first > end:
                return False
            ends[str(part.shard)] = max(end, part.end)
        self._tables[table.name] = Handed(noted.definition, noted.log, noted.own, ends)
        return True

    def write(self) -> None:
        """Durable before rows are let go that tables were handed, and do not say so themselves."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        tables = {name: asdict(one) for name, one in self._tables.items()}
        is_ahead = any(one.ends != one.own for one in self._tables.values())
        replace_text(self._path, json.dumps(tables), durable=is_ahead)


def _digest(table: Archive | Decoded) -> str:
    return hashlib.sha256(json.dumps(travel.to_json(table)).encode()).hexdigest()[:32]


def _texts(ends: Ends) -> dict[str, int]:
    return {str(shard): end for shard, end in sorted(ends.items())}
