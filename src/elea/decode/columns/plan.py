"""A plan: the rules for a table, and `decode`, which turns rows with payloads into its rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.columns.dds import ended_instances
from elea.decode.columns.drift import Drift, drift_of, widened
from elea.decode.columns.ros import dead_reason, envelope
from elea.decode.columns.rules import ROS, Rule, decoder_for
from elea.decode.columns.types import quoted, sql_type
from elea.decode.formats import FORMATS
from elea.encoding import NAMES
from elea.errors import ConfigError, LimitError
from elea.limits import DEFAULT_LIMITS
from elea.store.log.schema import POSITION, SCHEMA, RowKind

DEAD_COLUMNS: Final = (pa.field("decoder", pa.string()), pa.field("reason", pa.string()))
ERROR: Final = "decode_error"
PAYLOAD: Final = "payload"

_log: Final = logging.getLogger("elea.decode")

ROW: Final = "_row"
_UNMATCHED: Final = -2
_LOOKED_AT: Final = 16  # payloads of a rule and batch, for members that nobody declared


@dataclass(slots=True)
class Decoded:
    """What a batch became.

    Attributes:
        rows: The columns of the batch less its payloads, and those of the plan.
        dead: Rows that could not be decoded, as they were, with `decoder` and `reason`; or None.
        drift: What payloads hold and the plan does not know.
        unmatched: Encodings that no rule is for, and how many rows had them; these are in `rows`.
    """

    rows: pa.RecordBatch
    dead: pa.RecordBatch | None
    drift: tuple[Drift, ...] = ()
    unmatched: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rules, of which the first that takes a sample decodes it.

    Args:
        rules: In their order.
        unmatched: What becomes of samples without a rule: `keep` them without values, or treat
            them as `dead`.

    Raises:
        ConfigError: two rules give a column different types, or one is a column of the row.
        LimitError: there are too many columns.
    """

    rules: tuple[Rule, ...] = ()
    unmatched: Literal["keep", "dead"] = "keep"

    def __post_init__(self) -> None:
        if self.unmatched not in ("keep", "dead"):
            raise ConfigError("unmatched", f"saw {self.unmatched!a}; legal are keep, dead")
        count = len(self.schema)
        if count > DEFAULT_LIMITS.decode_columns_count:
            raise LimitError("decode_columns_count", count, DEFAULT_LIMITS.decode_columns_count)

    @property
    def schema(self) -> pa.Schema:
        """The columns it adds."""
        taken = {name.lower() for name in (*SCHEMA.names, "shard", "seq", ERROR)}
        found: dict[str, pa.Field] = {}
        for rule in self.rules:
            for column in rule.columns():
                name = column.name.lower()
                if name in taken:
                    reason = f"the row has such a column; put the rule's {rule.decoder} `into` one"
                    raise ConfigError(f"column {column.name}", reason)
                known = found.setdefault(name, column)
                if known != column:
                    reason = f"{known.type} by one rule, {column.type} by another; use `into`"
                    raise ConfigError(f"column {column.name}", reason)
        return pa.schema(list(found.values()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a log's rows that it has to be given."""
        return (*SCHEMA.names, *(column.name for column in POSITION))

    def sql_schema(self) -> str:
        """The columns of `rows`, for Spark."""
        envelope = [column for column in (*SCHEMA, *POSITION) if column.name != PAYLOAD]
        ends = (pa.field(PAYLOAD, pa.binary()), pa.field(ERROR, pa.string()))
        return ", ".join(
            f"{quoted(column.name)} {sql_type(column.type)}"
            for column in (*envelope, *self.schema, *ends)
        )

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Good and bad rows in one batch, as Spark takes them, in their order.

        `payload` and `decode_error` are null but where a payload could not be decoded.
        """
        found = decode(batch, self, numbered=True)
        for one in found.drift:
            _tell(one.name, one.layout, self.rules[one.rule].key_expr or "")
        good = found.rows
        if found.dead is not None:
            good = _with_dead(good, found.dead)
        else:
            count = good.num_rows
            good = good.append_column(PAYLOAD, pa.nulls(count, pa.binary()))
            good = good.append_column(ERROR, pa.nulls(count, pa.string()))
        return _plain(good.drop_columns([ROW]))

    def widened(self, drift: Iterable[Drift]) -> Plan:
        """A plan that also has the columns of what drifted; null in all earlier rows."""
        found = list(drift)
        rules = (
            widened(rule, [one for one in found if one.rule == place])
            for place, rule in enumerate(self.rules)
        )
        return Plan(tuple(rules), self.unmatched)

    def place_of(self, key: str, encoding: str) -> int:
        """The place of the rule for a sample; -1: none."""
        for place, rule in enumerate(self.rules):
            if rule.takes(key, encoding):
                return place
        return -1


@lru_cache(maxsize=DEFAULT_LIMITS.decode_columns_count)
def _tell(name: str, layout: str, keys: str) -> None:
    """Once for each member, as long as it is remembered."""
    _log.warning(
        "payloads of %s hold %a, %s, which no rule declares: it is left out",
        keys or "**",
        name,
        layout,
    )


def decode(batch: pa.RecordBatch, plan: Plan, *, numbered: bool = False) -> Decoded:
    """Columns in place of payloads.

    Args:
        batch: Rows with the columns `key`, `payload`, `encoding` and `kind` at least; only rows of
            the kind `put` have payloads.
        plan: What is in them.
        numbered: Add a last column `_row`, the row of `batch` that each row is from.

    Example:
        >>> from elea.decode.columns.rules import Rule
        >>> batch = pa.RecordBatch.from_pylist([
        ...     {"key": "a", "kind": 0, "encoding": "application/json", "payload": b'{"t": 1.5}'},
        ...     {"key": "b", "kind": 0, "encoding": "application/json", "payload": b"{"}])
        >>> batch = batch.set_column(3, "payload", batch["payload"].cast(pa.binary()))
        >>> found = decode(batch, Plan((Rule(decoder="json", layout="{t: f64}"),)))
        >>> found.rows.to_pylist()
        [{'key': 'a', 'kind': 0, 'encoding': 'application/json', 't': 1.5}]
        >>> found.dead["key"].to_pylist()
        ['b']
    """
    places, unmatched = _places(batch, plan)
    payloads = batch.column(PAYLOAD)
    schema = plan.schema
    nothing = pc.indices_nonzero(pc.equal(places, -1)).cast(pa.int64())
    ended, nothing = _ended(batch, plan, places, nothing)
    parts = [(nothing, _columns(schema, {}, len(nothing))), *ended]
    dead: dict[int, tuple[str, str]] = {}
    drift: list[Drift] = []
    if plan.unmatched == "dead":
        lost = pc.indices_nonzero(pc.equal(places, _UNMATCHED)).to_pylist()
        encodings, keys = batch.column("encoding"), batch.column("key")
        for row in lost:
            reason = dead_reason(keys[row].as_py()) or f"no decoder for {encodings[row].as_py()}"
            dead[row] = ("", reason[:200])
    else:
        kept = pc.indices_nonzero(pc.equal(places, _UNMATCHED)).cast(pa.int64())
        parts.append((kept, _columns(schema, {}, len(kept))))
    for place, rule in enumerate(plan.rules):
        rows = pc.indices_nonzero(pc.equal(places, place)).cast(pa.int64())
        if len(rows) == 0:
            continue
        rows, some = _short(rows, payloads, rule, dead)
        decoder = rule.compiled()
        outcome = decoder.decode(some)
        for row, reason in outcome.failed.items():
            dead[rows[row].as_py()] = (rule.decoder, reason[:500])
        values = _named(outcome.values, rule)
        if rule.decoder == ROS:
            values |= envelope(batch.take(rows.take(outcome.rows)), rule.topic, rule.nodes)
        parts.append((rows.take(outcome.rows), _columns(schema, values, len(outcome.rows))))
        drift += drift_of(place, decoder, some[:_LOOKED_AT])
    return Decoded(
        _rows(batch, parts, schema, numbered=numbered),
        _dead(batch, dead, numbered=numbered),
        tuple(drift),
        unmatched,
    )


def _ended(
    batch: pa.RecordBatch, plan: Plan, places: pa.Array, nothing: pa.Array
) -> tuple[list[tuple[pa.Array, list[pa.Array]]], pa.Array]:
    """Deletions of DDS instances with the columns of their keys; and the rows that are left.

    A deletion names no type: it is that of the puts of its key, or of the only rule there is.
    """
    keyed = [place for place, rule in enumerate(plan.rules) if rule.key_layout is not None]
    if not keyed or not len(nothing):
        return [], nothing
    keys = batch.column("key")
    mine: dict[int, list[int]] = {}
    for row in nothing.to_pylist():
        puts = pc.filter(places, pc.and_(pc.equal(keys, keys[row]), pc.greater_equal(places, 0)))
        found = keyed if not len(puts) else [puts[0].as_py()]
        takers = [one for one in found if plan.rules[one].takes_key(keys[row].as_py())]
        if len(takers) == 1:
            mine.setdefault(takers[0], []).append(row)
    parts: list[tuple[pa.Array, list[pa.Array]]] = []
    done: set[int] = set()
    for place, rows in mine.items():
        rule = plan.rules[place]
        if rule.key_layout is None:
            continue
        columns = rule.payload_columns()
        taken, values = ended_instances(batch, rows, rule.key_layout, columns, rule.into)
        if taken:
            of_plan = _columns(plan.schema, values, len(taken))
            parts.append((pa.array(taken, pa.int64()), of_plan))
            done |= set(taken)
    left = [row for row in nothing.to_pylist() if row not in done]
    return parts, pa.array(left, pa.int64())


def _places(batch: pa.RecordBatch, plan: Plan) -> tuple[pa.Array, dict[str, int]]:
    """The rule of each row; -1 for rows that are no samples, -2 for those without a rule."""
    keys, encodings = _encoded(batch.column("key")), _encoded(batch.column("encoding"))
    width = max(1, len(encodings.dictionary))
    pairs = pc.add(
        pc.multiply(keys.indices.cast(pa.int64()), pa.scalar(width, pa.int64())),
        encodings.indices.cast(pa.int64()),
    ).dictionary_encode()
    names, kinds = keys.dictionary.to_pylist(), encodings.dictionary.to_pylist()
    known: list[int] = []
    for pair in pairs.dictionary.to_pylist():
        place = plan.place_of(names[pair // width], kinds[pair % width])
        known.append(_UNMATCHED if place < 0 else place)
    places = pa.array(known, pa.int32()).take(pairs.indices)
    is_put = pc.equal(batch.column("kind"), int(RowKind.PUT))
    places = pc.if_else(is_put, places, pa.scalar(-1, pa.int32()))
    lost = encodings.cast(pa.string()).filter(pc.equal(places, _UNMATCHED))
    counts = {entry["values"].as_py(): entry["counts"].as_py() for entry in lost.value_counts()}
    return places, counts


def _encoded(texts: pa.Array) -> pa.Array:
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def _short(
    rows: pa.Array, payloads: pa.Array, rule: Rule, dead: dict[int, tuple[str, str]]
) -> tuple[pa.Array, pa.Array]:
    """The payloads that are not too long, and their rows."""
    some = payloads if len(rows) == len(payloads) else payloads.take(rows)
    lens = pc.binary_length(some)
    long = pc.greater(lens, DEFAULT_LIMITS.decode_len)
    if not pc.any(long).as_py():
        return rows, some
    for row in pc.indices_nonzero(long).to_pylist():
        reason = f"{lens[row].as_py()} octets, {DEFAULT_LIMITS.decode_len} at most"
        dead[rows[row].as_py()] = (rule.decoder, reason)
    short = pc.invert(long)
    return rows.filter(short), some.filter(short)


def _named(values: pa.Array, rule: Rule) -> dict[str, pa.Array]:
    columns = rule.payload_columns()
    if rule.into is not None or not pa.types.is_struct(values.type):
        return {columns[0].name.lower(): values}
    arrays = values.flatten()
    return {column.name.lower(): array for column, array in zip(columns, arrays, strict=True)}


def _columns(schema: pa.Schema, values: dict[str, pa.Array], count: int) -> list[pa.Array]:
    return [
        values[column.name.lower()]
        if column.name.lower() in values
        else pa.nulls(count, column.type)
        for column in schema
    ]


def _rows(
    batch: pa.RecordBatch,
    parts: Sequence[tuple[pa.Array, list[pa.Array]]],
    schema: pa.Schema,
    *,
    numbered: bool,
) -> pa.RecordBatch:
    filled = [(rows, columns) for rows, columns in parts if len(rows)] or [parts[0]]
    rows = pa.concat_arrays([rows for rows, _ in filled])
    columns = [
        pa.concat_arrays([part[number] for _, part in filled]) for number in range(len(schema))
    ]
    if len(filled) > 1:
        order = pc.sort_indices(rows)
        rows, columns = rows.take(order), [column.take(order) for column in columns]
    envelope = batch.drop_columns([PAYLOAD])
    if len(rows) != batch.num_rows or len(filled) > 1:
        envelope = envelope.take(rows)
    found = pa.RecordBatch.from_arrays(
        [*envelope.columns, *columns], schema=pa.schema([*envelope.schema, *schema])
    )
    return found.append_column(ROW, rows) if numbered else found


def _dead(
    batch: pa.RecordBatch, dead: dict[int, tuple[str, str]], *, numbered: bool
) -> pa.RecordBatch | None:
    if not dead:
        return None
    rows = sorted(dead)
    found = batch.take(pa.array(rows, pa.int64()))
    for place, column in enumerate(DEAD_COLUMNS):
        texts = [dead[row][place] for row in rows]
        found = found.append_column(column, pa.array(texts, pa.string()))
    return found.append_column(ROW, pa.array(rows, pa.int64())) if numbered else found


def _with_dead(good: pa.RecordBatch, dead: pa.RecordBatch) -> pa.RecordBatch:
    """Good and bad rows as one batch, in the order of where they are from."""
    count = good.num_rows
    good = good.append_column(PAYLOAD, pa.nulls(count, pa.binary()))
    good = good.append_column(ERROR, pa.nulls(count, pa.string()))
    columns = []
    for column in good.schema:
        name = "reason" if column.name == ERROR else column.name
        if name in dead.schema.names:
            columns.append(dead.column(name).cast(column.type))
        else:
            columns.append(pa.nulls(dead.num_rows, column.type))
    bad = pa.RecordBatch.from_arrays(columns, schema=_nullable(good.schema))
    both = pa.concat_batches([good.cast(_nullable(good.schema)), bad])
    return both.take(pc.sort_indices(both.column(ROW)))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([column.with_nullable(True) for column in schema])


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark takes plain texts, and columns that may hold nulls, only."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    names = batch.schema.names
    return pa.RecordBatch.from_arrays(
        columns,
        schema=pa.schema(
            [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
        ),
    )


def auto_rules() -> tuple[Rule, ...]:
    """Rules for what needs no declaration: values as JSON texts, texts as they are."""
    names = [*NAMES, *(name for one in FORMATS for name in one.encodings if name not in NAMES)]
    found = (decoder_for(name, "") for name in names)
    return tuple(rule for rule in found if rule is not None)
