"""Both codecs of XRCE's messages, and their values in one form, for tests that compare them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from elea.errors import DecodeError
from elea.xrce.buffer import Reader, Record
from elea.xrce.decode import read_message
from elea.xrce.dsl.bounds import MESSAGE_BOUNDS
from elea.xrce.dsl.interpret import Interpreter, Value
from elea.xrce.dsl.plan import Plan, attribute
from elea.xrce.encode import encode
from elea.xrce.message_records import Message
from elea.xrce.schema.load import schema

INTERPRETER: Final = Interpreter(schema(), MESSAGE_BOUNDS)
EXAMPLES: Final = [
    json.loads(line)
    for line in (Path(__file__).parent / "vectors" / "xrce" / "examples.jsonl")
    .read_text(encoding="ascii")
    .splitlines()
]
_KINDS: Final = {
    family.name: {number: one.name for number, one in family.members}
    for family in Plan(schema()).families.values()
}

Outcome = tuple[str, object, object]


def octets(example: dict[str, str]) -> bytes:
    return bytes.fromhex(example["hex"])


def decode_all(data: bytes) -> list[Message]:
    """The messages of a frame, by the generated codec."""
    reader = Reader(data)
    found = []
    while not reader.at_end():
        found.append(read_message(reader))
    return found


def plain(value: object) -> object:
    """A value of the interpreter as a record's `tree()` gives it: the body of a family alone."""
    if isinstance(value, dict):
        if len(value) == 2 and "kind" in value:
            [body] = [one for name, one in value.items() if name != "kind"]
            return plain(body)
        return {attribute(name): plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def generated_outcome(data: bytes) -> Outcome:
    """What the generated codec makes of a message: its values and octets, or where it failed."""
    reader = Reader(data)
    try:
        message = read_message(reader)
    except DecodeError as error:
        return type(error).__name__, error.offset, None
    assert isinstance(message, Record)
    return "message", (message.tree(), reader.pos), encode(message)


def interpreted_outcome(data: bytes) -> Outcome:
    """The same by the interpreter."""
    try:
        value, end = INTERPRETER.decode(data)
    except DecodeError as error:
        return type(error).__name__, error.offset, None
    return "message", (plain(value), end), INTERPRETER.encode(value)


def stated(value: Value) -> object:
    """A value of the interpreter in the form of the examples."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [stated(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 2 and "kind" in value:
        kind, body = value.values()
        family = "Message" if "body" in value else "Declaration"
        shown = stated(body)
        assert isinstance(kind, int)
        assert isinstance(shown, dict)
        return {"kind": _KINDS[family][kind], **shown}
    return {
        name: stated(one) for name, one in value.items() if one is not None and one is not False
    }
