"""Link state and gossip: the body of network OAM 1. wire.md 9.

% count : z64   %
+---------------+
~ record        ~   count times
+---------------+

record:
% options : z64 %   bit 0 PID zid present, 1 WAI role present, 2 LOC locators present,
+---------------+   3 WGT weights present, 4 GWY the node is a gateway
% psid : z64    %   the described node in the sender's numbering
+---------------+
%   sn : z64    %   version of this description
+---------------+
~ [zid <u8;z64>]~   if PID
+---------------+
| [whatami: u8] |   if WAI: 1 router, 2 peer, 4 client
+---------------+
~ [locators]    ~   if LOC
+---------------+
% nlinks : z64  %
+---------------+
% psid : z64    %   nlinks times
+---------------+
% [weight: z16] %   if WGT: nlinks times
+---------------+
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from elea.errors import DecodeError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.records import dataclass
from elea.wire.buffer import Reader, Writer, check_zid
from elea.wire.extensions import Tree
from elea.wire.locators import read_locators, write_locators

OPTION_PID: Final = 0x01
OPTION_WAI: Final = 0x02
OPTION_LOC: Final = 0x04
OPTION_WGT: Final = 0x08
OPTION_GWY: Final = 0x10
_ROLES: Final = (1, 2, 4)


@dataclass(slots=True)
class LinkState:
    """What the sender knows of one node. `whatami` is a bitmap value; absent it reads as router.

    Links and weights are packed, whatever sequence they were given as: a tuple of two-octet numbers
    would cost twenty times their length.
    """

    psid: int
    sn: int
    zid: bytes | None = None
    whatami: int | None = None
    locators: tuple[str, ...] | None = None
    links: Sequence[int] = ()
    weights: Sequence[int] | None = None
    gateway: bool = False

    def __post_init__(self) -> None:
        self.links = array("Q", self.links)
        if self.weights is not None:
            self.weights = array("H", self.weights)


class LinkStateList:
    """The records of one message, to be iterated over.

    A decoded list is checked once and stays octets; its records are made one at a time, as they are
    asked for. A record of four octets costs thirty times that as an object: held all at once, one
    batch of them would be two megabytes.
    """

    __slots__ = ("_count", "_limits", "_packed", "_records")

    def __init__(self, records: Iterable[LinkState] = ()) -> None:
        self._records: tuple[LinkState, ...] | None = tuple(records)
        self._count = len(self._records)
        self._packed = b""
        self._limits = DEFAULT_LIMITS

    @classmethod
    def checked(cls, count: int, packed: bytes, limits: Limits) -> LinkStateList:
        """`count` records that stay octets; `decode` has found nothing wrong with them."""
        states = cls()
        states._records = None
        states._count = count
        states._packed = packed
        states._limits = limits
        return states

    def packed(self) -> bytes:
        """The records as octets; made once, as many neighbours may be told the same."""
        if self._records is None:
            return _packed(self)  # as we write them, whatever form they came in
        if not self._packed:
            self._packed = _packed(self)
        return self._packed

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[LinkState]:
        if self._records is not None:
            return iter(self._records)
        reader = Reader(self._packed, limits=self._limits)
        bound = self._limits.linkstate_links_count
        return (_read_record(reader, bound) for _ in range(self._count))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinkStateList):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as every message

    def __repr__(self) -> str:
        return f"LinkStateList({list(self)!r})"


def encode(writer: Writer, states: LinkStateList) -> None:
    """Write a list of records."""
    writer.z64(len(states))
    writer.raw(states.packed())


def _packed(states: Iterable[LinkState]) -> bytes:
    writer = Writer()
    for one in states:
        _write_record(writer, one)
    return writer.to_bytes()


def to_bytes(states: LinkStateList) -> bytes:
    """A list of records as octets."""
    writer = Writer()
    encode(writer, states)
    return writer.to_bytes()


def decode(reader: Reader) -> LinkStateList:
    """Read, and so check, a list of records that fills its Reader."""
    count = reader.z64("record count")
    bound = reader.limits.linkstate_records_count
    if count > bound:
        raise reader.error(f"link state holds at most {bound} records, got {count}")
    start = reader.pos
    links_left = reader.limits.linkstate_links_count
    for _ in range(count):
        links_left -= len(_read_record(reader, links_left).links)
    reader.finish("link state")
    return LinkStateList.checked(count, reader.data[start : reader.pos], reader.limits)


def describe(states: LinkStateList) -> list[Tree]:
    """The records as trees."""
    return [_record_tree(one) for one in states]


def _read_record(reader: Reader, links_left: int) -> LinkState:
    options = reader.z64("options")
    record = LinkState(reader.z64("psid"), reader.z64("sn"), gateway=bool(options & OPTION_GWY))
    trace = reader.trace
    if trace is not None:
        trace.depth += 1
    if options & OPTION_PID:
        length = reader.z64("zid length")
        at = reader.pos
        record.zid = check_zid(reader.take(length, "zid"), at)
    if options & OPTION_WAI:
        record.whatami = reader.u8("whatami")
        if record.whatami not in _ROLES:
            raise DecodeError(
                f"role is {record.whatami}, legal are 1 (router), 2 (peer), 4 (client)",
                reader.pos - 1,
            )
    if options & OPTION_LOC:
        record.locators = read_locators(reader)
    count = reader.z64("link count")
    if count > links_left:
        raise reader.error(
            f"link state holds at most {reader.limits.linkstate_links_count} links in all"
        )
    record.links = array("Q")
    for _ in range(count):
        record.links.append(reader.z64("link psid"))
    if options & OPTION_WGT:
        record.weights = array("H")
        for _ in range(count):
            record.weights.append(reader.z16("link weight"))
    if trace is not None:
        trace.depth -= 1
    return record


def _write_record(writer: Writer, record: LinkState) -> None:
    options = OPTION_GWY if record.gateway else 0
    if record.zid is not None:
        options |= OPTION_PID
    if record.whatami is not None:
        options |= OPTION_WAI
    if record.locators is not None:
        options |= OPTION_LOC
    if record.weights is not None:
        options |= OPTION_WGT
    for value in (options, record.psid, record.sn):
        writer.z64(value)
    if record.zid is not None:
        writer.block(record.zid)
    if record.whatami is not None:
        writer.u8(record.whatami)
    if record.locators is not None:
        write_locators(writer, record.locators)
    writer.z64(len(record.links))
    for psid in record.links:
        writer.z64(psid)
    if record.weights is not None:
        if len(record.weights) != len(record.links):
            raise ValueError("a link-state record has one weight per link")
        for weight in record.weights:
            writer.z64(weight)


def _record_tree(record: LinkState) -> Tree:
    tree: Tree = {"psid": record.psid, "sn": record.sn}
    if record.zid is not None:
        tree["zid"] = record.zid.hex()
    if record.whatami is not None:
        tree["whatami"] = record.whatami
    if record.locators is not None:
        tree["locators"] = list(record.locators)
    tree["links"] = list(record.links)
    if record.weights is not None:
        tree["weights"] = list(record.weights)
    tree["gateway"] = record.gateway
    return tree
