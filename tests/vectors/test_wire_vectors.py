"""Octets of real nodes: each batch decodes to its tree and is written back as it came."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest
from tests.vectors.loader import Record, WorkedExample, captures, load, worked_examples

from elea.wire import compression
from elea.wire.batches import decode_batch, decode_scouting, encode_batch, encode_scouting
from elea.wire.codec import BatchDecoder
from elea.wire.conversation import Conversation, Direction, Seen
from elea.wire.trace import Note, Trace

RECORDS_IN_ALL = 2_257
LEFT_AS_OCTETS = {"extension value", "counters"}  # proofs of Auth, counters of Shm


@pytest.mark.parametrize("name", captures())
def test_capture(name: str) -> None:
    conversations: dict[str, Conversation] = defaultdict(Conversation)
    for record in load(name):
        seen = _decode(conversations[record.conn], record)
        where = f"{name} {record.conn} {record.dir} #{record.seq} {record.octets[:64].hex()}"
        assert _text(seen.tree) == _text(record.decoded), where
        assert seen.reencoded == record.octets, where
        # Untraced decoders take other paths through the compiled modules.
        assert _rewritten_untraced(seen, record) == seen.unpacked, where


def test_no_record_is_overlooked() -> None:
    assert sum(len(load(name)) for name in captures()) == RECORDS_IN_ALL


@pytest.mark.parametrize("example", worked_examples(), ids=lambda example: example.name)
def test_worked_example(example: WorkedExample) -> None:
    data = compression.unpack(example.octets) if example.compressed else example.octets
    trace = Trace()
    if example.framing == "scouting":
        assert encode_scouting(decode_scouting(data, trace=trace)) == data
    else:
        decoder = BatchDecoder(data, trace=trace, bare=example.framing == "u32")
        assert encode_batch(iter(decoder.next, None)) == data
    if not example.compressed:
        _compare(trace.notes, dict(example.fields))


def test_every_worked_example_is_here() -> None:
    numbers = [example.name.split()[0] for example in worked_examples()]
    assert sorted(set(numbers), key=lambda n: int(n[3:])) == [f"11.{n}" for n in range(1, 39)]
    assert len(numbers) == 63


def _decode(conversation: Conversation, record: Record) -> Seen:
    if record.framing == "scouting":
        return conversation.scouting(record.octets)
    direction = Direction(record.dir)
    # The converse does not hold: Eclipse sends its last CLOSE twice, the second time as before.
    assert record.framing != "u32" or conversation.low_latency(direction)
    return conversation.batch(record.octets, direction)


def _rewritten_untraced(seen: Seen, record: Record) -> bytes:
    if record.framing == "scouting":
        return encode_scouting(decode_scouting(seen.unpacked))
    return encode_batch(decode_batch(seen.unpacked, bare=record.framing == "u32"))


def _text(tree: dict[str, object]) -> list[str]:
    """A tree as lines, so that a difference is shown where it is."""
    return json.dumps(tree, indent=1, sort_keys=True).splitlines()


def _compare(notes: list[Note], lines: dict[int, str]) -> None:
    """Our notes and a dump's lines start at the same octets and say the same."""
    for note in notes:
        if note.field in LEFT_AS_OCTETS:
            for at in range(note.start + 1, note.stop):
                lines.pop(at, None)
    found = {note.start: note for note in notes if note.stop > note.start}
    assert list(found) == list(lines)
    for at, text in lines.items():
        assert _agrees(found[at], text), f"offset {at}: {found[at]} but {text!r}"


def _agrees(note: Note, text: str) -> bool:
    """Whether a dump's line says what a note says: its number, or its text in quotes."""
    if note.field in LEFT_AS_OCTETS:
        return True
    if number := re.search(r" = (0x[0-9a-f]+|\d+)\b", text):
        return note.value == int(number[1], 0)
    if quoted := re.search(r'"(.*)"$', text):
        return note.value == quoted[1].encode()
    return True
