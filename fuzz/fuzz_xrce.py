"""Fuzz the decoder of XRCE: any octets are messages or one of two errors, by both codecs.

The octets are one frame. The first messages are also read by the interpreter of the schema, which
has to agree; what was decoded is written, read and written again, and must not change any more.
"""

from __future__ import annotations

import json
from pathlib import Path

from elea.errors import DecodeError
from elea.xrce.buffer import Reader, Record
from elea.xrce.decode import read_message
from elea.xrce.dsl.bounds import MESSAGE_BOUNDS
from elea.xrce.dsl.dictionary import dictionary
from elea.xrce.dsl.interpret import Interpreter
from elea.xrce.encode import encode
from elea.xrce.schema.load import schema

_EXAMPLES = Path(__file__).parent.parent / "tests" / "vectors" / "xrce" / "examples.jsonl"
_INTERPRETER = Interpreter(schema(), MESSAGE_BOUNDS)
COMPARED_MAX = 16

SEEDS = [
    *(
        bytes.fromhex(json.loads(line)["hex"])
        for line in _EXAMPLES.read_text(encoding="ascii").splitlines()
    ),
    *dictionary(schema()),
]

# Values of the interpreter are dicts and lists: a declaration of two octets takes 600.
MEMORY_ALLOWANCE = 1024 * 1024


def one_input(data: bytes) -> None:
    reader = Reader(data)
    for number in range(len(data)):
        start = reader.pos
        try:
            message = read_message(reader)
        except DecodeError as error:
            if number < COMPARED_MAX:
                check_error(data, start, error)
            return
        assert isinstance(message, Record)
        if number < COMPARED_MAX:
            value, end = _INTERPRETER.decode(data, start)
            assert end == reader.pos
            written = encode(message)
            assert _INTERPRETER.encode(value) == written
            again = read_message(Reader(written))
            assert encode(again) == written
        if reader.at_end():
            return


def check_error(data: bytes, start: int, error: DecodeError) -> None:
    other: DecodeError | None = None
    try:
        _INTERPRETER.decode(data, start)
    except DecodeError as refused:
        other = refused
    assert other is not None, f"only one codec refuses: {error}"
    assert (type(other), other.offset) == (type(error), error.offset)
