"""Property 1 of an XRCE resource: an endpoint of DDS as an RTPS parameter list (17.3, D-735).

00 03 00 00 | PID (u16) | length (u16) | data ... | 01 00 00 00      all little endian
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from elea.dds.qos import (
    INFINITE,
    KEEP_ALL,
    Durability,
    Liveliness,
    Ownership,
    Qos,
    Reliability,
    Scope,
)

PROPERTY: Final = 1  # the id of a description in a list of properties
_HEADER: Final = b"\0\3\0\0"
_SENTINEL: Final = b"\1\0\0\0"
_NANOS: Final = 1_000_000_000
_SECONDS_MAX: Final = 0x7FFF_FFFF  # with all bits of the fraction set: without bound
_FRACTION_MAX: Final = 0xFFFF_FFFF
_TEXTS_COUNT_MAX: Final = 256
_DATA_LEN_MAX: Final = 0xFFFC

TOPIC: Final = 0x0005
STRENGTH: Final = 0x0006
TYPE: Final = 0x0007
RELIABILITY: Final = 0x001A
LIVELINESS: Final = 0x001B
DURABILITY: Final = 0x001D
DURABILITY_SERVICE: Final = 0x001E
OWNERSHIP: Final = 0x001F
PRESENTATION: Final = 0x0021
DEADLINE: Final = 0x0023
DESTINATION_ORDER: Final = 0x0025
LATENCY_BUDGET: Final = 0x0027
PARTITION: Final = 0x0029
LIFESPAN: Final = 0x002B
HISTORY: Final = 0x0040
REPRESENTATION: Final = 0x0073
TYPE_INFORMATION: Final = 0x0075


@dataclass(frozen=True, slots=True)
class Described:
    """What a parameter list says of an endpoint."""

    topic: str
    type_name: str
    qos: Qos
    type_information: bytes = b""


def write_parameters(described: Described) -> bytes:
    """Return the parameter list; policies with DDS's default are left out."""
    out = bytearray(_HEADER)
    for pid, data in _parameters(described):
        padded = data + bytes(-len(data) % 4)
        if len(padded) <= _DATA_LEN_MAX:
            out += struct.pack("<HH", pid, len(padded)) + padded
    return bytes(out + _SENTINEL)


def _parameters(described: Described) -> Iterator[tuple[int, bytes]]:
    qos, default = described.qos, Qos()
    yield TOPIC, _text(described.topic)
    yield TYPE, _text(described.type_name)
    yield DURABILITY, struct.pack("<I", qos.durability)
    # RTPS counts reliability from 1.
    yield RELIABILITY, struct.pack("<I", qos.reliability + 1) + _duration(qos.max_blocking_ns)
    if qos.depth != default.depth:
        yield HISTORY, _history(qos.depth)
    for pid, value_ns, default_ns in (
        (DEADLINE, qos.deadline_ns, INFINITE),
        (LATENCY_BUDGET, qos.latency_ns, 0),
        (LIFESPAN, qos.lifespan_ns, INFINITE),
    ):
        if value_ns != default_ns:
            yield pid, _duration(value_ns)
    if qos.liveliness is not default.liveliness or qos.lease_ns != INFINITE:
        yield LIVELINESS, struct.pack("<I", qos.liveliness) + _duration(qos.lease_ns)
    if qos.ownership is not default.ownership:
        yield OWNERSHIP, struct.pack("<I", qos.ownership)
        yield STRENGTH, struct.pack("<i", qos.strength)
    if qos.by_source_time:
        yield DESTINATION_ORDER, struct.pack("<I", 1)
    if (qos.scope, qos.coherent, qos.ordered) != (default.scope, False, False):
        yield PRESENTATION, struct.pack("<I??2x", qos.scope, qos.coherent, qos.ordered)
    if qos.partitions:
        yield PARTITION, _texts(qos.partitions)
    if qos.service_depth is not None:
        history = _history(qos.service_depth)
        yield DURABILITY_SERVICE, _duration(0) + history + struct.pack("<3i", -1, -1, -1)
    if qos.representations:
        count = len(qos.representations)
        yield REPRESENTATION, struct.pack(f"<I{count}h", count, *qos.representations)
    if described.type_information:
        yield TYPE_INFORMATION, described.type_information


def read_parameters(data: bytes) -> Described:
    """Return what a parameter list says; parameters that are not known are ignored.

    Raises:
        ValueError: It is malformed, or names no topic and type.
    """
    if data[:4] != _HEADER:
        raise ValueError("expected a little-endian parameter list")
    found: dict[int, bytes] = {}
    at = 4
    while True:
        if at + 4 > len(data):
            raise ValueError("the parameter list does not end")
        pid, length = struct.unpack_from("<HH", data, at)
        at += 4
        if pid == _SENTINEL[0]:
            break
        if length > len(data) - at:
            raise ValueError(f"parameter {pid:#06x} runs past the end")
        found.setdefault(pid, data[at : at + length])
        at += length
    try:
        return _described(found)
    except (struct.error, KeyError) as error:
        raise ValueError(f"malformed parameter list: {error}") from None


def _described(found: dict[int, bytes]) -> Described:
    qos: dict[str, Any] = {}
    for pid, name, kind in (
        (DURABILITY, "durability", Durability),
        (LIVELINESS, "liveliness", Liveliness),
        (OWNERSHIP, "ownership", Ownership),
        (PRESENTATION, "scope", Scope),
    ):
        if pid in found:
            qos[name] = kind(_number(found[pid]))
    if RELIABILITY in found:
        qos["reliability"] = Reliability(_number(found[RELIABILITY]) - 1)
        qos["max_blocking_ns"] = _nanos(found[RELIABILITY], 4)
    if HISTORY in found:
        qos["depth"] = _depth(found[HISTORY], 0)
    if DURABILITY_SERVICE in found:
        qos["service_depth"] = _depth(found[DURABILITY_SERVICE], 8)
    for pid, name, at in (
        (DEADLINE, "deadline_ns", 0),
        (LATENCY_BUDGET, "latency_ns", 0),
        (LIFESPAN, "lifespan_ns", 0),
        (LIVELINESS, "lease_ns", 4),
    ):
        if pid in found:
            qos[name] = _nanos(found[pid], at)
    if STRENGTH in found:
        [qos["strength"]] = struct.unpack_from("<i", found[STRENGTH])
    if DESTINATION_ORDER in found:
        qos["by_source_time"] = _number(found[DESTINATION_ORDER]) == 1
    if PRESENTATION in found:
        qos["coherent"], qos["ordered"] = struct.unpack_from("<??", found[PRESENTATION], 4)
    if PARTITION in found:
        qos["partitions"] = _read_texts(found[PARTITION])
    if REPRESENTATION in found:
        count = min(_number(found[REPRESENTATION]), _TEXTS_COUNT_MAX)
        qos["representations"] = struct.unpack_from(f"<{count}h", found[REPRESENTATION], 4)
    topic, _ = _read_text(found[TOPIC], 0)
    type_name, _ = _read_text(found[TYPE], 0)
    if not topic or not type_name:
        raise ValueError("it names no topic and type")
    return Described(topic, type_name, Qos(**qos), found.get(TYPE_INFORMATION, b""))


def _number(data: bytes) -> int:
    [found] = struct.unpack_from("<I", data)
    return int(found)


def _text(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<I", len(data)) + data


def _texts(texts: tuple[str, ...]) -> bytes:
    out = bytearray(struct.pack("<I", len(texts)))
    for one in texts:
        out += bytes(-len(out) % 4) + _text(one)
    return bytes(out)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    [length] = struct.unpack_from("<I", data, at)
    at += 4
    if not 0 < length <= len(data) - at:
        raise ValueError("a text runs past the end")
    return data[at : at + length - 1].decode(), at + length


def _read_texts(data: bytes) -> tuple[str, ...]:
    count, at = _number(data), 4
    if count > _TEXTS_COUNT_MAX:
        raise ValueError("too many texts")
    found = []
    for _ in range(count):
        at += -at % 4
        text, at = _read_text(data, at)
        found.append(text)
    return tuple(found)


def _duration(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, _NANOS)
    if seconds >= _SECONDS_MAX:
        return struct.pack("<iI", _SECONDS_MAX, _FRACTION_MAX)
    return struct.pack("<iI", seconds, -(-(rest << 32) // _NANOS))


def _nanos(data: bytes, at: int) -> int:
    seconds, fraction = struct.unpack_from("<iI", data, at)
    if seconds == _SECONDS_MAX:
        return INFINITE
    return int(seconds) * _NANOS + (int(fraction) * _NANOS >> 32)


def _history(depth: int) -> bytes:
    return struct.pack("<Ii", depth == KEEP_ALL, depth if depth != KEEP_ALL else 1)


def _depth(data: bytes, at: int) -> int:
    kind, depth = struct.unpack_from("<Ii", data, at)
    return KEEP_ALL if kind else max(1, int(depth))
