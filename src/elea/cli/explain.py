"""`elea explain`: any Zenoh bytes, annotated for people or decoded for programs."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.choices import DIALECTS, FORMS
from elea.cli.output import Painter, Style, add_color_option, escape, painter
from elea.cli.pcap import CaptureError, is_capture
from elea.errors import DecodeError, EleaError

if TYPE_CHECKING:
    from elea.cli.capture import Capture, Record
    from elea.wire.conversation import Conversation, Seen
    from elea.wire.dialect import Dialect
    from elea.wire.explain import Form, Line
    from elea.wire.trace import Trace

NAME: Final = "explain"
SUMMARY: Final = "explain Zenoh bytes: offset, octets, field, value, meaning"
PORT: Final = 7447

_HEX: Final = re.compile(r"(?:0x)?[0-9a-fA-F\s:]*")
_FRAMINGS: Final = ("u16", "u32", "datagram", "multicast", "scouting")
_DETAILS: Final = """\
INPUT is one of
  HEX    octets as hex digits; blanks, colons and a leading 0x are allowed
  FILE   a capture (pcap or pcapng), records (JSON lines, also gzipped), hex text, or raw octets
  -      the same from standard input (the default)

Records are JSON objects, one per line, with `hex` and optionally `framing` (u16, u32, datagram,
multicast, scouting), `dir` (i2a or a2i), `scenario` and `conn`: what a handshake agreed and what
fragments held is remembered per scenario and conn.

With --json each record gives one line: {"decoded": {...}, "reencoded": "<hex>"} or
{"error": {"offset": n, "reason": "..."}}. Exit code 1 if anything could not be decoded.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _DETAILS
    parser.add_argument("input", nargs="*", metavar="INPUT", help="HEX, FILE or -")
    parser.add_argument("--json", action="store_true", help="print one JSON object per record")
    parser.add_argument(
        "--as",
        dest="form",
        choices=FORMS,
        help="what loose octets are; by default the first of these that fits",
    )
    parser.add_argument(
        "--dialect",
        choices=DIALECTS,
        default=DIALECTS[0],
        help="how to read what Eclipse Zenoh and the specification lay out differently"
        " (default: eclipse)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        action="append",
        metavar="N",
        help=f"a port that speaks Zenoh in a capture, may be repeated (default: {PORT})",
    )
    add_color_option(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the input; 0 if all of it could be decoded."""
    from elea.cli.capture import Capture
    from elea.wire.dialect import Dialect
    from elea.wire.explain import Form

    dialect = Dialect(args.dialect)
    data, loose = _read_input(args.input)
    out = _JsonPrinter() if args.json else _TextPrinter(painter(args.color, sys.stdout))
    if loose:
        return out.loose(data, Form(args.form) if args.form else None, dialect)
    if is_capture(data):
        return out.capture(data, Capture(frozenset(args.port or [PORT]), dialect))
    return out.records(_records(data, dialect))


# Input.


def _read_input(words: list[str]) -> tuple[bytes, bool]:
    """The octets to explain, and whether they are loose ones rather than a file of records."""
    text = " ".join(words)
    if len(words) == 1 and text != "-" and Path(text).is_file():
        return _sort_out(Path(text).read_bytes())
    if text in ("", "-"):
        if sys.stdin.isatty():
            print("elea: reading hex digits or a capture; end with Ctrl-D", file=sys.stderr)
        data = sys.stdin.buffer.read()
        if not data:
            raise EleaError("no input: give hex digits, a file, or bytes on standard input")
        return _sort_out(data)
    if not _HEX.fullmatch(text):
        raise EleaError(f"{text!r} is neither a file nor hex digits")
    return _from_hex(text), True


def _sort_out(data: bytes) -> tuple[bytes, bool]:
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise EleaError(f"the gzip file is damaged: {error}") from None
    if is_capture(data) or data.lstrip()[:1] == b"{":
        return data, False
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return data, True
    return (_from_hex(text), True) if _HEX.fullmatch(text) else (data, True)


def _from_hex(text: str) -> bytes:
    digits = re.sub(r"[\s:]", "", text.strip().removeprefix("0x"))
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise EleaError(f"{len(digits)} hex digits are no whole number of octets") from None


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65_536:
        raise ValueError(text)
    return port


@dataclass(slots=True)
class _Explained:
    """One record, decoded or not."""

    title: str
    batch: bytes
    seen: Seen | None
    error: EleaError | None
    trace: Trace


def _records(data: bytes, dialect: Dialect) -> Iterator[_Explained]:
    talks: dict[tuple[str, str], Conversation] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            yield _record(line, number, talks, dialect)


def _record(
    line: bytes, number: int, talks: dict[tuple[str, str], Conversation], dialect: Dialect
) -> _Explained:
    from elea.wire.conversation import Conversation, Direction
    from elea.wire.trace import Trace

    trace = Trace()
    title, batch = f"line {number}", b""
    try:
        record = _parse_record(line)
        scenario, conn = str(record.get("scenario", "")), str(record.get("conn", ""))
        framing = _choice(record, "framing", _FRAMINGS, "u16")
        direction = Direction(_choice(record, "dir", ("i2a", "a2i"), "i2a"))
        batch = bytes.fromhex(str(record["hex"]))
        title = " ".join(
            str(part)
            for part in (scenario, conn, direction.value, record.get("seq", ""), framing)
            if part != ""
        )
        talk = talks.setdefault((scenario, conn), Conversation(dialect=dialect))
        if framing == "scouting":
            seen = talk.scouting(batch, trace=trace)
        else:
            seen = talk.batch(batch, direction, bare=framing == "u32" or None, trace=trace)
    except EleaError as error:
        return _Explained(title, batch, None, error, trace)
    return _Explained(title, batch, seen, None, trace)


def _parse_record(line: bytes) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the record is not JSON: {error}", 0) from None
    if not isinstance(record, dict):
        raise DecodeError("a record is a JSON object", 0)
    text = record.get("hex")
    if not isinstance(text, str) or len(text) % 2 or not re.fullmatch(r"[0-9a-fA-F]*", text):
        raise DecodeError("a record needs `hex`: an even number of hex digits", 0)
    return record


def _choice(record: dict[str, object], name: str, legal: tuple[str, ...], default: str) -> str:
    value = record.get(name, default)
    if value not in legal:
        raise DecodeError(f"`{name}` is {value!r}, legal are {', '.join(legal)}", 0)
    return str(value)


# Output.


class _JsonPrinter:
    """One JSON object per record."""

    def loose(self, data: bytes, form: Form | None, dialect: Dialect) -> int:
        from elea.wire.explain import explain

        try:
            _, all_seen = explain(data, form, dialect=dialect)
        except EleaError as error:
            self._print(_error_tree(error))
            return 1
        for seen in all_seen:
            self._print(_seen_tree(seen))
        return 0

    def records(self, records: Iterator[_Explained]) -> int:
        failed = False
        for one in records:
            failed |= one.error is not None
            self._print(_seen_tree(one.seen) if one.seen else _error_tree(one.error))
        return int(failed)

    def capture(self, data: bytes, capture: Capture) -> int:
        failed = False
        try:
            for one in capture.records(data):
                failed |= one.error is not None
                tree = _seen_tree(one.seen) if one.seen else _error_tree(one.error)
                self._print({**_record_tree(one), **tree})
        except CaptureError as error:
            self._print(_error_tree(error))
            return 1
        for problem in capture.problems:
            self._print({"problem": problem})
        return int(failed or bool(capture.problems))

    def _print(self, tree: dict[str, object]) -> None:
        sys.stdout.write(json.dumps(tree) + "\n")


def _seen_tree(seen: Seen) -> dict[str, object]:
    return {"decoded": seen.tree, "reencoded": seen.reencoded.hex()}


def _error_tree(error: EleaError | None) -> dict[str, object]:
    if isinstance(error, DecodeError):
        return {"error": {"offset": error.offset, "reason": error.reason}}
    return {"error": {"offset": 0, "reason": str(error)}}


def _record_tree(record: Record) -> dict[str, object]:
    return {
        "conn": record.conn,
        "dir": record.direction.value,
        "seq": record.sequence,
        "t": round(record.time, 6),
        "framing": record.framing,
        "hex": record.batch.hex(),
    }


class _TextPrinter:
    """An annotated dump."""

    def __init__(self, paint: Painter) -> None:
        self._paint = paint

    def loose(self, data: bytes, form: Form | None, dialect: Dialect) -> int:
        from elea.wire.explain import ExplainError, explain

        try:
            found, all_seen = explain(data, form, dialect=dialect)
        except ExplainError as error:
            for seen in error.seen:
                self._dump(seen)
            self._fault(error, error.trace, error.batch)
            return 1
        for number, seen in enumerate(all_seen):
            self._title(f"{found.value} {number}" if len(all_seen) > 1 else found.value, seen.batch)
            self._dump(seen)
        return 0

    def records(self, records: Iterator[_Explained]) -> int:
        failed = False
        for one in records:
            self._title(one.title, one.batch)
            failed |= self._show(one)
        return int(failed)

    def capture(self, data: bytes, capture: Capture) -> int:
        failed = False
        start: float | None = None
        for one in capture.records(data):
            start = one.time if start is None else start
            title = f"{one.time - start:.6f} {one.source} > {one.target} {one.framing}"
            self._title(title, one.batch)
            failed |= self._show(_Explained(title, one.batch, one.seen, one.error, one.trace))
        if start is None:
            raise EleaError("no Zenoh traffic in the capture; `--port` names the port to follow")
        for problem in capture.problems:
            print(self._paint(f"! {problem}", Style.YELLOW))
        return int(failed or bool(capture.problems))

    def _show(self, one: _Explained) -> bool:
        if one.seen is not None:
            self._dump(one.seen)
            return False
        assert one.error is not None
        self._fault(one.error, one.trace, one.batch)
        return True

    def _title(self, text: str, batch: bytes) -> None:
        octets = f"{len(batch)} octet{'' if len(batch) == 1 else 's'}"
        print(self._paint(f"== {escape(text)}, {octets}", Style.BOLD))

    def _dump(self, seen: Seen) -> None:
        from elea.wire.explain import ROW_LEN, Line, lines

        if seen.unpacked != seen.batch:
            header = seen.batch[:1]
            packed = "LZ4 block" if header[0] & 1 else "not packed"
            meaning = f"{packed}; offsets below count in the {len(seen.unpacked)} octets inside"
            self._line(Line(0, header, 0, "compression header", f"{header[0]}", meaning))
        for line in lines(seen.trace, seen.unpacked):
            self._line(line)
        for message in _reassembled(seen):
            text = json.dumps(message, ensure_ascii=False)
            print(" " * (8 + 3 * ROW_LEN) + self._paint("reassembled ", Style.CYAN) + escape(text))
        print()

    def _fault(self, error: EleaError, trace: Trace, batch: bytes) -> None:
        from elea.wire.explain import lines

        for line in lines(trace, batch):
            self._line(line)
        print(self._paint(f"error: {escape(str(error))}", Style.RED))
        print()

    def _line(self, line: Line) -> None:
        from elea.wire.explain import ROW_LEN

        paint = self._paint
        octets = f"{line.octets.hex(' '):<{3 * ROW_LEN}}"
        text = "  " * line.depth
        if line.field:
            text += paint(escape(line.field), Style.CYAN)
        if line.value:
            text += (" = " if line.field else "") + paint(escape(line.value), Style.GREEN)
        if line.meaning:
            text += "  " + paint(escape(line.meaning), Style.DIM)
        print(f"{paint(f'{line.offset:04x}', Style.DIM)}  {octets}  {text}".rstrip())


def _reassembled(seen: Seen) -> Iterator[object]:
    messages = seen.tree["messages"]
    assert isinstance(messages, list)
    for message in messages:
        if "reassembled" in message:
            yield message["reassembled"]
