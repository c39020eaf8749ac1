"""Any bytes as an annotated dump: offset, octets, field, value, meaning.

The lines come from the trace of the decoder itself, so the dump shows what was decoded and how far
a malformed batch was understood. Printing them is the caller's business; texts from the network are
not escaped here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from elea.errors import DecodeError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.records import dataclass
from elea.wire import framing
from elea.wire.batches import describe_network
from elea.wire.buffer import Reader
from elea.wire.codec import decode_network, encode_one
from elea.wire.conversation import Conversation, Direction, Seen
from elea.wire.dialect import Dialect
from elea.wire.extensions import Tree
from elea.wire.trace import Note, Trace

ROW_LEN: Final = 10  # octets on one line
ROWS_MAX: Final = 4  # lines for one field; a payload may be megabytes
_TEXT_FIELDS: Final = (
    "key suffix",
    "parameters",
    "payload",
    "attachment",
    "locator",
    "region name",
    "encoding schema",
    "user",
    "query payload",
)
_ID_FIELDS: Final = ("zid", "timestamp id")


class Form(Enum):
    """What loose bytes are taken for."""

    STREAM = "stream"  # batches, each behind its u16le length
    BATCH = "batch"  # one batch without its length
    NETWORK = "network"  # one network message
    SCOUTING = "scouting"  # one scouting datagram


@dataclass(slots=True)
class Line:
    """One line of a dump; `field` is empty when it continues the one above."""

    offset: int
    octets: bytes
    depth: int
    field: str
    value: str = ""
    meaning: str = ""


def lines(trace: Trace, data: bytes) -> Iterator[Line]:
    """The dump of what a trace recorded over `data`."""
    for note in trace.notes:
        octets = data[note.start : note.stop]
        yield Line(note.start, octets[:ROW_LEN], note.depth, note.field, _value(note), note.meaning)
        shown = min(len(octets), ROW_LEN * ROWS_MAX)
        for at in range(ROW_LEN, shown, ROW_LEN):
            yield Line(note.start + at, octets[at : at + ROW_LEN], note.depth, "")
        if len(octets) > shown:
            yield Line(
                note.start + shown, b"", note.depth, "", f"... {len(octets) - shown} octets more"
            )


class ExplainError(DecodeError):
    """Bytes that are not what they were taken for, and what was understood before the fault.

    `offset` counts from the start of all the bytes; `trace` and `batch` are those of the batch in
    which the fault lies, `seen` the batches before it.
    """

    def __init__(
        self, reason: str, offset: int, trace: Trace, batch: bytes, seen: list[Seen]
    ) -> None:
        super().__init__(reason, offset)
        self.trace = trace
        self.batch = batch
        self.seen = seen

    @property
    def understood(self) -> int:
        """How many octets were decoded before the fault."""
        before = sum(len(one.batch) for one in self.seen)
        return before + max((note.stop for note in self.trace.notes), default=0)


def explain(
    data: bytes,
    form: Form | None = None,
    *,
    dialect: Dialect = Dialect.ECLIPSE,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Form, list[Seen]]:
    """Decode loose bytes, as `form` or as the first form that fits.

    Args:
        data: The bytes.
        form: What they are. None tries a stream, a batch, a network message, a scouting datagram.
        dialect: Which reading of the protocol.
        limits: The bounds to decode with.

    Returns:
        The form, and one entry per batch.

    Raises:
        ExplainError: if no form fits; it tells how far the form that got furthest went.

    Example:
        >>> form, seen = explain(bytes.fromhex("0100" "04"))
        >>> form.value, seen[0].tree
        ('stream', {'messages': [{'msg': 'KEEP_ALIVE'}]})
    """
    furthest: ExplainError | None = None
    fallback: tuple[Form, list[Seen]] | None = None
    for one in Form if form is None else (form,):
        try:
            found = one, _explain_as(data, one, dialect, limits)
        except ExplainError as error:
            if furthest is None or error.understood > furthest.understood:
                furthest = error
            continue
        if not any(seen.ignored for seen in found[1]):
            return found
        # A form that leaves nothing over is the better guess: scouting and transport share ids.
        fallback = fallback or found
    if fallback is not None and (form is not None or fallback[0] is not Form.SCOUTING):
        return fallback
    assert furthest is not None
    raise furthest


def _explain_as(data: bytes, form: Form, dialect: Dialect, limits: Limits) -> list[Seen]:
    talk = Conversation(dialect=dialect, limits=limits)
    trace = Trace()
    try:
        match form:
            case Form.STREAM:
                return _explain_stream(data, talk)
            case Form.BATCH:
                return [talk.batch(data, Direction.INITIATOR, trace=trace)]
            case Form.SCOUTING:
                return [talk.scouting(data, trace=trace)]
            case Form.NETWORK:
                return [_explain_network(data, dialect, limits, trace)]
    except ExplainError:
        raise
    except DecodeError as error:
        raise ExplainError(error.reason, error.offset, trace, data, []) from None


def _explain_stream(data: bytes, talk: Conversation) -> list[Seen]:
    stream = framing.StreamDecoder()
    stream.feed(data)
    seen: list[Seen] = []
    trace = Trace()
    batch: bytes | None = b""
    start = 0
    try:
        while True:
            start = stream.offset
            batch = stream.next_batch()
            if batch is None:
                break
            start += framing.PREFIX_LEN
            trace = Trace()
            seen.append(talk.batch(batch, Direction.INITIATOR, trace=trace))
        if stream.pending or not stream.offset:
            raise DecodeError("the stream ends inside a batch or its length", stream.pending)
    except DecodeError as error:
        at = error.offset + start if batch is not None else len(data)
        raise ExplainError(error.reason, at, trace, batch or b"", seen) from None
    return seen


def _explain_network(data: bytes, dialect: Dialect, limits: Limits, trace: Trace) -> Seen:
    reader = Reader(data, limits=limits, dialect=dialect, trace=trace)
    message = decode_network(reader)
    reader.finish("the network message")
    tree: Tree = {"messages": [describe_network(message)]}
    return Seen(data, tree, encode_one(message, dialect), trace, data)


def _value(note: Note) -> str:
    value = note.value
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value}" if value < 10 else f"{value} (0x{value:x})"
    if isinstance(value, str):
        return value
    if note.field in _ID_FIELDS:
        # Identifiers are printed most significant octet first (wire.md 2.5).
        return value[::-1].hex().lstrip("0")
    if note.field in _TEXT_FIELDS and value:
        try:
            text = value[: ROW_LEN * ROWS_MAX].decode("utf-8")
        except UnicodeDecodeError:
            return f"{len(value)} octets"
        return f'"{text}"' + ("..." if len(value) > ROW_LEN * ROWS_MAX else "")
    return f"{len(value)} octet{'' if len(value) == 1 else 's'}"
