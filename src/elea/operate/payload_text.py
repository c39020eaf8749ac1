"""Payloads as text for people: as their encoding says, else as a hex dump.

Whatever a publisher sent, the lines are safe to print, and bounded in depth where JSON is indented.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Final

from elea import cbor
from elea.encoding import Encoding
from elea.operate.cbor_text import diagnose
from elea.operate.text import Json, escape, printable
from elea.zbytes import ZBytes

_DUMP_LEN_MAX: Final = 512  # of a payload that is no text; --json gives all of it
_ROW_LEN: Final = 16
PRETTY_LEN_MAX: Final = 1 << 20
_JSON_DEPTH_MAX: Final = 32  # indentation makes a deep text much longer than it was

# Encodings that are text though their names do not begin with `text/`.
_TEXTS: Final = frozenset(
    {
        "zenoh/string",
        "application/yaml",
        "application/openmetrics-text",
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/sql",
        "application/jsonpath",
        "application/jwt",
        "application/soap+xml",
        "application/yang",
    }
)


def payload_lines(payload: ZBytes, encoding: Encoding) -> tuple[str, list[str]]:
    r"""A payload for people: its encoding, if that says something, and its lines, safe to print.

    Example:
        >>> payload_lines(ZBytes('{"a": [1]}'), Encoding.APPLICATION_JSON)
        ('application/json', ['{', '  "a": [', '    1', '  ]', '}'])
        >>> payload_lines(ZBytes(b"\x00\xffok"), Encoding.ZENOH_BYTES)
        ('zenoh/bytes, 4 octets', ['0000  00 ff 6f 6b                                      |..ok|'])
    """
    name = escape(str(encoding))
    cbor_text = _cbor_text(payload, encoding)
    if cbor_text is not None:
        return name, [printable(line) for line in cbor_text.split("\n")]
    text = _text(payload, encoding)
    if text is None:
        return f"{name}, {len(payload)} octets", list(_dump(payload.to_bytes()))
    pretty = _pretty(text) if is_json(encoding) else None
    shown = text if pretty is None else pretty
    label = "" if encoding in (Encoding.ZENOH_BYTES, Encoding.ZENOH_STRING) else name
    return label, [
        escape(line) if pretty is None else printable(line) for line in shown.split("\n")
    ]


def _name(encoding: Encoding) -> str:
    return str(encoding).partition(";")[0].strip().lower()


def is_json(encoding: Encoding) -> bool:
    name = _name(encoding)
    return name in ("application/json", "text/json") or name.endswith("+json")


def is_cbor(encoding: Encoding) -> bool:
    name = _name(encoding)
    return name == "application/cbor" or name.endswith("+cbor")


def _cbor_text(payload: ZBytes, encoding: Encoding) -> str | None:
    """CBOR in diagnostic notation; None if it is none, or would become too long."""
    if not is_cbor(encoding) or len(payload) > PRETTY_LEN_MAX:
        return None
    try:
        return diagnose(cbor.loads(payload.to_bytes()))
    except ValueError:
        return None


def _text(payload: ZBytes, encoding: Encoding) -> str | None:
    """The payload as text, if its encoding says so, or says nothing and it looks like one."""
    name = _name(encoding)
    said = name.startswith("text/") or name in _TEXTS or is_json(encoding)
    if not said and encoding.id != Encoding.ZENOH_BYTES.id:
        return None
    try:
        text = payload.to_string()
    except ValueError:
        return None
    return text if said or text.replace("\n", "").replace("\t", "").isprintable() else None


def _pretty(text: str) -> str | None:
    """JSON indented; None if it is none, or would become too long."""
    if len(text) > PRETTY_LEN_MAX:
        return None
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value, indent=2, ensure_ascii=False)


def parse_json(text: str) -> Json:
    """The value of a JSON text; ValueError if it is none, or deeper than is good to print."""
    value: Json = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    if not _is_shallow(value, _JSON_DEPTH_MAX):
        raise ValueError("too deep")
    return value


def _no_number(text: str) -> Json:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):  # JSON could not say it again
        raise ValueError(text)
    return value


def _is_shallow(value: Json, depth: int) -> bool:
    if isinstance(value, list):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value)
    if isinstance(value, dict):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value.values())
    return True


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
