"""CLOSE: end one link, or the whole transport. wire.md 5.5.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|S|  CLOSE  |   S=1 close the transport, S=0 only this link
+-+-+-+---------+
|    reason     |   u8; known values in CloseReason
+---------------+
~ [extensions]  ~   if Z; none defined
+---------------+
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions
from elea.wire.extensions import Chain, ExtensionTable, Extras, Tree, flags_of, no_extensions

ID: Final = 0x03
NAME: Final = "CLOSE"
FLAGS: Final = "Z-S"
FLAG_S: Final = 0x20
RESERVED: Final = 0x40
EXTENSIONS: Final = ExtensionTable(NAME)


class CloseReason(IntEnum):
    """The reasons Eclipse Zenoh 1.10 knows."""

    GENERIC = 0
    UNSUPPORTED = 1
    INVALID = 2
    MAX_SESSIONS = 3
    MAX_LINKS = 4
    EXPIRED = 5
    UNRESPONSIVE = 6
    CONNECTION_TO_SELF = 7


@dataclass(slots=True)
class Close:
    """The end. `reason` is a CloseReason, or a code only newer peers know."""

    reason: int
    whole_transport: bool = False
    extras: Extras | None = None


def encode(writer: Writer, close: Close) -> None:
    """Write a CLOSE."""
    chain = Chain(close.extras)
    header = ID | flags_of(chain, close.extras)
    writer.u8(header | FLAG_S if close.whole_transport else header)
    writer.u8(close.reason)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Close:
    """Read a CLOSE after its header."""
    reason = reader.u8("reason")
    reader.meaning(reason_name(reason))
    extras = no_extensions(reader, EXTENSIONS, header, RESERVED)
    return Close(reason, bool(header & FLAG_S), extras)


def describe(close: Close) -> Tree:
    """A CLOSE as a tree."""
    tree: Tree = {
        "msg": NAME,
        "session": close.whole_transport,
        "reason": close.reason,
        "reason_name": reason_name(close.reason),
    }
    add_extensions(tree, Chain(close.extras), EXTENSIONS, close.extras)
    return tree


def reason_name(reason: int) -> str:
    """The name of a close reason."""
    try:
        return CloseReason(reason).name.lower()
    except ValueError:
        return "unknown"
