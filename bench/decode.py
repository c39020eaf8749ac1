"""Payloads to columns, by format: rows per second and core, beside one payload at a time in Python.

    python bench/decode.py            JSON lines
    python bench/decode.py --quick    a tenth of the rows

`rows_s` is `elea.spark.decode.decode` over batches of 20 000 rows, `scalar_rows_s` the same values
by one call per payload of what Python programs use, `json.loads` and `struct.unpack` for two, and
lists that become columns. `ratio` is between the two of one run. `bad` is the share of broken
payloads.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import time
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from elea import cbor
from elea.ext import z_deserialize, z_serialize

from elea.ext import Float64, Int32  # isort: skip
from elea.spark.decode import Plan, Rule, decode
from elea.zbytes import ZBytes

BATCH_ROWS: Final = 20_000
LAYOUT: Final = "{n: i32, x: f64, y: f64, z: f64, frame: string}"
CDR: Final = struct.Struct("<4xi4xdddI10s")
Batches = list[pa.RecordBatch]


def batch_of(encoding: str, payloads: list[bytes]) -> pa.RecordBatch:
    count = len(payloads)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(["fleet/r1/pose"] * count).dictionary_encode(),
            "kind": pa.array([0] * count, pa.int8()),
            "payload": pa.array(payloads, pa.binary()),
            "encoding": pa.array([encoding] * count).dictionary_encode(),
        }
    )


def cbor_of(n: int, x: float) -> bytes:
    floats = b"".join(
        b"\x61" + name + b"\xfb" + struct.pack(">d", x) for name in (b"x", b"y", b"z")
    )
    return b"\xa5\x61n\x1a" + struct.pack(">I", n) + floats + b"\x65frame\x69base_link"


def descriptors() -> tuple[bytes, type]:
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="Pose")
    for number, (name, kind) in enumerate(
        (("n", 5), ("x", 1), ("y", 1), ("z", 1), ("frame", 9)), 1
    ):
        message.field.add(name=name, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made: type = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Pose"))
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), made


def per_second(batches: Batches, run: Callable[[pa.RecordBatch], object]) -> float:
    """Rows per second of processor time; the best of three."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for batch in batches:
            run(batch)
        best = min(best, time.process_time() - started)
    rows_count: int = sum(batch.num_rows for batch in batches)
    return rows_count / best


def scalar(one: Callable[[bytes], tuple[object, ...]]) -> Callable[[pa.RecordBatch], object]:
    def run(batch: pa.RecordBatch) -> object:
        rows = [one(payload.as_py()) for payload in batch.column("payload")]
        return [pa.array(column) for column in zip(*rows, strict=True)]

    return run


def from_json(payload: bytes) -> tuple[object, ...]:
    value = json.loads(payload)
    return value["n"], value["x"], value["y"], value["z"], value["frame"]


def from_cdr(payload: bytes) -> tuple[object, ...]:
    n, x, y, z, _, frame = CDR.unpack(payload)
    return n, x, y, z, frame[:-1].decode()


def from_cbor(payload: bytes) -> tuple[object, ...]:
    item = cbor.loads(payload)
    assert isinstance(item, cbor.Map)
    return tuple(value for _, value in item.pairs)


def from_message(found: Any) -> tuple[object, ...]:
    return found.n, found.x, found.y, found.z, found.frame


def from_serialized(payload: bytes) -> tuple[object, ...]:
    found: tuple[object, ...] = z_deserialize(
        tuple[Int32, Float64, Float64, Float64, str], ZBytes(payload)
    )
    return found


def table_payload(rows: list[tuple[int, float]]) -> bytes:
    out = io.BytesIO()
    xs = [x for _, x in rows]
    table = pa.table(
        {"n": [n for n, _ in rows], "x": xs, "y": xs, "z": xs, "frame": ["base_link"] * len(rows)}
    )
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    count = 1 if parser.parse_args().quick else 10
    rows = [(n, n / 7) for n in range(BATCH_ROWS)]
    set_of, message = descriptors()
    as_json = [
        json.dumps({"n": n, "x": x, "y": x, "z": x, "frame": "base_link"}).encode() for n, x in rows
    ]
    some_bad = [b"{" if n % 1_000 == 0 else payload for n, payload in enumerate(as_json)]
    cases: list[tuple[str, Rule, list[bytes], Callable[[bytes], tuple[object, ...]] | None]] = [
        ("json", Rule(decoder="json", layout=LAYOUT), as_json, from_json),
        ("json, 0.1 % bad", Rule(decoder="json", layout=LAYOUT), some_bad, None),
        ("json, as text", Rule(decoder="json"), as_json, None),
        (
            "cdr",
            Rule(decoder="cdr", layout=LAYOUT),
            [b"\0\1\0\0" + CDR.pack(n, x, x, x, 10, b"base_link\0")[4:] for n, x in rows],
            from_cdr,
        ),
        (
            "serialized",
            Rule(decoder="serialized", layout=LAYOUT),
            [
                bytes(z_serialize((Int32(n), Float64(x), Float64(x), Float64(x), "base_link")))
                for n, x in rows
            ],
            from_serialized,
        ),
        ("cbor", Rule(decoder="cbor", layout=LAYOUT), [cbor_of(n, x) for n, x in rows], from_cbor),
        (
            "protobuf",
            Rule(decoder="protobuf", message="p.Pose", definitions=set_of),
            [message(n=n, x=x, y=x, z=x, frame="base_link").SerializeToString() for n, x in rows],
            lambda payload: from_message(message.FromString(payload)),  # type: ignore[attr-defined]  # made at run time
        ),
        ("text, f64", Rule(decoder="text", layout="f64"), [str(x).encode() for _, x in rows], None),
        (
            "arrow, 100 rows each",
            Rule(decoder="arrow", layout=LAYOUT),
            [table_payload(rows[at : at + 100]) for at in range(0, BATCH_ROWS, 100)],
            None,
        ),
    ]
    for name, rule, payloads, one in cases:
        batches = [batch_of("x/y", payloads)] * count
        plan = Plan((rule,))
        found = decode(batches[0], plan)
        if found.rows.num_rows + (found.dead.num_rows if found.dead else 0) != BATCH_ROWS:
            raise AssertionError(f"{name}: rows are missing")
        scale = BATCH_ROWS / len(payloads)
        line: dict[str, object] = {
            "bench": "decode",
            "format": name,
            "bad": 0 if found.dead is None else found.dead.num_rows / BATCH_ROWS,
            "rows_s": round(scale * per_second(batches, lambda batch: decode(batch, plan))),  # noqa: B023
        }
        if one is not None:
            plain = per_second(batches[:2], scalar(one))
            ours = line["rows_s"]
            assert isinstance(ours, int)
            line |= {"scalar_rows_s": round(plain), "ratio": round(ours / plain, 1)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
