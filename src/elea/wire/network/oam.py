"""OAM of the network layer: link state and gossip. wire.md 7.9.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|ENC|   OAM   |   ENC 00 Unit, 01 Z64, 10 ZBuf
    +-+---+---------+
    %   id : z16    %
    +---------------+
    ~ [extensions]  ~   if Z: QoS 0x21, Timestamp 0x42
    +---------------+
    ~   body        ~   Unit: nothing; Z64: z64; ZBuf: <u8;z64>
    +---------------+

Id 1 is link state; its body has a module of its own, `linkstate`.
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, octets
from elea.wire.extensions import (
    ENC_MASK,
    ENC_NAMES,
    ENC_ZBUF,
    Chain,
    ChainReader,
    ExtensionTable,
    Extras,
    Tree,
    Value,
    encoding_of,
    flags_of,
    read_value,
    write_value,
)
from elea.wire.fields import QOS_DEFAULT, Stamp
from elea.wire.network import linkstate
from elea.wire.network.linkstate import LinkStateList
from elea.wire.shared_extensions import (
    QOS,
    TIMESTAMP,
    add_qos,
    add_timestamp,
    read_qos,
    read_timestamp,
)

ID: Final = 0x1F
NAME: Final = "OAM"
FLAGS: Final = "Z--"
ID_LINKSTATE: Final = 0x0001
EXTENSIONS: Final = ExtensionTable(NAME, QOS, TIMESTAMP)


@dataclass(slots=True)
class Oam:
    """An operation between nodes. `body` is a LinkStateList if `id` is ID_LINKSTATE."""

    id: int
    body: Value | LinkStateList
    qos: int = QOS_DEFAULT
    timestamp: Stamp | None = None
    extras: Extras | None = None


def encode(writer: Writer, oam: Oam) -> None:
    """Write an OAM."""
    chain = _chain(oam)
    writer.u8(ID | encoding_of(oam.body) | flags_of(chain, oam.extras))
    writer.z64(oam.id)
    chain.write(writer)
    body = oam.body
    write_value(writer, linkstate.to_bytes(body) if isinstance(body, LinkStateList) else body)


def decode(reader: Reader, header: int) -> Oam:
    """Read an OAM after its header."""
    oam = Oam(reader.z16("OAM id"), None)
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == QOS.header:
            oam.qos = read_qos(chain)
        elif chain.header == TIMESTAMP.header:
            oam.timestamp = read_timestamp(chain)
        else:
            chain.keep()
    oam.extras = chain.extras()
    if oam.id == ID_LINKSTATE and header & ENC_MASK == ENC_ZBUF:
        oam.body = linkstate.decode(reader.window(reader.z64("OAM length"), "link state"))
    else:
        oam.body = read_value(reader, header, "OAM body")
    return oam


def describe(oam: Oam) -> Tree:
    """An OAM as a tree."""
    tree: Tree = {"msg": NAME, "id": oam.id}
    add_extensions(tree, _chain(oam), EXTENSIONS, oam.extras)
    body = oam.body
    tree["enc"] = ENC_NAMES[encoding_of(body)]
    if isinstance(body, LinkStateList):
        tree["linkstate"] = linkstate.describe(body)
    elif body is not None:
        tree["value"] = octets(body) if isinstance(body, bytes) else body
    return tree


def _chain(oam: Oam) -> Chain:
    chain = Chain(oam.extras)
    add_qos(chain, oam.qos)
    add_timestamp(chain, oam.timestamp)
    return chain
