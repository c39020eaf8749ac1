"""Samples, replies and queries as text for people or JSON for programs.

A payload is shown as its encoding says: text as it is, JSON and CBOR indented, everything else as a
hex dump. In `--json` lines it is `payload` if it is UTF-8 and `payload_base64` if not, so that
nothing is lost; JSON and CBOR payloads are there once more, parsed, as `value`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from elea.cli.output import (
    Json,
    Painter,
    Style,
    escape,
    json_line,
    octets_json,
    painter,
)
from elea.cli.payloads import option_name
from elea.encoding import Encoding
from elea.ids import EntityGlobalId
from elea.provenance import SampleKind
from elea.sample import Reply, Sample
from elea.session.query import Query
from elea.zbytes import ZBytes


class Printer:
    """Prints what was received, each as soon as it comes."""

    def __init__(self, *, as_json: bool, paint: Painter, stream: TextIO) -> None:
        self._as_json = as_json
        self._paint = paint
        self._stream = stream

    @classmethod
    def of(cls, args: argparse.Namespace) -> Printer:
        """The printer that the options describe, to standard output."""
        return cls(as_json=args.json, paint=painter(args.color, sys.stdout), stream=sys.stdout)

    def sample(self, sample: Sample) -> None:
        """Print a sample."""
        self._print(sample_json(sample), lambda: self._sample_lines(sample, sample.kind.name))

    def token(self, sample: Sample) -> None:
        """Print that a liveliness token came or went."""
        alive = sample.kind is SampleKind.PUT
        shown: dict[str, Json] = {"key_expr": str(sample.key_expr), "alive": alive}
        self._print(
            shown, lambda: self._sample_lines(sample, "ALIVE" if alive else "GONE", body=False)
        )

    def reply(self, reply: Reply) -> None:
        """Print a reply; one that is an error too."""
        shown: dict[str, Json] = {}
        if reply.err is not None:
            shown["error"] = {
                **payload_json("payload", reply.err.payload, reply.err.encoding),
                "encoding": str(reply.err.encoding),
            }
        elif reply.ok is not None:
            shown.update(sample_json(reply.ok))
        shown["replier_id"] = _entity(reply.replier_id)
        self._print(shown, lambda: self._reply_lines(reply))

    def query(self, query: Query) -> None:
        """Print a question."""
        shown: dict[str, Json] = {
            "key_expr": str(query.key_expr),
            "parameters": str(query.parameters),
        }
        if query.payload is not None and query.encoding is not None:
            shown.update(payload_json("payload", query.payload, query.encoding))
            shown["encoding"] = str(query.encoding)
        if query.attachment is not None:
            shown.update(payload_json("attachment", query.attachment, Encoding.ZENOH_BYTES))
        self._print(shown, lambda: self._query_lines(query))

    def record(self, values: dict[str, Json], text: str) -> None:
        """Print values as JSON, or a text that says the same."""
        self._print(values, lambda: iter((text,)))

    def done(self, verb: str, key: str, **counts: int) -> None:
        """Tell programs that something was done; people see that nothing went wrong."""
        if self._as_json:
            self._print({"done": verb, "key_expr": key, **counts}, lambda: iter(()))

    def _print(self, shown: dict[str, Json], lines: Callable[[], Iterator[str]]) -> None:
        text = json_line(shown) if self._as_json else "\n".join(lines())
        self._stream.write(text + "\n")
        self._stream.flush()

    def _sample_lines(self, sample: Sample, title: str, *, body: bool = True) -> Iterator[str]:
        gone = sample.kind is SampleKind.DELETE
        head = self._paint(title, Style.YELLOW if gone else Style.GREEN)
        head += " " + self._paint(escape(str(sample.key_expr)), Style.BOLD)
        if gone or not body:
            yield head
        else:
            yield from self._body_lines(head, sample.payload, sample.encoding)
        if sample.attachment is not None:
            yield from self._body_lines("  attachment", sample.attachment, Encoding.ZENOH_BYTES)
        if sample.timestamp is not None:
            yield f"  timestamp: {escape(sample.timestamp.to_string_rfc3339_lossy())}"

    def _reply_lines(self, reply: Reply) -> Iterator[str]:
        if reply.ok is not None:
            yield from self._sample_lines(reply.ok, reply.ok.kind.name)
        elif reply.err is not None:
            head = self._paint("ERROR", Style.RED)
            yield from self._body_lines(head, reply.err.payload, reply.err.encoding)

    def _query_lines(self, query: Query) -> Iterator[str]:
        head = self._paint("QUERY", Style.CYAN) + " "
        head += self._paint(escape(str(query.selector)), Style.BOLD)
        if query.payload is None or query.encoding is None:
            yield head
        else:
            yield from self._body_lines(head, query.payload, query.encoding)
        if query.attachment is not None:
            yield from self._body_lines("  attachment", query.attachment, Encoding.ZENOH_BYTES)

    def _body_lines(self, head: str, payload: ZBytes, encoding: Encoding) -> Iterator[str]:
        from elea.operate.payload_text import payload_lines  # late: a start has no payload yet

        label, body = payload_lines(payload, encoding)
        if label:
            head += self._paint(f" [{label}]", Style.DIM)
        if len(body) == 1:
            yield f"{head}: {body[0]}"
            return
        yield head + ":"
        for line in body:
            yield "    " + line


def sample_json(sample: Sample) -> dict[str, Json]:
    """A sample for programs."""
    shown: dict[str, Json] = {"key_expr": str(sample.key_expr), "kind": option_name(sample.kind)}
    if sample.kind is SampleKind.PUT:
        shown.update(payload_json("payload", sample.payload, sample.encoding))
        shown["encoding"] = str(sample.encoding)
    if sample.attachment is not None:
        shown.update(payload_json("attachment", sample.attachment, Encoding.ZENOH_BYTES))
    shown["timestamp"] = None if sample.timestamp is None else str(sample.timestamp)
    shown["priority"] = option_name(sample.priority)
    shown["congestion_control"] = option_name(sample.congestion_control)
    shown["express"] = sample.express
    if sample.source_info is not None:
        shown["source_id"] = _entity(sample.source_info.source_id)
        shown["source_sn"] = sample.source_info.source_sn
    return shown


def payload_json(name: str, payload: ZBytes, encoding: Encoding) -> dict[str, Json]:
    """A payload for programs: text if it is UTF-8, else base64; and the value that it describes."""
    from elea.operate.payload_text import described  # late: a start has no payload yet

    octets = payload.to_bytes()
    shown = octets_json(name, octets)
    with contextlib.suppress(ValueError, RecursionError):  # not what it says it is
        if (found := described(encoding)) is not None:
            shown["value"] = found.json_of(octets, encoding)
    return shown


def _entity(entity: EntityGlobalId | None) -> Json:
    return None if entity is None else {"zid": str(entity.zid), "eid": int(entity.eid)}
