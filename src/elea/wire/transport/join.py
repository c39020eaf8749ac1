"""JOIN: I am in this multicast group. wire.md 6.1.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|S|T|  JOIN   |   T=1 lease in seconds (bit positions differ from OPEN)
+-+-+-+---------+
| version : u8  |
+---------------+
|zid_len|X|X|wai|
+---------------+
~ zid : [u8]    ~
+---------------+
|X|X|X|X|rid|fsn|   if S, else 0x0A
+---------------+
| batch size    |   if S: u16le, else 8192
+---------------+
%  lease : z64  %
+---------------+
% next sn : z32 %   reliable
+---------------+
% next sn : z32 %   best effort
+---------------+
~ [extensions]  ~   if Z: QoS 0x51, Shm 0x52, Patch 0x27
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import ROLE_NAMES, add_extensions, resolution_tree
from elea.wire.extensions import (
    Chain,
    ChainReader,
    ExtensionTable,
    Extras,
    Known,
    Tree,
    Value,
    flags_of,
)
from elea.wire.fields import read_role, read_zid
from elea.wire.shared_extensions import describe_octets, describe_value
from elea.wire.transport.init import RESOLUTION_DEFAULT, VERSION, resolution_meaning

ID: Final = 0x07
NAME: Final = "JOIN"
FLAGS: Final = "ZST"
FLAG_T: Final = 0x20
FLAG_S: Final = 0x40
BATCH_LEN_DEFAULT: Final = 8_192
QOS: Final = 0x51
SHM: Final = 0x52
PATCH: Final = 0x27
PRIORITIES: Final = 8


@dataclass(slots=True)
class NextSn:
    """The next sequence numbers of one priority."""

    reliable: int
    best_effort: int


def _describe_qos(value: Value, reader: Reader) -> Tree:
    return {"next_sn": [_next_sn_tree(one) for one in _read_qos(reader)]}


EXTENSIONS: Final = ExtensionTable(
    NAME,
    Known(QOS, "qos", _describe_qos),
    Known(SHM, "shm", describe_octets),
    Known(PATCH, "patch", describe_value),
)


@dataclass(slots=True)
class Join:
    """A member's presence. With `qos`, eight pairs, the two of `next_sn` are 0."""

    zid: bytes
    whatami: int
    lease: int
    next_sn: NextSn
    lease_in_seconds: bool = True
    version: int = VERSION
    resolution: int = RESOLUTION_DEFAULT
    batch_len: int = BATCH_LEN_DEFAULT
    qos: tuple[NextSn, ...] | None = None
    shm: bytes | None = None
    patch: int = 0
    extras: Extras | None = None

    @property
    def lease_ms(self) -> int:
        """The lease in milliseconds."""
        return self.lease * 1_000 if self.lease_in_seconds else self.lease


def encode(writer: Writer, join: Join) -> None:
    """Write a JOIN."""
    chain = _chain(join)
    header = ID | flags_of(chain, join.extras)
    if join.lease_in_seconds:
        header |= FLAG_T
    sized = join.resolution != RESOLUTION_DEFAULT or join.batch_len != BATCH_LEN_DEFAULT
    writer.u8(header | FLAG_S if sized else header)
    writer.u8(join.version)
    writer.u8(len(join.zid) - 1 << 4 | join.whatami)
    writer.raw(join.zid)
    if sized:
        writer.u8(join.resolution)
        writer.u16le(join.batch_len)
    writer.z64(join.lease)
    _write_next_sn(writer, join.next_sn)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Join:
    """Read a JOIN after its header."""
    version = reader.u8("version")
    flags = reader.u8("zid length and role")
    whatami = read_role(reader, flags)
    reader.meaning(f"{(flags >> 4) + 1} octet(s), {ROLE_NAMES[whatami]}")
    zid = read_zid(reader, 1 + (flags >> 4))
    resolution, batch_len = RESOLUTION_DEFAULT, BATCH_LEN_DEFAULT
    if header & FLAG_S:
        resolution = reader.u8("resolution")
        reader.meaning(resolution_meaning(resolution))
        batch_len = reader.u16le("batch size")
    lease = reader.z64("lease")
    reader.meaning("seconds" if header & FLAG_T else "milliseconds")
    join = Join(
        zid,
        whatami,
        lease,
        _read_next_sn(reader),
        lease_in_seconds=bool(header & FLAG_T),
        version=version,
        resolution=resolution,
        batch_len=batch_len,
    )
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == QOS:
            join.qos = _read_qos(chain.body())
        elif chain.header == SHM:
            join.shm = chain.block("shared-memory probe")
        elif chain.header == PATCH:
            join.patch = chain.z64("patch", 0)
        else:
            chain.keep()
    join.extras = chain.extras()
    return join


def describe(join: Join) -> Tree:
    """A JOIN as a tree."""
    tree: Tree = {
        "msg": NAME,
        "version": join.version,
        "whatami": ROLE_NAMES[join.whatami],
        "zid": join.zid.hex(),
    }
    if join.resolution != RESOLUTION_DEFAULT or join.batch_len != BATCH_LEN_DEFAULT:
        tree["resolution"] = resolution_tree(join.resolution)
        tree["batch_size"] = join.batch_len
    tree["lease"] = join.lease
    tree["lease_unit"] = "s" if join.lease_in_seconds else "ms"
    tree["next_sn"] = _next_sn_tree(join.next_sn)
    add_extensions(tree, _chain(join), EXTENSIONS, join.extras)
    return tree


def _read_next_sn(reader: Reader) -> NextSn:
    return NextSn(reader.z64("next sn, reliable"), reader.z64("next sn, best effort"))


def _write_next_sn(writer: Writer, next_sn: NextSn) -> None:
    writer.z64(next_sn.reliable)
    writer.z64(next_sn.best_effort)


def _next_sn_tree(next_sn: NextSn) -> Tree:
    return {"reliable": next_sn.reliable, "best_effort": next_sn.best_effort}


def _read_qos(body: Reader) -> tuple[NextSn, ...]:
    pairs = tuple([_read_next_sn(body) for _ in range(PRIORITIES)])
    body.finish("JOIN QoS")
    return pairs


def _chain(join: Join) -> Chain:
    chain = Chain(join.extras)
    if join.qos is not None:
        if len(join.qos) != PRIORITIES:
            raise ValueError(f"JOIN QoS has {PRIORITIES} pairs, got {len(join.qos)}")
        writer = Writer()
        for pair in join.qos:
            _write_next_sn(writer, pair)
        chain.body(QOS, writer)
    if join.shm is not None:
        chain.add(SHM, join.shm)
    chain.add(PATCH, join.patch, present=join.patch != 0)
    return chain
