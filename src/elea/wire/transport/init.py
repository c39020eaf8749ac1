"""INIT: who I am and what I offer; the answer carries a cookie. wire.md 5.1.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|S|A|  INIT   |   A=0 InitSyn (opener), A=1 InitAck (acceptor)
+-+-+-+---------+
| version : u8  |
+---------------+
|zid_len|X|X|wai|   zid_len: length - 1; wai: role index
+---------------+
~ zid : [u8]    ~
+---------------+
|X|X|X|X|rid|fsn|   if S, else 0x0A
+---------------+
| batch size    |   if S: u16le, else 65535
+---------------+
~ [cookie]      ~   if A: <u8;z16>
+---------------+
~ [extensions]  ~   if Z: QoS 0x01, QoSLink 0x21, Shm 0x42, Auth 0x43, MultiLink 0x44,
+---------------+         LowLatency 0x05, Compression 0x06, Patch 0x27, RegionName 0x48
"""

from __future__ import annotations

from typing import Final

from elea.limits import REGION_NAME_LEN_MAX
from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import ROLE_NAMES, add_extensions, octets, resolution_tree
from elea.wire.extensions import (
    Chain,
    ChainReader,
    Extension,
    ExtensionTable,
    Extras,
    Known,
    Tree,
    Value,
    encode_chain,
    flags_of,
)
from elea.wire.fields import read_role, read_zid
from elea.wire.shared_extensions import describe_value
from elea.wire.transport.establishment import (
    QOS_LINK,
    PublicKey,
    QosLink,
    ShmProbe,
    describe_auth,
    public_key_body,
    public_key_tree,
    read_auth,
    read_public_key,
    read_shm,
    shm_body,
    unpack_qos_link,
)

ID: Final = 0x01
NAME_SYN: Final = "INIT_SYN"
NAME_ACK: Final = "INIT_ACK"
FLAGS: Final = "ZSA"
FLAG_A: Final = 0x20
FLAG_S: Final = 0x40

VERSION: Final = 0x09
RESOLUTION_DEFAULT: Final = 0x0A  # 32 bit sequence numbers and request ids
BATCH_LEN_DEFAULT: Final = 65_535

QOS: Final = 0x01
SHM: Final = 0x42
AUTH: Final = 0x43
MULTILINK: Final = 0x44
LOW_LATENCY: Final = 0x05
COMPRESSION: Final = 0x06
PATCH: Final = 0x27
REGION_NAME: Final = 0x48


def _shm(body: Reader, ack: bool) -> ShmProbe:
    return read_shm(body, challenge=ack, segment=True)


def _describe_shm_syn(value: Value, reader: Reader) -> Tree:
    return {"segment": _shm(reader, ack=False).segment}


def _describe_shm_ack(value: Value, reader: Reader) -> Tree:
    probe = _shm(reader, ack=True)
    return {"challenge": probe.challenge, "segment": probe.segment}


def _describe_multilink_syn(value: Value, reader: Reader) -> Tree:
    return public_key_tree(read_public_key(reader, key=True, nonce=False))


def _describe_multilink_ack(value: Value, reader: Reader) -> Tree:
    return public_key_tree(read_public_key(reader, key=True, nonce=True))


def _describe_region(value: Value, reader: Reader) -> Tree:
    return {"value": _read_region(reader)}


def _table(ack: bool) -> ExtensionTable:
    return ExtensionTable(
        NAME_ACK if ack else NAME_SYN,
        Known(QOS, "qos"),
        QOS_LINK,
        Known(SHM, "shm", _describe_shm_ack if ack else _describe_shm_syn),
        Known(AUTH, "auth", describe_auth),
        Known(MULTILINK, "multilink", _describe_multilink_ack if ack else _describe_multilink_syn),
        Known(LOW_LATENCY, "lowlatency"),
        Known(COMPRESSION, "compression"),
        Known(PATCH, "patch", describe_value),
        Known(REGION_NAME, "region_name", _describe_region),
    )


EXTENSIONS_SYN: Final = _table(ack=False)
EXTENSIONS_ACK: Final = _table(ack=True)


@dataclass(slots=True)
class Init:
    """An InitSyn, or an InitAck if there is a `cookie`. `patch` 0 is what absence means."""

    zid: bytes
    whatami: int
    version: int = VERSION
    resolution: int = RESOLUTION_DEFAULT
    batch_len: int = BATCH_LEN_DEFAULT
    cookie: bytes | None = None
    qos: bool = False
    qos_link: QosLink | None = None
    shm: ShmProbe | None = None
    auth: tuple[Extension, ...] | None = None
    multilink: PublicKey | None = None
    low_latency: bool = False
    compression: bool = False
    patch: int = 0
    region_name: str | None = None
    extras: Extras | None = None


def encode(writer: Writer, init: Init) -> None:
    """Write an INIT."""
    chain = _chain(init)
    header = ID | flags_of(chain, init.extras)
    if init.cookie is not None:
        header |= FLAG_A
    sized = init.resolution != RESOLUTION_DEFAULT or init.batch_len != BATCH_LEN_DEFAULT
    writer.u8(header | FLAG_S if sized else header)
    writer.u8(init.version)
    writer.u8(len(init.zid) - 1 << 4 | init.whatami)
    writer.raw(init.zid)
    if sized:
        writer.u8(init.resolution)
        writer.u16le(init.batch_len)
    if init.cookie is not None:
        writer.block(init.cookie)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Init:
    """Read an INIT after its header."""
    reader.name(NAME_ACK if header & FLAG_A else NAME_SYN)
    version = reader.u8("version")
    flags = reader.u8("zid length and role")
    whatami = read_role(reader, flags)
    reader.meaning(f"{(flags >> 4) + 1} octet(s), {ROLE_NAMES[whatami]}")
    init = Init(read_zid(reader, 1 + (flags >> 4)), whatami, version)
    if header & FLAG_S:
        init.resolution = reader.u8("resolution")
        reader.meaning(resolution_meaning(init.resolution))
        init.batch_len = reader.u16le("batch size")
    if header & FLAG_A:
        init.cookie = reader.take(reader.z16("cookie length"), "cookie")
    table = EXTENSIONS_ACK if header & FLAG_A else EXTENSIONS_SYN
    chain = ChainReader(reader, table, header)
    while chain.next():
        _read_extension(chain, init)
    init.extras = chain.extras()
    return init


def describe(init: Init) -> Tree:
    """An INIT as a tree."""
    ack = init.cookie is not None
    tree: Tree = {
        "msg": NAME_ACK if ack else NAME_SYN,
        "version": init.version,
        "whatami": ROLE_NAMES[init.whatami],
        "zid": init.zid.hex(),
    }
    if init.resolution != RESOLUTION_DEFAULT or init.batch_len != BATCH_LEN_DEFAULT:
        tree["resolution"] = resolution_tree(init.resolution)
        tree["batch_size"] = init.batch_len
    if init.cookie is not None:
        tree["cookie"] = octets(init.cookie)
    add_extensions(tree, _chain(init), EXTENSIONS_ACK if ack else EXTENSIONS_SYN, init.extras)
    return tree


def resolution_meaning(resolution: int) -> str:
    """The resolution octet in words."""
    return f"sn {8 << (resolution & 3)} bit, request id {8 << (resolution >> 2 & 3)} bit"


def _read_extension(chain: ChainReader, init: Init) -> None:
    reader = chain.reader
    ack = init.cookie is not None
    match chain.header:
        case 0x01:
            init.qos = True
        case 0x21:
            init.qos_link = unpack_qos_link(chain.z64("QoS link"), reader)
        case 0x42:
            init.shm = _shm(chain.body(), ack)
        case 0x43:
            init.auth = read_auth(chain.body())
        case 0x44:
            init.multilink = read_public_key(chain.body(), key=True, nonce=ack)
        case 0x05:
            init.low_latency = True
        case 0x06:
            init.compression = True
        case 0x27:
            init.patch = chain.z64("patch", 0)
        case 0x48:
            init.region_name = _read_region(chain.body())
        case _:
            chain.keep()


def _read_region(body: Reader) -> str:
    length = body.remaining()
    if not 1 <= length <= REGION_NAME_LEN_MAX:
        raise body.error(f"a region name has 1 to {REGION_NAME_LEN_MAX} octets, got {length}")
    return body.utf8(length, "region name")


def _chain(init: Init) -> Chain:
    chain = Chain(init.extras)
    if init.qos:
        chain.add(QOS)
    if init.qos_link is not None:
        chain.add(QOS_LINK.header, init.qos_link.pack())
    if init.shm is not None:
        chain.body(SHM, shm_body(init.shm))
    if init.auth is not None:
        chain.add(AUTH, encode_chain(init.auth))
    if init.multilink is not None:
        chain.body(MULTILINK, public_key_body(init.multilink))
    if init.low_latency:
        chain.add(LOW_LATENCY)
    if init.compression:
        chain.add(COMPRESSION)
    chain.add(PATCH, init.patch, present=init.patch != 0)
    if init.region_name is not None:
        chain.add(REGION_NAME, init.region_name.encode("utf-8"))
    return chain
