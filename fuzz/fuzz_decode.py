"""Fuzz payload decoders: any payload becomes columns, or a bad row with a reason.

The first byte chooses the decoder, the rest is cut at line feeds into payloads of one batch, with a
sound one among them, which must be there afterwards whatever the others are.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from elea.decode.columns.plan import Plan, decode
from elea.spark.decode import Rule

_LAYOUT = "{a: i32, s: string, l: [f64], o: {b: bool}}"
_PLANS: list[tuple[Plan, bytes]] = [
    (Plan((Rule(decoder="json", layout=_LAYOUT),)), b'{"a": 7}'),
    (Plan((Rule(decoder="json"),)), b'{"a": 7}'),
    (Plan((Rule(decoder="cbor", layout=_LAYOUT),)), b"\xa1\x61a\x07"),
    (Plan((Rule(decoder="cbor"),)), b"\xa1\x61a\x07"),
    (Plan((Rule(decoder="text", layout="i64"),)), b"7"),
    (Plan((Rule(decoder="cdr", layout="{a: i32}"),)), b"\0\1\0\0" + struct.pack("<i", 7)),
    (Plan((Rule(decoder="serialized", layout="(i32, string)"),)), struct.pack("<i", 7) + b"\1x"),
]
SEEDS = [
    b'\0{"a": 1, "s": "x", "l": [1, 2.5, null], "o": {"b": true}}\n{"a": 1e400}\n{"a"\n[]',
    b'\1{"a": {"a": {"a": [[[[]]]]}}, "b": "\\ud800", "c": 18446744073709551616}\nnull\n"\xff"',
    b"\2\xa3\x61a\x1a\xff\xff\xff\xff\x61s\x62xy\x61l\x82\xfb\x7f\xf8\0\0\0\0\0\0\xf9\x3c\0\n\xbf",
    b"\3\x9f\x9f\x9f\x9f\xff\n\x5f\x41a\xff\n\xc2\x49\1\0\0\0\0\0\0\0\0\n\xa1\x61a\xf7",
    b"\x04 21 \n9223372036854775808\n-0\n1_0\n\xd9\xa1",
    b"\5\0\1\0\0\7\0\0\0\n\0\0\0\0\0\0\0\7\n\0\1\0\0\n\0\7\0\0\1\0\0\0",
    b"\6\7\0\0\0\3abc\n\7\0\0\0\xff\xff\xff\xff\x0f\n\7\0\0\0",
]

# What does not grow with the input: schemas and buffers of Arrow, which are Python objects here.
MEMORY_ALLOWANCE = 256 * 1024
SHORT_RUNS = 400


def one_input(data: bytes) -> None:
    plan, sound = _PLANS[(data[0] if data else 0) % len(_PLANS)]
    payloads = [*data[1:].split(b"\n"), sound]
    count = len(payloads)
    rows = {
        "key": pa.array(["lab/a"] * count),
        "kind": pa.array([0] * count, pa.int8()),
        "encoding": pa.array(["application/x"] * count),
        "payload": pa.array(payloads, pa.binary()),
    }
    decoded = decode(pa.RecordBatch.from_pydict(rows), plan)
    bad = [] if decoded.dead is None else decoded.dead["reason"].to_pylist()
    assert decoded.rows.num_rows + len(bad) == count
    assert all(bad)
    decoded.rows.validate(full=True)
    assert decoded.rows.num_rows >= 1, bad  # one bad payload must not take the sound one with it
