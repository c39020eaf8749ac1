"""Shapes: which bytes of a payload decide where its members are and whether they are legal.

Two payloads of one length whose deciding bytes are equal (lengths, texts, truth values, the header)
are both legal messages or neither: all else is numbers, of which every bit pattern is one. So a
payload of a known shape need not be decoded to know that it can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elea.ros.formats.cdr import CODES, HEADER_LEN, order_of
from elea.ros.formats.definitions import Definition, FieldType, Repeat

SPANS_COUNT_MAX: Final = 32
SPANS_LEN_MAX: Final = 4_096

Spans = tuple[tuple[int, int, bytes], ...]  # from, to, and what is there


def shape_of(name: str, definitions: Mapping[str, Definition], payload: bytes) -> Spans | None:
    """The shape of a payload that can be decoded; None: it has too many deciding bytes.

    Example:
        >>> from elea.ros.formats.library import Library
        >>> text = "string name\\nfloat64 x\\nbool ok"
        >>> kind = Library.of_text(text, "a/msg/B").message("a/msg/B")
        >>> shape_of(kind.name, kind.definitions, kind.encode({"name": "n", "x": 1.5, "ok": True}))
        ((0, 10, b'\\x00\\x01\\x00\\x00\\x02\\x00\\x00\\x00n\\x00'), (20, 21, b'\\x01'))
    """
    places = places_of(name, definitions, payload)
    return None if places is None else places.spans


@dataclass(frozen=True, slots=True)
class Places:
    """The shape of a payload, and where its members begin, before their alignment."""

    length: int
    order: str
    spans: Spans
    starts: Mapping[str, int]

    def fit(self, payload: bytes) -> bool:
        """Whether the members of a legal payload begin there, too."""
        if len(payload) != self.length:
            return False
        for start, end, wanted in self.spans:  # noqa: SIM110  # a generator takes twice as long
            if payload[start:end] != wanted:
                return False
        return True


def places_of(name: str, definitions: Mapping[str, Definition], payload: bytes) -> Places | None:
    """The places of a payload that can be decoded; None as for `shape_of`."""
    order = order_of(payload)
    if order is None:
        return None
    walk = _Walk(definitions, payload, "little" if order == "<" else "big")
    try:
        starts = walk.structure(name)
    except _TooManyError:
        return None
    if sum(end - start for start, end in walk.spans) > SPANS_LEN_MAX:
        return None
    spans = tuple((start, end, payload[start:end]) for start, end in walk.spans)
    return Places(len(payload), order, spans, starts)


class _TooManyError(Exception):
    """There are more deciding bytes than it pays to compare."""


class _Walk:
    def __init__(self, definitions: Mapping[str, Definition], payload: bytes, order: str) -> None:
        self._definitions = definitions
        self._payload = payload
        self._big = order == "big"
        self._at = HEADER_LEN
        self.spans: list[tuple[int, int]] = [(0, HEADER_LEN)]

    def structure(self, name: str) -> dict[str, int]:
        """Walk over the members of a type; where each begins."""
        starts = {}
        for field in self._definitions[name].members:
            starts[field.name] = self._at
            self._field(field.type)
        return starts

    def _field(self, type: FieldType) -> None:
        if type.repeat is Repeat.ONE:
            count = 1
        elif type.repeat is Repeat.ARRAY:
            count = type.count
        else:
            count = self._count()
        if type.base in CODES:
            if count:
                self._numbers(type.base, count)
            return
        for _ in range(count):
            if type.is_nested:
                self.structure(type.base)
            else:
                length = self._count() * (4 if type.base == "wstring" else 1)
                self._decides(self._at, self._at + length)

    def _numbers(self, base: str, count: int) -> None:
        code, width = CODES[base]
        start = self._aligned(width)
        if code == "?":
            self._decides(start, start + count)
        self._at = start + count * width

    def _count(self) -> int:
        start = self._aligned(4)
        self._decides(start, start + 4)
        return int.from_bytes(self._payload[start : start + 4], "big" if self._big else "little")

    def _aligned(self, width: int) -> int:
        return self._at + (HEADER_LEN - self._at) % width

    def _decides(self, start: int, end: int) -> None:
        """These bytes decide; with those just before them, padding between, they are one span."""
        first, last = self.spans[-1]
        if last == self._at:
            self.spans[-1] = (first, end)
        elif len(self.spans) < SPANS_COUNT_MAX:
            self.spans.append((start, end))
        else:
            raise _TooManyError
        self._at = end
