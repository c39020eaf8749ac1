"""FRAGMENT: a piece of a network message too long for one batch. wire.md 5.10.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|M|R| FRAGMENT|   M more fragments follow, R reliable channel
+-+-+-+---------+
%   sn : z32    %   z64 at 64-bit resolution
+---------------+
~ [extensions]  ~   if Z: QoS 0x31, First 0x02, Drop 0x03
+---------------+
~  [u8]         ~   to the end of the batch
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, octets
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Known, Tree, flags_of
from elea.wire.fields import PRIORITY_DEFAULT
from elea.wire.shared_extensions import PRIORITY

ID: Final = 0x06
NAME: Final = "FRAGMENT"
FLAGS: Final = "ZMR"
FLAG_R: Final = 0x20
FLAG_M: Final = 0x40
FIRST: Final = 0x02
DROP: Final = 0x03
EXTENSIONS: Final = ExtensionTable(NAME, PRIORITY, Known(FIRST, "first"), Known(DROP, "drop"))


@dataclass(slots=True)
class Fragment:
    """A piece; `first` and `drop` are the markers of patch 1."""

    sn: int
    payload: bytes
    reliable: bool = True
    more: bool = False
    priority: int = PRIORITY_DEFAULT
    first: bool = False
    drop: bool = False
    extras: Extras | None = None


def encode(writer: Writer, fragment: Fragment) -> None:
    """Write a FRAGMENT; nothing may follow it in its batch."""
    chain = _chain(fragment)
    header = ID | flags_of(chain, fragment.extras)
    if fragment.reliable:
        header |= FLAG_R
    writer.u8(header | FLAG_M if fragment.more else header)
    writer.z64(fragment.sn)
    chain.write(writer)
    writer.raw(fragment.payload)


def decode(reader: Reader, header: int) -> Fragment:
    """Read a FRAGMENT after its header, to the end of the batch."""
    fragment = Fragment(
        reader.z64("sn"), b"", reliable=bool(header & FLAG_R), more=bool(header & FLAG_M)
    )
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == PRIORITY.header:
            fragment.priority = chain.bounded("priority", 3, PRIORITY_DEFAULT)
        elif chain.header == FIRST:
            fragment.first = True
        elif chain.header == DROP:
            fragment.drop = True
        else:
            chain.keep()
    fragment.extras = chain.extras()
    fragment.payload = reader.rest("fragment")
    return fragment


def describe(fragment: Fragment) -> Tree:
    """A FRAGMENT as a tree."""
    tree: Tree = {
        "msg": NAME,
        "reliable": fragment.reliable,
        "more": fragment.more,
        "sn": fragment.sn,
    }
    add_extensions(tree, _chain(fragment), EXTENSIONS, fragment.extras)
    tree["payload"] = octets(fragment.payload)
    return tree


def _chain(fragment: Fragment) -> Chain:
    chain = Chain(fragment.extras)
    chain.add(PRIORITY.header, fragment.priority, present=fragment.priority != PRIORITY_DEFAULT)
    if fragment.first:
        chain.add(FIRST)
    if fragment.drop:
        chain.add(DROP)
    return chain
