"""OPEN: my lease and first sequence number; the opener returns the cookie. wire.md 5.2.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|T|A|  OPEN   |   A=0 OpenSyn (opener), A=1 OpenAck (acceptor); T=1 lease in seconds
+-+-+-+---------+
%  lease : z64  %   seconds or milliseconds
+---------------+
% initial sn z32%   z64 at 64-bit resolution
+---------------+
~ [cookie]      ~   if A=0: <u8;z64>, as received in InitAck
+---------------+
~ [extensions]  ~   if Z: QoS 0x01, Shm 0x42 (0x22 up to 1.9), Auth 0x43,
+---------------+         MultiLinkSyn 0x44 or MultiLinkAck 0x04, LowLatency 0x05,
                          Compression 0x06, RemoteBound 0x27
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, octets
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
from elea.wire.shared_extensions import describe_octets, describe_value
from elea.wire.transport.establishment import (
    PublicKey,
    ShmProbe,
    describe_auth,
    public_key_body,
    public_key_tree,
    read_auth,
    read_public_key,
    read_shm,
    shm_body,
)

ID: Final = 0x02
NAME_SYN: Final = "OPEN_SYN"
NAME_ACK: Final = "OPEN_ACK"
FLAGS: Final = "ZTA"
FLAG_A: Final = 0x20
FLAG_T: Final = 0x40

QOS: Final = 0x01
SHM: Final = 0x42
SHM_OLD: Final = 0x22
AUTH: Final = 0x43
MULTILINK_SYN: Final = 0x44
MULTILINK_ACK: Final = 0x04
LOW_LATENCY: Final = 0x05
COMPRESSION: Final = 0x06
REMOTE_BOUND: Final = 0x27


def _describe_shm(value: Value, reader: Reader) -> Tree:
    probe = read_shm(reader, challenge=True, segment=False)
    return {"challenge": probe.challenge, "tail": octets(probe.counters)}


def _describe_multilink(value: Value, reader: Reader) -> Tree:
    return public_key_tree(read_public_key(reader, key=False, nonce=True))


def _table(ack: bool) -> ExtensionTable:
    return ExtensionTable(
        NAME_ACK if ack else NAME_SYN,
        Known(QOS, "qos"),
        Known(SHM, "shm", describe_octets if ack else _describe_shm),
        Known(SHM_OLD, "shm", describe_value),
        Known(AUTH, "auth", describe_auth),
        Known(MULTILINK_ACK, "multilink")
        if ack
        else Known(MULTILINK_SYN, "multilink", _describe_multilink),
        Known(LOW_LATENCY, "lowlatency"),
        Known(COMPRESSION, "compression"),
        Known(REMOTE_BOUND, "remote_bound", describe_value),
    )


EXTENSIONS_SYN: Final = _table(ack=False)
EXTENSIONS_ACK: Final = _table(ack=True)


@dataclass(slots=True)
class Open:
    """An OpenSyn, or an OpenAck if there is no `cookie`.

    `shm_old` is the shared-memory value of releases up to 1.9; `multilink` is the proof of an
    OpenSyn, empty in an OpenAck; `remote_bound` is 0 north or 1 south.
    """

    lease: int
    initial_sn: int
    lease_in_seconds: bool = True
    cookie: bytes | None = None
    qos: bool = False
    shm: ShmProbe | None = None
    shm_old: int | None = None
    auth: tuple[Extension, ...] | None = None
    multilink: PublicKey | None = None
    low_latency: bool = False
    compression: bool = False
    remote_bound: int | None = None
    extras: Extras | None = None

    @property
    def lease_ms(self) -> int:
        """The lease in milliseconds."""
        return self.lease * 1_000 if self.lease_in_seconds else self.lease


def encode(writer: Writer, message: Open) -> None:
    """Write an OPEN."""
    chain = _chain(message)
    header = ID | flags_of(chain, message.extras)
    if message.lease_in_seconds:
        header |= FLAG_T
    writer.u8(header | FLAG_A if message.cookie is None else header)
    writer.z64(message.lease)
    writer.z64(message.initial_sn)
    if message.cookie is not None:
        writer.block(message.cookie)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Open:
    """Read an OPEN after its header."""
    reader.name(NAME_ACK if header & FLAG_A else NAME_SYN)
    ack = bool(header & FLAG_A)
    lease = reader.z64("lease")
    reader.meaning("seconds" if header & FLAG_T else "milliseconds")
    message = Open(lease, reader.z64("initial sn"), lease_in_seconds=bool(header & FLAG_T))
    if not ack:
        message.cookie = reader.take(reader.z64("cookie length"), "cookie")
    chain = ChainReader(reader, EXTENSIONS_ACK if ack else EXTENSIONS_SYN, header)
    while chain.next():
        _read_extension(chain, message, ack)
    message.extras = chain.extras()
    return message


def describe(message: Open) -> Tree:
    """An OPEN as a tree."""
    ack = message.cookie is None
    tree: Tree = {
        "msg": NAME_ACK if ack else NAME_SYN,
        "lease": message.lease,
        "lease_unit": "s" if message.lease_in_seconds else "ms",
        "initial_sn": message.initial_sn,
    }
    if message.cookie is not None:
        tree["cookie"] = octets(message.cookie)
    table = EXTENSIONS_ACK if ack else EXTENSIONS_SYN
    add_extensions(tree, _chain(message), table, message.extras)
    return tree


def _read_extension(chain: ChainReader, message: Open, ack: bool) -> None:
    match chain.header:
        case 0x01:
            message.qos = True
        case 0x42:
            message.shm = read_shm(chain.body(), challenge=not ack, segment=False)
        case 0x22:
            message.shm_old = chain.z64("challenge")
        case 0x43:
            message.auth = read_auth(chain.body())
        case 0x44 if not ack:
            message.multilink = read_public_key(chain.body(), key=False, nonce=True)
        case 0x04 if ack:
            message.multilink = PublicKey()
        case 0x05:
            message.low_latency = True
        case 0x06:
            message.compression = True
        case 0x27:
            message.remote_bound = chain.z64("remote bound")
        case _:
            chain.keep()


def _chain(message: Open) -> Chain:
    chain = Chain(message.extras)
    if message.qos:
        chain.add(QOS)
    if message.shm is not None:
        chain.body(SHM, shm_body(message.shm))
    if message.shm_old is not None:
        chain.add(SHM_OLD, message.shm_old)
    if message.auth is not None:
        chain.add(AUTH, encode_chain(message.auth))
    if message.multilink is not None:
        if message.cookie is None:
            chain.add(MULTILINK_ACK)
        else:
            chain.body(MULTILINK_SYN, public_key_body(message.multilink))
    if message.low_latency:
        chain.add(LOW_LATENCY)
    if message.compression:
        chain.add(COMPRESSION)
    if message.remote_bound is not None:
        chain.add(REMOTE_BOUND, message.remote_bound)
    return chain
