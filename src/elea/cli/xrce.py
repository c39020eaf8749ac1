"""`elea xrce`: octets of XRCE annotated, the definitions of its messages, and devices."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli import xrce_device
from elea.cli.exit_codes import reading_arguments
from elea.cli.output import (
    Json,
    Painter,
    Style,
    add_color_option,
    escape,
    json_line,
    painter,
    printable,
)
from elea.errors import DecodeError, EleaError, SchemaError

if TYPE_CHECKING:
    from elea.xrce.dsl.interpret import Note, Value

NAME: Final = "xrce"
SUMMARY: Final = "XRCE, the protocol of tiny devices: be one, look for gateways, explain octets"

_HEX: Final = re.compile(r"(?:0x)?[0-9a-fA-F\s:]*")
_ROW_LEN: Final = 10  # octets on one line
_ROWS_MAX: Final = 4  # lines for one field
_TEXT_LEN_MAX: Final = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    verbs = parser.add_subparsers(dest="xrce_verb", metavar="VERB", required=True)
    explain = verbs.add_parser(
        "explain",
        help="show what the octets of a frame mean",
        description="Show what the octets of a frame mean: offset, octets, field, value. Exit code"
        " 1 if they are not all messages.",
    )
    explain.add_argument(
        "hex",
        nargs="*",
        metavar="HEX",
        help="octets as hex digits; blanks, colons and a leading 0x are allowed; - or nothing"
        " reads them from standard input",
    )
    explain.add_argument(
        "--stream",
        action="store_true",
        help="the octets are one direction of a TCP connection: frames behind their lengths",
    )
    explain.add_argument("--json", action="store_true", help="print one JSON object per message")
    add_color_option(explain)
    definitions = verbs.add_parser(
        "schema",
        help="print the definitions of the messages, or check a file of them",
        description="Print the definitions of the messages, or check a file of them. Exit code 1"
        " if the file is refused; the reason says line and column.",
    )
    definitions.add_argument("--check", metavar="FILE", help="check FILE instead of printing")
    xrce_device.configure(verbs)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    if hasattr(args, "xrce_run"):
        status: int = args.xrce_run(args)
        return status
    if args.xrce_verb == "schema":
        return _check(args.check) if args.check is not None else _print_definitions()
    said = " ".join(args.hex)
    if said in ("", "-"):
        data = _octets(sys.stdin.read())
    else:
        with reading_arguments():
            data = _octets(said)
    shown = _Shown(None if args.json else painter(args.color, sys.stdout))
    if not args.stream:
        return int(not shown.frame(data, 0))
    return _explain_stream(data, shown)


def _print_definitions() -> int:
    from elea.xrce.schema.load import text

    sys.stdout.write(text())
    return 0


def _check(path: str) -> int:
    from elea.xrce.dsl.check import check

    try:
        source = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise EleaError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        checked = check(source)
    except SchemaError as error:
        raise EleaError(f"{printable(path)}: {error}") from None
    print(f"{printable(path)}: {len(checked.definitions)} definitions, nothing to complain about")
    return 0


def _octets(said: str) -> bytes:
    if not _HEX.fullmatch(said.strip()):
        raise EleaError(f"{said[:40]!r} are no hex digits")
    digits = re.sub(r"[\s:]", "", said.strip().removeprefix("0x"))
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise EleaError(f"{len(digits)} hex digits are no whole number of octets") from None


def _explain_stream(data: bytes, shown: _Shown) -> int:
    from elea.xrce.framing import FrameStream

    stream = FrameStream()
    stream.receive(data)
    good = True
    try:
        while (frame := stream.next_frame()) is not None:
            good &= shown.frame(frame, len(data) - stream.pending_len - len(frame))
    except DecodeError as error:
        shown.fault(DecodeError(error.reason, len(data) - stream.pending_len + error.offset))
        return 1
    if stream.pending_len:
        reason = f"the stream ends {stream.pending_len} octet(s) into a frame"
        shown.fault(DecodeError(reason, len(data) - stream.pending_len))
        return 1
    return int(not good)


class _Shown:
    """Messages on standard output; as JSON if there is nothing to paint with."""

    def __init__(self, paint: Painter | None) -> None:
        from elea.xrce.dsl.bounds import MESSAGE_BOUNDS
        from elea.xrce.dsl.interpret import Interpreter
        from elea.xrce.schema.load import schema

        self._paint = paint
        self._interpreter = Interpreter(schema(), MESSAGE_BOUNDS)

    def frame(self, data: bytes, offset: int) -> bool:
        """Show the messages of a frame; whether all of it could be read."""
        at = 0
        while at < len(data):
            notes: list[Note] = []
            try:
                value, end = self._interpreter.decode(data, at, notes)
            except DecodeError as error:
                self._notes(notes, data, offset)
                self.fault(DecodeError(error.reason, offset + error.offset))
                return False
            if self._paint is None:
                octets = data[at:end].hex()
                print(json_line({"offset": offset + at, "hex": octets, "message": _json(value)}))
            self._notes(notes, data, offset)
            at = end
        return True

    def fault(self, error: DecodeError) -> None:
        """Show where reading ended, and why."""
        if self._paint is None:
            print(json_line({"error": {"offset": error.offset, "reason": error.reason}}))
        else:
            print(self._paint(f"error: {escape(str(error))}", Style.RED))

    def _notes(self, notes: list[Note], data: bytes, offset: int) -> None:
        if self._paint is not None:
            for note in notes:
                for line in _lines(note, data, offset, self._paint):
                    print(line)


def _lines(note: Note, data: bytes, offset: int, paint: Painter) -> Iterator[str]:
    octets = data[note.start : note.end]
    rows = [octets[at : at + _ROW_LEN] for at in range(0, len(octets), _ROW_LEN)]
    said = "  " * note.depth + paint(note.field, Style.CYAN)
    said += " = " + paint(escape(_text(note.value)), Style.GREEN)
    if note.meaning:
        said += "  " + paint(note.meaning, Style.DIM)
    for number, row in enumerate(rows[:_ROWS_MAX]):
        at = paint(f"{offset + note.start + number * _ROW_LEN:04x}", Style.DIM)
        yield f"{at}  {row.hex(' '):<{3 * _ROW_LEN}}  {'' if number else said}".rstrip()
    if len(rows) > _ROWS_MAX:
        left = len(octets) - _ROWS_MAX * _ROW_LEN
        yield f"      ... {left} more octets"


def _text(value: Value) -> str:
    """A value for people: octets that are text in quotes, others as hex."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        said = value.decode("utf-8")
    except UnicodeDecodeError:
        said = "\0"  # not printable, as what is no text
    shown = repr(said) if value and said.isprintable() else value.hex() or "(empty)"
    return shown if len(shown) <= _TEXT_LEN_MAX else shown[: _TEXT_LEN_MAX - 3] + "..."


def _json(value: Value) -> Json:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    return value
