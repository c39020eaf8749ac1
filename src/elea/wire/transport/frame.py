"""FRAME: the network messages that follow belong to one conduit. wire.md 5.8.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|R|  FRAME  |   R reliable channel
    +-+-+-+---------+
    %   sn : z32    %   z64 at 64-bit resolution
    +---------------+
    ~ [extensions]  ~   if Z: QoS 0x31, a priority
    +---------------+
    ~  network      ~   up to the end of the batch, or the first octet that is no
    ~  messages     ~   network message
    +---------------+

A Frame here is the header alone: its messages are decoded one by one after it.
"""

from __future__ import annotations

from typing import Final

from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import FLAG_Z, PRIORITY_DEFAULT
from elea.wire.shared_extensions import PRIORITY

ID: Final = 0x05
NAME: Final = "FRAME"
FLAGS: Final = "Z-R"
FLAG_R: Final = 0x20
RESERVED: Final = 0x40
EXTENSIONS: Final = ExtensionTable(NAME, PRIORITY)
_QOS_ALONE: Final = 0x31


class Frame:
    """The conduit and sequence number of the network messages that follow."""

    __slots__ = ("extras", "priority", "reliable", "sn")

    def __init__(
        self,
        sn: int,
        reliable: bool = True,
        priority: int = PRIORITY_DEFAULT,
        extras: Extras | None = None,
    ) -> None:
        self.sn = sn
        self.reliable = reliable
        self.priority = priority
        self.extras = extras

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Frame)
            and self.sn == other.sn
            and self.reliable == other.reliable
            and self.priority == other.priority
            and self.extras == other.extras
        )

    def __hash__(self) -> int:
        raise TypeError("messages are not hashable")

    def __repr__(self) -> str:
        return (
            f"Frame({self.sn}, reliable={self.reliable}, priority={self.priority}, "
            f"extras={self.extras!r})"
        )


def encode(writer: Writer, frame: Frame) -> None:
    """Write the header of a FRAME."""
    header = ID | FLAG_R if frame.reliable else ID
    if frame.extras is not None:
        chain = _chain(frame)
        writer.u8(header | flags_of(chain, frame.extras))
        writer.z64(frame.sn)
        chain.write(writer)
    elif frame.priority != PRIORITY_DEFAULT:
        writer.u8(header | FLAG_Z)
        writer.z64(frame.sn)
        writer.u8(_QOS_ALONE)
        writer.z64(frame.priority)
    else:
        writer.u8(header)
        writer.z64(frame.sn)


def decode(reader: Reader, header: int) -> Frame:
    """Read the header of a FRAME after its first octet."""
    sn = reader.z64("sn")
    reliable = header & FLAG_R != 0
    if not header & (FLAG_Z | RESERVED):
        return Frame(sn, reliable)
    chain = ChainReader(reader, EXTENSIONS, header)
    priority = PRIORITY_DEFAULT
    while chain.next():
        if chain.header == _QOS_ALONE:
            priority = chain.bounded("priority", 3, PRIORITY_DEFAULT)
        else:
            chain.keep()
    return Frame(sn, reliable, priority, chain.extras(header & RESERVED))


def describe(frame: Frame, payload: list[Tree]) -> Tree:
    """A FRAME as a tree, with the trees of its network messages."""
    tree: Tree = {"msg": NAME, "reliable": frame.reliable, "sn": frame.sn}
    add_extensions(tree, _chain(frame), EXTENSIONS, frame.extras)
    tree["payload"] = payload
    return tree


def _chain(frame: Frame) -> Chain:
    chain = Chain(frame.extras)
    chain.add(_QOS_ALONE, frame.priority, present=frame.priority != PRIORITY_DEFAULT)
    return chain
