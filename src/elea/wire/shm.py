"""Payloads in shared memory: the slice list that replaces a payload. wire.md 2.19.

    %  n : z32      %     number of slices
    +---------------+
    %  kind : z8    % \\   0 raw, 1 descriptor
    +---------------+  |
    ~  <u8;z32>     ~ /   raw octets, or a descriptor
    +---------------+

A node that never offers shared memory never receives one; the codec reads them so that captures
between nodes that do can be explained. The segments themselves are outside the protocol.
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import octets
from elea.wire.extensions import Tree

KIND_RAW: Final = 0
KIND_DESCRIPTOR: Final = 1


@dataclass(slots=True)
class ShmDescriptor:
    """Where a slice lies in shared memory."""

    data_len: int
    segment: int
    index: int
    generation: int


Slice = bytes | ShmDescriptor


def read_slices(reader: Reader) -> tuple[Slice, ...]:
    """A slice list."""
    count = reader.z32("slice count")
    bound = reader.limits.shm_slices_count
    if count > bound:
        raise reader.error(f"a payload has at most {bound} slices, got {count}")
    return tuple([_read_slice(reader) for _ in range(count)])


def write_slices(writer: Writer, slices: tuple[Slice, ...]) -> None:
    """A slice list."""
    writer.z64(len(slices))
    for one in slices:
        if isinstance(one, bytes):
            writer.z64(KIND_RAW)
            writer.block(one)
            continue
        body = Writer()
        for value in (one.data_len, one.segment, one.index, one.generation):
            body.z64(value)
        writer.z64(KIND_DESCRIPTOR)
        writer.block(body.to_bytes())


def slices_tree(slices: tuple[Slice, ...]) -> list[Tree]:
    """A slice list, described."""
    return [
        {"kind": "raw", "value": octets(one)}
        if isinstance(one, bytes)
        else {
            "kind": "descriptor",
            "data_len": one.data_len,
            "segment": one.segment,
            "index": one.index,
            "generation": one.generation,
        }
        for one in slices
    ]


def _read_slice(reader: Reader) -> Slice:
    kind = reader.z8("slice kind")
    if kind == KIND_RAW:
        return reader.take(reader.z32("slice length"), "slice")
    if kind != KIND_DESCRIPTOR:
        raise reader.error(f"slice kind is {kind}, legal are 0 (raw) and 1 (descriptor)")
    body = reader.window(reader.z32("slice length"), "slice descriptor")
    descriptor = ShmDescriptor(
        data_len=body.z64("data length"),
        segment=body.z16("metadata segment"),
        index=body.z16("metadata index"),
        generation=body.z32("generation"),
    )
    body.finish("shared-memory descriptor")
    return descriptor
