"""Series: numbers of the payloads of one key over time, as one answer.

A plot needs four points for each column of pixels, not a reply for each version. So rows are read
in runs with the columns that are needed, and decoded, thinned and checked for losses here.

| parameter | means |
| --- | --- |
| `_series=FIELDS` | paths of numbers, with commas between them; `*`: the first two |
| `_columns=N` | pixels to thin to; 800 without it |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.encoding import Encoding
from elea.errors import SelectorError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.parameters import Parameters
from elea.predicate.projection import value_of
from elea.series import ANY_KEY_EID, Losses, Number, Row, read, shown
from elea.store.historian.selection import Selection
from elea.store.historian.source import Source
from elea.store.log.schema import RowKind, times
from elea.store.rows import encoding_of

SERIES_KEY: Final = "_series"
COLUMNS_KEY: Final = "_columns"
ANY_FIELDS: Final = "*"
ENCODING: Final = Encoding("application/json;elea-series")
_COLUMNS_USUAL: Final = 800
_PAYLOAD: Final = ("payload", "encoding")
_PUBLISHER: Final = ("zid", "eid", "sn")
_FRACTION: Final = 2.0**32  # of a second, in a timestamp


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """What a plot needs of a key."""

    key: str
    fields: tuple[str, ...]
    columns: int
    since: int  # 64 bits of timestamps, as those of a selection
    until: int

    @classmethod
    def of(
        cls, selection: Selection, parameters: Parameters, limits: Limits = DEFAULT_LIMITS
    ) -> SeriesRequest | None:
        """What is asked for; None: a query for versions.

        Raises:
            SelectorError: a parameter is not legal.
        """
        text = value_of(parameters, SERIES_KEY)
        if text is None:
            return None
        if "*" in selection.key_expr or not selection.all_versions:
            reason = f"{SERIES_KEY} is for the versions of one key: give _time, and no wildcard"
            raise SelectorError(selection.key_expr, 0, reason)
        if selection.predicate is not None or selection.projection is not None:
            raise SelectorError(text, 0, f"{SERIES_KEY} takes neither _filter nor _project")
        fields = () if text == ANY_FIELDS else tuple(filter(None, text.split(",")))
        if len(fields) > limits.series_fields_count:
            raise SelectorError(text, 0, f"expected at most {limits.series_fields_count} fields")
        width = value_of(parameters, COLUMNS_KEY) or str(_COLUMNS_USUAL)
        most = limits.series_columns_count
        if not (width.isascii() and width.isdecimal() and 0 < int(width[:9]) <= most):
            raise SelectorError(width, 0, f"{COLUMNS_KEY} is a number from 1 to {most}")
        return cls(selection.key_expr, fields, int(width), selection.since, selection.until)


def answer(
    sources: Sequence[Source],
    asked: SeriesRequest,
    now_s: float,
    *,
    is_wanted: Callable[[], bool] = lambda: True,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Json] | None:
    """The points of a key and what was lost of it; None: no version, or nobody waits any more."""
    newest = _Newest(limits)
    for source in sources:
        for batch in source.select(asked.key, asked.since, asked.until):
            if not is_wanted():
                return None
            if batch.num_rows:
                newest.add(_puts(batch, asked.key))
    found = newest.finish()
    if not found:
        return None
    every = -(-len(found) // limits.series_decoded_count)
    rows = (Row(one[0] / _FRACTION, one[2], encoding_of(one[3]), one[4]) for one in found)
    first_s, last_s = found[0][0] / _FRACTION, found[-1][0] / _FRACTION
    since = asked.since / _FRACTION if asked.since else first_s
    until = max(min(asked.until / _FRACTION, max(now_s, last_s)), since + 1e-3)
    plotted = read(rows, asked.fields, Losses(), every)
    part = shown(plotted, since, until, asked.columns, whole=True)
    return {**part, "rows": len(found), "cut": newest.is_cut, "thin": every}


_Found = tuple[int, str, bytes, str, Number | None]  # time, row, payload, encoding, number


class _Newest:
    """The newest versions that fit, each once."""

    def __init__(self, limits: Limits) -> None:
        self._count_max = limits.historian_rows_count
        self._len_max = limits.historian_rows_len
        self._found: list[_Found] = []
        self._len = 0
        self.is_cut = False

    def add(self, rows: Iterable[_Found]) -> None:
        """More of them, in any order."""
        for one in rows:
            self._found.append(one)
            self._len += len(one[2])
        if len(self._found) > 2 * self._count_max or self._len > 2 * self._len_max:
            self._cut()

    def finish(self) -> list[_Found]:
        """All that fit, in order of time."""
        self._cut()
        return self._found

    def _cut(self) -> None:
        """Keep the newest; a row that two sources have counts once."""
        self._found.sort(key=itemgetter(0, 1))
        kept: list[_Found] = []
        length = 0
        for one in reversed(self._found):
            if kept and kept[-1][:2] == one[:2]:
                continue
            length += len(one[2])
            if len(kept) >= self._count_max or length > self._len_max:
                self.is_cut = True
                break
            kept.append(one)
        kept.reverse()
        self._found, self._len = kept, sum(len(one[2]) for one in kept)


def _puts(batch: pa.RecordBatch, key: str) -> Iterator[_Found]:
    is_put = pc.equal(batch.column("kind"), int(RowKind.PUT))
    wanted = pc.and_(is_put, pc.equal(batch.column("key").dictionary_decode(), key))
    rows = batch.append_column("time", times(batch)).filter(wanted)
    columns = [rows.column(name).to_pylist() for name in ("time", *_PAYLOAD, *_PUBLISHER)]
    places = [rows.column(name).to_pylist() for name in ("log", "shard", "seq")]
    for (time, payload, encoding, zid, eid, sn), place in zip(
        zip(*columns, strict=True), zip(*places, strict=True), strict=True
    ):
        number = None
        if zid is not None and eid is not None and sn is not None and eid < ANY_KEY_EID:
            number = (zid, eid), sn
        yield time, "{}/{}/{:020}".format(*place), payload, encoding, number
