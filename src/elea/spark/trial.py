"""A log of one row, to try Spark with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from elea.store.log.log import Log
from elea.store.log.schema import SCHEMA


def trial_log(directory: Path) -> None:
    """Make a log whose one row is `hello` at `elea/doctor`."""
    row = {"key": "elea/doctor", "payload": b"hello", "encoding": "text/plain"}
    missing = {"kind": 0, "qos": 5, "recv_ts": 0}
    arrays = []
    for field in SCHEMA:
        value = row.get(field.name, missing.get(field.name))
        type_ = pa.string() if pa.types.is_dictionary(field.type) else field.type
        array = pa.array([value], type_)
        arrays.append(array.dictionary_encode() if pa.types.is_dictionary(field.type) else array)
    with Log(directory) as log:
        log.store(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
