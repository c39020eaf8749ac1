"""Payloads as text for people: as their encoding says, else as a hex dump.

Whatever a publisher sent, the lines are safe to print, and bounded in depth where JSON is indented.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from elea.decode.formats import Format, format_named, is_layout, is_text
from elea.encoding import Encoding
from elea.operate.text import escape, printable
from elea.zbytes import ZBytes

_DUMP_LEN_MAX: Final = 512  # of a payload that is no text; --json gives all of it
_ROW_LEN: Final = 16
PRETTY_LEN_MAX: Final = 1 << 20


def payload_lines(payload: ZBytes, encoding: Encoding) -> tuple[str, list[str]]:
    r"""A payload for people: its encoding, if that says something, and its lines, safe to print.

    Example:
        >>> payload_lines(ZBytes('{"a": [1]}'), Encoding.APPLICATION_JSON)
        ('application/json', ['{', '  "a": [', '    1', '  ]', '}'])
        >>> payload_lines(ZBytes(b"\x00\xffok"), Encoding.ZENOH_BYTES)
        ('zenoh/bytes, 4 octets', ['0000  00 ff 6f 6b                                      |..ok|'])
    """
    name = escape(str(encoding))
    notation = _notation(payload, encoding)
    text = _text(payload, encoding) if notation is None else notation
    if text is None:
        return f"{name}, {len(payload)} octets", list(_dump(payload.to_bytes()))
    label = "" if encoding in (Encoding.ZENOH_BYTES, Encoding.ZENOH_STRING) else name
    safe = escape if notation is None else printable
    return label, [safe(line) for line in text.split("\n")]


def _name(encoding: Encoding) -> str:
    return str(encoding).partition(";")[0].strip().lower()


def described(encoding: Encoding) -> Format | None:
    """The format of payloads if they, or their encoding, say what they hold; else None."""
    found = format_named(_name(encoding))
    if found is None or found.describes_itself:
        return found
    is_told = found.read_layout is not None and is_layout(str(encoding).partition(";")[2])
    return found if is_told else None


def _notation(payload: ZBytes, encoding: Encoding) -> str | None:
    """The payload as its format shows it; None if it is not of the format, or too long."""
    found = described(encoding)
    if found is None or len(payload) > PRETTY_LEN_MAX:
        return None
    try:
        return found.text_of(payload.to_bytes(), encoding)
    except (ValueError, RecursionError):
        return None


def _text(payload: ZBytes, encoding: Encoding) -> str | None:
    """The payload as text, if its encoding says so, or says nothing and it looks like one."""
    said = is_text(_name(encoding))
    if not said and encoding.id != Encoding.ZENOH_BYTES.id:
        return None
    try:
        text = payload.to_string()
    except ValueError:
        return None
    return text if said or text.replace("\n", "").replace("\t", "").isprintable() else None


def _dump(data: bytes) -> Iterator[str]:
    yield from hex_lines(data[:_DUMP_LEN_MAX])
    if len(data) > _DUMP_LEN_MAX:
        yield f"... {len(data) - _DUMP_LEN_MAX} octets more; --json prints them all"


def hex_lines(data: bytes) -> Iterator[str]:
    """Bytes in hexadecimal, beside what of them is ASCII."""
    for start in range(0, len(data), _ROW_LEN):
        row = data[start : start + _ROW_LEN]
        shown = "".join(chr(octet) if 0x20 <= octet < 0x7F else "." for octet in row)
        yield f"{start:04x}  {row.hex(' '):<47}  |{shown}|"
