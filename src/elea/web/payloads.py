"""Samples and replies as Eclipse Zenoh's REST plugin shows them: JSON, event, HTML, raw.

Octets that strangers published are data and nothing else: what a browser could run is told as
`application/octet-stream`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import quote

from elea.decode import json_text
from elea.encoding import Encoding
from elea.provenance import SourceInfo
from elea.sample import Reply, Sample

ERROR_KEY: Final = "ERROR"
BINARY: Final = "application/octet-stream"
_JSON: Final = (Encoding.APPLICATION_JSON, Encoding.TEXT_JSON, Encoding.TEXT_JSON5)
_TEXT: Final = (Encoding.TEXT_PLAIN, Encoding.ZENOH_STRING)

# Content types that no browser runs, whatever the octets are. All others are told as BINARY.
INERT: Final = frozenset(
    {
        *("text/plain", "text/csv", "text/json", "text/json5", "text/yaml"),
        *("application/json", "application/cbor", "application/cdr", "application/yaml"),
        *("application/protobuf", "application/json-seq", "application/openmetrics-text"),
        *("image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp"),
        *("audio/aac", "audio/flac", "audio/mp4", "audio/ogg", "video/mp4", "video/ogg"),
    }
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A sample or an error reply with octets of its own: it outlives the batch it came in."""

    kind: str
    key: str
    payload: bytes
    encoding: Encoding
    timestamp: str | None
    source: SourceInfo | None = None

    @classmethod
    def of_sample(cls, sample: Sample) -> Entry:
        """A copy of a sample."""
        stamp = sample.timestamp
        return cls(
            sample.kind.name,
            str(sample.key_expr),
            sample.payload.to_bytes(),
            sample.encoding,
            None if stamp is None else str(stamp),
            sample.source_info,
        )

    @classmethod
    def of_reply(cls, reply: Reply) -> Entry:
        """A copy of a reply."""
        if isinstance(reply.result, Sample):
            return cls.of_sample(reply.result)
        error = reply.result
        return cls.of_error(error.payload.to_bytes(), error.encoding)

    @classmethod
    def of_error(cls, payload: bytes, encoding: Encoding = Encoding.TEXT_PLAIN) -> Entry:
        """An error in the place of a reply."""
        return cls(ERROR_KEY, ERROR_KEY, payload, encoding, None)

    def __len__(self) -> int:
        """How much memory it holds, roughly."""
        return len(self.payload) + len(self.key) + 256

    def as_json(self) -> bytes:
        """`{"key": ..., "value": ..., "encoding": ..., "timestamp": ...}`."""
        names = (
            ("key", _dumps(self.key)),
            ("value", _value(self.payload, self.encoding)),
            ("encoding", _dumps(str(self.encoding))),
            ("timestamp", _dumps(self.timestamp)),
        )
        return b"{" + b",".join(b'"%b":%b' % (name.encode(), text) for name, text in names) + b"}"

    def as_event(self) -> bytes:
        """A server-sent event, named by the kind."""
        return b"event: %b\ndata: %b\n\n" % (self.kind.encode(), self.as_json())

    def as_html(self) -> bytes:
        """An item of a definition list, with nothing in it but text."""
        text = self.payload.decode(errors="replace")
        return f"<dt>{escape(self.key)}</dt>\n<dd>{escape(text)}</dd>\n".encode()

    def raw_headers(self) -> dict[str, str]:
        """How its octets are told to a browser: as a file to keep."""
        named = str(self.encoding)
        inert = named.partition(";")[0].strip().lower() in INERT
        printable = named.isascii() and named.isprintable()
        return {
            "content-type": named if inert and printable else BINARY,
            "content-disposition": "attachment",
            "x-zenoh-encoding": quote(named, safe="/;=+.,: "),
        }


def _value(payload: bytes, encoding: Encoding) -> bytes:
    """A payload as JSON: as what its encoding says, or else as base64."""
    if not payload:
        return b"null"
    try:
        if encoding in _JSON:
            return _dumps(json_text.read(payload))
        if encoding in _TEXT:
            return _dumps(payload.decode())
    except (ValueError, RecursionError):
        pass  # it is not what it is said to be
    return b'"%b"' % b64encode(payload)


def _dumps(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()
