"""Rows of a decoded table: columns from keys and payloads, and the rows that are bad."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.columns.drift import Drift
from elea.decode.columns.plan import DEAD_COLUMNS, PAYLOAD, ROW, Plan, decode
from elea.decode.columns.plan import Decoded as DecodedRows
from elea.decode.layout import Structure
from elea.errors import EleaError
from elea.keyexpr.template import KeyFormat
from elea.spark.pipelines.definition import Decoded
from elea.store.log.ranges import of_keys
from elea.store.log.schema import RowKind
from elea.store.tables.layout import COLUMNS

EXTRA: Final = "_extra"  # members beyond the bound of columns, as JSON
BAD_COLUMNS: Final = pa.schema([*COLUMNS, *DEAD_COLUMNS])
_KEYS_COUNT: Final = 65_536  # keys whose fields are remembered
_MISFIT: Final = ("key", "the key does not fit the template")


@dataclass(slots=True)
class Split:
    """What a batch of a log became."""

    good: pa.RecordBatch
    bad: pa.RecordBatch | None
    drift: tuple[Drift, ...] = ()


@dataclass(slots=True)
class Silver:
    """Turns rows of a log into rows of one table.

    Args:
        table: What it is.
        drift: Members that were found in payloads before, and are columns now.
    """

    table: Decoded
    drift: Sequence[Drift] = ()
    _plan: Plan = field(init=False)
    _has_extra: bool = field(init=False)
    _format: KeyFormat | None = field(init=False)
    _known: dict[str, dict[str, str] | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        columns = [one for one in self.drift if one.name != EXTRA]
        self._has_extra = len(columns) < len(self.drift)
        self._plan = self.table.plan.widened(columns) if columns else self.table.plan
        self._format = None if self.table.key is None else KeyFormat(self.table.key)

    @property
    def columns(self) -> pa.Schema:
        """Of good rows; those that drifted in come last."""
        known = self.table.plan.schema
        added = [one for one in self._plan.schema if one.name not in known.names]
        extra = [pa.field(EXTRA, pa.string())] if self._has_extra else []
        return pa.schema([*self._columns(known), *added, *extra])

    def _columns(self, decoded: pa.Schema) -> list[pa.Field]:
        envelope = [one for one in COLUMNS if one.name != PAYLOAD]
        return [*envelope, *(pa.field(one, pa.string()) for one in self.table.fields), *decoded]

    def wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a log that are for this table."""
        rows = of_keys(batch, self.table.key_exprs)
        last = RowKind.DELETE if self.table.deletes else RowKind.PUT
        return rows.filter(pc.less_equal(rows.column("kind"), int(last)))

    def split(self, batch: pa.RecordBatch) -> Split:
        """Rows that are wanted, as they are in the table, and those that are bad."""
        misfits = None
        if self._format is not None:
            fits = self._fits(batch.column("key"))
            if not all(fits):
                mask = pa.array(fits).take(batch.column("key").indices)
                misfits = _dead(batch.filter(pc.invert(mask)), *_MISFIT)
                batch = batch.filter(mask)
        found = self._decoded(batch, self._plan)
        good, bad = found.rows, found.dead
        if bad is not None and self.drift:
            # A member that nobody declared does not make a row bad.
            rest = bad.drop_columns([one.name for one in DEAD_COLUMNS])
            again = self._decoded(rest, self.table.plan)
            missing = [one for one in good.schema if one.name not in again.rows.schema.names]
            rows = again.rows
            for one in missing:
                rows = rows.append_column(one, pa.nulls(rows.num_rows, one.type))
            good = pa.concat_batches([good, rows.select(good.schema.names).cast(good.schema)])
            bad = again.dead
        if misfits is not None:
            bad = misfits if bad is None else pa.concat_batches([bad, misfits.cast(bad.schema)])
        return Split(self._with_fields(good), bad, found.drift)

    def _decoded(self, batch: pa.RecordBatch, plan: Plan) -> DecodedRows:
        """Columns in place of payloads, and what is in none of them."""
        if not self._has_extra:
            return decode(batch, plan)
        found = decode(batch, plan, numbered=True)
        extra = self._extra(batch, found.rows.column(ROW).to_pylist())
        found.rows = found.rows.drop_columns([ROW]).append_column(EXTRA, extra)
        if found.dead is not None:
            found.dead = found.dead.drop_columns([ROW])
        return found

    def _extra(self, batch: pa.RecordBatch, rows: Sequence[int]) -> pa.Array:
        keys, encodings = batch.column("key"), batch.column("encoding")
        payloads, kinds = batch.column(PAYLOAD), batch.column("kind")
        texts: list[str | None] = []
        for row in rows:
            rule = self._plan.place_of(keys[row].as_py(), encodings[row].as_py())
            is_put = rule >= 0 and kinds[row].as_py() == RowKind.PUT
            texts.append(self._rest(rule, payloads[row].as_py()) if is_put else None)
        return pa.array(texts, pa.string())

    def _rest(self, rule: int, payload: bytes) -> str | None:
        decoder = self._plan.rules[rule].compiled()
        if not isinstance(decoder.layout, Structure):
            return None
        known = {name.lower() for name, _ in decoder.layout.members}
        try:
            value = decoder.unknown(payload)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        rest = {name: one for name, one in value.items() if str(name).lower() not in known}
        if not rest:
            return None
        text = json.dumps(rest, default=str, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:  # half a character stays the escape that it was
            return json.dumps(rest, default=str)
        return text

    def _with_fields(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._format is None:
            return rows
        keys = _encoded(rows.column("key"))
        values = [self._known.get(key) or {} for key in keys.dictionary.to_pylist()]
        for name in self.table.fields:
            texts = pa.array([one.get(name) for one in values], pa.string())
            rows = rows.append_column(pa.field(name, pa.string()), texts.take(keys.indices))
        return rows

    def _fits(self, keys: pa.DictionaryArray) -> list[bool]:
        """For each key of the dictionary, whether it fits the template."""
        assert self._format is not None
        if len(self._known) > _KEYS_COUNT:
            self._known.clear()
        found = []
        for key in keys.dictionary.to_pylist():
            if key not in self._known:
                try:
                    self._known[key] = self._format.parse(key)
                except EleaError:
                    self._known[key] = None
            found.append(self._known[key] is not None)
        return found


def _encoded(texts: pa.Array) -> pa.DictionaryArray:
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def _dead(rows: pa.RecordBatch, decoder: str, reason: str) -> pa.RecordBatch:
    for column, text in zip(DEAD_COLUMNS, (decoder, reason), strict=True):
        rows = rows.append_column(column, pa.repeat(pa.scalar(text), rows.num_rows))
    return rows
