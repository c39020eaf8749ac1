"""Which remote writers wrote which instances of a route to DDS (D-509).

When the last writer of an instance is gone, the mirror writer unregisters it: readers learn that
no writer is left. Owned by the DDS thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from elea.dds.schema import Schema
from elea.decode.layout import Enumeration, Primitive, Structure

KEYED_WRITER: Final = 0x02  # last byte of the GUID of a writer with key
GUID_LEN: Final = 16
_GONE_COUNT_MAX: Final = 1_024  # writers that are gone and may still have samples on the way
_CDR1_LAST: Final = 3  # second byte of a header: up to here CDR 1
_DELIMITED: Final = (8, 9)  # CDR 2 with the length of the value in front
_STRING: Final = 0  # stands for the width of a text


@dataclass(slots=True)
class _Instance:
    key: bytes  # serialised, with its header
    sources: set[bytes] = field(default_factory=set)


class SourceInstances:
    """The instances that remote writers keep alive.

    Args:
        count_max: Instances that are remembered; the least recently written one is forgotten.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        self._by_source: dict[bytes, set[bytes]] = {}
        self._gone: OrderedDict[bytes, None] = OrderedDict()

    def wrote(
        self, source: bytes, identity: bytes, key_of: Callable[[], bytes | None]
    ) -> bytes | None:
        """Note that a writer wrote an instance; returns its key if no writer is left at once."""
        known = self._instances.get(identity)
        if known is None:
            key = key_of()
            if key is None:
                return None
            if source in self._gone:
                return key
            known = self._instances[identity] = _Instance(key)
            if len(self._instances) > self._count_max:
                self._forget(next(iter(self._instances)))
        elif source in self._gone:
            return None  # another writer keeps it
        else:
            self._instances.move_to_end(identity)
        if source not in known.sources:
            known.sources.add(source)
            self._by_source.setdefault(source, set()).add(identity)
        return None

    def gone(self, source: bytes) -> list[bytes]:
        """A writer is gone; returns the keys of the instances that no other one keeps."""
        self._gone[source] = None
        if len(self._gone) > _GONE_COUNT_MAX:
            self._gone.popitem(last=False)
        left = []
        for identity in self._by_source.pop(source, ()):
            known = self._instances[identity]
            known.sources.discard(source)
            if not known.sources:
                del self._instances[identity]
                left.append(known.key)
        return left

    def came_back(self, source: bytes) -> None:
        """A writer that was gone is there: its bridge was out of reach."""
        self._gone.pop(source, None)

    def _forget(self, identity: bytes) -> None:
        for source in self._instances.pop(identity).sources:
            known = self._by_source[source]
            known.discard(identity)
            if not known:
                del self._by_source[source]


def identity_of(schema: Schema) -> Callable[[bytes], bytes]:
    """Return what tells the instances of a type apart in its samples.

    Where the key members come first these are their bytes; other samples are decoded.
    """
    widths = _leading_widths(schema)
    if widths is None:
        return lambda payload: schema.instance_text(payload, is_key=False).encode()

    def leading(payload: bytes) -> bytes:
        kind = payload[1]
        align_max = 8 if kind <= _CDR1_LAST else 4
        order: Final = "little" if kind & 1 else "big"
        start = at = 8 if kind in _DELIMITED else 4
        for width in widths:
            step = min(width or 4, align_max)
            at += -(at - 4) % step
            if width == _STRING:
                at += 4 + int.from_bytes(payload[at : at + 4], order)
            else:
                at += width
        return payload[start:at]

    return leading


def _leading_widths(schema: Schema) -> list[int] | None:
    """The widths of the key members if they are plain and come first."""
    layout, keys = schema.layout, schema.keys
    if not isinstance(layout, Structure) or layout.ids or any(len(path) != 1 for path in keys):
        return None
    first = layout.members[: len(keys)]
    if {name for name, _ in first} != {path[0] for path in keys}:
        return None
    widths = []
    for _, member in first:
        if isinstance(member, Enumeration) or (isinstance(member, Primitive) and member.width):
            widths.append(member.width)
        elif isinstance(member, Primitive) and member.name == "string":
            widths.append(_STRING)
        else:
            return None
    return widths
