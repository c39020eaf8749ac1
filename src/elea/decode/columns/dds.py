"""Ends of DDS instances as columns of their keys (D-878)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa

from elea.decode.columns.slices import LayoutDecoder
from elea.decode.columns.types import checked
from elea.decode.layout import parse_layout
from elea.decode.property_list import SERIALIZED_KEY, read_properties
from elea.store.log.schema import RowKind


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
