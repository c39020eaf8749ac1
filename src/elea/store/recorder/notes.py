"""Notes: rows of a log about samples that are not in it, until they are appended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from elea.store.log.schema import RowKind
from elea.store.recorder.rows import Row, drop_row


class Notes:
    """Gaps and drops that no row tells yet. Under the book's lock.

    Args:
        key: Under which drops are recorded.
        count_max: Gap rows that may wait; more displace the oldest.
    """

    def __init__(self, key: str, count_max: int) -> None:
        self._key = key
        self._rows: deque[Row] = deque(maxlen=count_max)
        self.drops_count = 0  # samples that were dropped

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def add(self, row: Row) -> None:
        """Queue a row."""
        self._rows.append(row)

    def add_drops(self, count: int) -> None:
        """Count samples that were dropped."""
        self.drops_count += count

    def take(self, received_us: int) -> list[Row]:
        """All rows that are queued, and one for the drops; none is queued any more."""
        rows = list(self._rows)
        self._rows.clear()
        if self.drops_count:
            rows.append(drop_row(self._key, self.drops_count, received_us))
            self.drops_count = 0
        return rows

    def take_back(self, rows: Iterable[Row]) -> None:
        """Queue rows again that could not be appended."""
        for row in rows:
            if row.kind is RowKind.DROP:
                self.drops_count += int(row.payload)
            else:
                self._rows.append(row)
