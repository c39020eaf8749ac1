"""The process that answers questions: one after the other, each within hard limits.

    $ python -m elea.store.sql.worker      requests on its input, frames on its output

A function of DuckDB may take memory that no setting of DuckDB bounds, and run without looking up.
So the bounds are those of the operating system: an allocation past the limit fails, and whoever
asked is told; the parent measures time, and kills. Nothing is kept from one question to the next.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import duckdb
import pyarrow as pa

from elea.decode.plain import plain
from elea.errors import EleaError, InvalidValueError, LimitError
from elea.limits import DEFAULT_LIMITS
from elea.store.sql import frames
from elea.store.sql.engine import Answer, Bounds, Engine

_ROWS_COUNT: Final = 64  # that are Python's objects at once
_CPU_GRACE_S: Final = 5  # the parent kills before; this is for a parent that is gone


def main() -> None:
    """Answer until the input ends."""
    requests, output = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is not to be taken for a frame
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _answer({"text": "select 1", "tables": {}, "format": "json", "rows": 1}, _Null(), 2**28)
    start_len = data_len()
    _send(output, frames.READY, b"")
    while (request := _received(requests)) is not None:
        memory_len = int(request["memory_len"])
        _limit(start_len + frames.allowance(memory_len), float(request["time_s"]))
        goes_on = _answer(request, output, memory_len)
        goes_on = goes_on and data_len() < start_len + memory_len // 4
        if not goes_on:  # memory that is not given back would be missing to the next question
            return
        _send(output, frames.READY, b"")


def data_len() -> int:
    """The private memory of this process, as the limit counts it; 0 where that is not told."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def _limit(memory_len: int, time_s: float) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_len, hard))
    used_s = time_of(resource.getrusage(resource.RUSAGE_SELF))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used_s + time_s) + _CPU_GRACE_S, hard))


def time_of(usage: resource.struct_rusage) -> float:
    """Processor time, in seconds."""
    return usage.ru_utime + usage.ru_stime


def _received(requests: BinaryIO) -> dict[str, Any] | None:
    head = requests.read(frames.LENGTH.size)
    if len(head) < frames.LENGTH.size:
        return None
    request: dict[str, Any] = json.loads(requests.read(*frames.LENGTH.unpack(head)))
    return request


def _answer(request: Mapping[str, Any], output: BinaryIO | _Null, memory_len: int) -> bool:
    """Answer one question; False if the process is not to be used again."""
    try:
        tables = {name: Path(path) for name, path in request["tables"].items()}
        bounds = Bounds(int(request["rows"]), float(request.get("time_s", 60)), memory_len)
        answer = Engine(tables).ask(str(request["text"]), bounds)
        try:
            is_cut = _send_rows(answer, request, output)
        finally:
            answer.close()
    except BaseException as error:  # of which most are the question's
        kind, detail, goes_on = _told(error, memory_len)
        _send(output, frames.ERROR, json.dumps({"kind": kind, "detail": detail}).encode())
        return goes_on
    _send(output, frames.DONE, json.dumps({"cut": is_cut}).encode())
    return True


def _send_rows(answer: Answer, request: Mapping[str, Any], output: BinaryIO | _Null) -> bool:
    """Send the rows; whether there are more than may be sent."""
    is_arrow = request["format"] == "arrow"
    if is_arrow:
        _send(output, frames.SCHEMA, written([], answer.schema))
    left = int(request.get("rows_len", DEFAULT_LIMITS.sql_rows_len))
    for piece, rows_count in _arrow(answer) if is_arrow else _json(answer):
        left -= len(piece)
        if left < 0:
            return True
        _send(output, frames.PIECE, frames.ROWS.pack(rows_count) + piece)
    return answer.is_cut


def _told(error: BaseException, memory_len: int) -> tuple[str, str, bool]:
    """What is told of an error, and whether the process can go on."""
    text = str(error)
    if isinstance(error, MemoryError | pa.ArrowMemoryError):
        return frames.INVALID, frames.too_much_memory(memory_len), False
    if isinstance(error, InvalidValueError | LimitError):
        return frames.INVALID, text, "memory" not in text
    if not isinstance(error, EleaError | OSError | duckdb.Error | pa.ArrowException):
        text = f"{type(error).__name__}: {text}"
    return frames.FAILED, text or type(error).__name__, isinstance(error, EleaError | OSError)


def _json(answer: Answer) -> Iterator[tuple[bytes, int]]:
    """Each row as an object."""
    for batch in answer:
        for first in range(0, batch.num_rows, _ROWS_COUNT):
            for row in batch.slice(first, _ROWS_COUNT).to_pylist():
                yield json.dumps(plain(row), ensure_ascii=False).encode(), 1


def _arrow(answer: Answer) -> Iterator[tuple[bytes, int]]:
    """Each batch as a stream of its own."""
    for batch in answer:
        yield written([batch], batch.schema), batch.num_rows


def written(batches: list[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Batches as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _send(output: BinaryIO | _Null, kind: bytes, content: bytes) -> None:
    output.write(frames.HEAD.pack(kind, len(content)))
    output.write(content)
    output.flush()


class _Null:
    """Where the answer to the first question goes, which only warms up."""

    def write(self, data: bytes) -> None: ...
    def flush(self) -> None: ...


if __name__ == "__main__":
    main()
