"""The family Message, as classes.

Generated from src/elea/xrce/schema/messages.xrce by tools/gen_xrce.py: do not edit.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from elea.xrce.buffer import Record
from elea.xrce.declaration_records import Declaration, Property

SCOUT_ID: Final = 1
HELLO_ID: Final = 2
OPEN_ID: Final = 3
ACCEPT_ID: Final = 4
CLOSE_ID: Final = 5
DECLARE_ID: Final = 6
STREAM_DATA_ID: Final = 7
BATCHED_DATA_ID: Final = 8
WRITE_DATA_ID: Final = 9
QUERY_ID: Final = 10
PULL_ID: Final = 11
PING_ID: Final = 12
PONG_ID: Final = 13
SYNCH_ID: Final = 14
ACK_NACK_ID: Final = 15
KEEP_ALIVE_ID: Final = 16
CONDUIT_CLOSE_ID: Final = 17
FRAG_ID: Final = 18
CONDUIT_ID: Final = 19
MIGRATE_ID: Final = 20
STREAM_DELTA_ID: Final = 21
BATCHED_DELTA_ID: Final = 22
WRITE_DELTA_ID: Final = 23


class Scout(Record):
    """Scout.

    |x|x|P|    1    |
    ~     mask      ~  nat
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("mask", "properties")

    def __init__(self, *, mask: int, properties: tuple[Property, ...] | None = None) -> None:
        self.mask: Final = mask
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("mask", "properties")


class Hello(Record):
    """Hello.

    |x|x|P|    2    |
    ~     mask      ~  nat
    ~   locators    ~  [Locator]
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("locators", "mask", "properties")

    def __init__(
        self,
        *,
        mask: int,
        locators: tuple[bytes, ...],
        properties: tuple[Property, ...] | None = None,
    ) -> None:
        self.mask: Final = mask
        self.locators: Final = locators
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("mask", "locators", "properties")


class Open(Record):
    """Open.

    |x|x|P|    3    |
    |    version    |  byte
    ~      pid      ~  [byte]
    ~     lease     ~  nat
    ~   locators    ~  [Locator]
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("lease", "locators", "pid", "properties", "version")

    def __init__(
        self,
        *,
        version: int,
        pid: bytes,
        lease: int,
        locators: tuple[bytes, ...],
        properties: tuple[Property, ...] | None = None,
    ) -> None:
        self.version: Final = version
        self.pid: Final = pid
        self.lease: Final = lease
        self.locators: Final = locators
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("version", "pid", "lease", "locators", "properties")


class Accept(Record):
    """Accept.

    |x|x|P|    4    |
    ~    openPid    ~  [byte]
    ~   acceptPid   ~  [byte]
    ~     lease     ~  nat
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("accept_pid", "lease", "open_pid", "properties")

    def __init__(
        self,
        *,
        open_pid: bytes,
        accept_pid: bytes,
        lease: int,
        properties: tuple[Property, ...] | None = None,
    ) -> None:
        self.open_pid: Final = open_pid
        self.accept_pid: Final = accept_pid
        self.lease: Final = lease
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("open_pid", "accept_pid", "lease", "properties")


class Close(Record):
    """Close.

    |x|x|x|    5    |
    ~      pid      ~  [byte]
    |    reason     |  byte
    """

    __slots__ = ("pid", "reason")

    def __init__(self, *, pid: bytes, reason: int) -> None:
        self.pid: Final = pid
        self.reason: Final = reason

    def members(self) -> tuple[str, ...]:
        return ("pid", "reason")


class Declare(Record):
    """Declare.

    |x|C|S|    6    |
    ~      sn       ~  nat
    ~ declarations  ~  [Declaration]
    """

    __slots__ = ("committed", "declarations", "sn", "sync")

    def __init__(
        self, *, sync: bool, committed: bool, sn: int, declarations: tuple[Declaration, ...]
    ) -> None:
        self.sync: Final = sync
        self.committed: Final = committed
        self.sn: Final = sn
        self.declarations: Final = declarations

    def members(self) -> tuple[str, ...]:
        return ("sync", "committed", "sn", "declarations")


class StreamData(Record):
    """StreamData.

    |A|R|S|    7    |
    ~      sn       ~  nat
    ~      id       ~  nat
    ~     prid      ~  nat, if A
    ~    payload    ~  [byte]
    """

    __slots__ = ("id", "payload", "prid", "reliable", "sn", "sync")

    def __init__(
        self,
        *,
        reliable: bool,
        sync: bool,
        sn: int,
        id: int,
        prid: int | None = None,
        payload: bytes,
    ) -> None:
        self.reliable: Final = reliable
        self.sync: Final = sync
        self.sn: Final = sn
        self.id: Final = id
        self.prid: Final = prid
        self.payload: Final = payload

    def members(self) -> tuple[str, ...]:
        return ("reliable", "sync", "sn", "id", "prid", "payload")


class BatchedDataPayloadPart(Record):
    """BatchedDataPayloadPart: prid, payload."""

    __slots__ = ("payload", "prid")

    def __init__(self, *, prid: int, payload: bytes) -> None:
        self.prid: Final = prid
        self.payload: Final = payload

    def members(self) -> tuple[str, ...]:
        return ("prid", "payload")


class BatchedData(Record):
    """BatchedData.

    |A|R|S|    8    |
    ~      sn       ~  nat
    ~      id       ~  nat
    ~    payload    ~  [[byte]], if not A
    ~    payload    ~  [{prid: nat, payload: [byte]}], if A
    """

    __slots__ = ("has_prid", "id", "payload", "reliable", "sn", "sync")

    def __init__(
        self,
        *,
        reliable: bool,
        sync: bool,
        sn: int,
        id: int,
        has_prid: bool,
        payload: tuple[bytes, ...] | tuple[BatchedDataPayloadPart, ...],
    ) -> None:
        self.reliable: Final = reliable
        self.sync: Final = sync
        self.sn: Final = sn
        self.id: Final = id
        self.has_prid: Final = has_prid
        self.payload: Final = payload

    def members(self) -> tuple[str, ...]:
        return ("reliable", "sync", "sn", "id", "has_prid", "payload")


class WriteData(Record):
    """WriteData.

    |x|R|S|    9    |
    ~      sn       ~  nat
    ~   resource    ~  string
    ~    payload    ~  [byte]
    """

    __slots__ = ("payload", "reliable", "resource", "sn", "sync")

    def __init__(
        self, *, reliable: bool, sync: bool, sn: int, resource: bytes, payload: bytes
    ) -> None:
        self.reliable: Final = reliable
        self.sync: Final = sync
        self.sn: Final = sn
        self.resource: Final = resource
        self.payload: Final = payload

    def members(self) -> tuple[str, ...]:
        return ("reliable", "sync", "sn", "resource", "payload")


class Pull(Record):
    """Pull.

    |x|N|S|   11    |
    ~      sn       ~  nat
    ~      id       ~  nat
    ~    pullId     ~  nat
    ~  maxSamples   ~  nat, if N
    """

    __slots__ = ("id", "max_samples", "pull_id", "sn", "sync")

    def __init__(
        self, *, sync: bool, sn: int, id: int, pull_id: int, max_samples: int | None = None
    ) -> None:
        self.sync: Final = sync
        self.sn: Final = sn
        self.id: Final = id
        self.pull_id: Final = pull_id
        self.max_samples: Final = max_samples

    def members(self) -> tuple[str, ...]:
        return ("sync", "sn", "id", "pull_id", "max_samples")


class Ping(Record):
    """Ping.

    |x|x|x|   12    |
    ~     hash      ~  nat
    """

    __slots__ = ("hash",)

    def __init__(self, *, hash: int) -> None:
        self.hash: Final = hash

    def members(self) -> tuple[str, ...]:
        return ("hash",)


class Pong(Record):
    """Pong.

    |x|x|x|   13    |
    ~     hash      ~  nat
    """

    __slots__ = ("hash",)

    def __init__(self, *, hash: int) -> None:
        self.hash: Final = hash

    def members(self) -> tuple[str, ...]:
        return ("hash",)


class Synch(Record):
    """Synch.

    |U|R|S|   14    |
    ~      sn       ~  nat
    ~     count     ~  nat, if U
    """

    __slots__ = ("count", "reliable", "sn", "sync")

    def __init__(self, *, reliable: bool, sync: bool, sn: int, count: int | None = None) -> None:
        self.reliable: Final = reliable
        self.sync: Final = sync
        self.sn: Final = sn
        self.count: Final = count

    def members(self) -> tuple[str, ...]:
        return ("reliable", "sync", "sn", "count")


class AckNack(Record):
    """AckNack.

    |x|x|M|   15    |
    ~      sn       ~  nat
    ~     mask      ~  nat, if M
    """

    __slots__ = ("mask", "sn")

    def __init__(self, *, sn: int, mask: int | None = None) -> None:
        self.sn: Final = sn
        self.mask: Final = mask

    def members(self) -> tuple[str, ...]:
        return ("sn", "mask")


class KeepAlive(Record):
    """KeepAlive.

    |x|x|x|   16    |
    ~      pid      ~  [byte]
    """

    __slots__ = ("pid",)

    def __init__(self, *, pid: bytes) -> None:
        self.pid: Final = pid

    def members(self) -> tuple[str, ...]:
        return ("pid",)


class Frag(Record):
    """Frag.

    |x|N|x|   18    |
    ~    snBase     ~  nat
    ~       n       ~  nat, if N
    """

    __slots__ = ("n", "sn_base")

    def __init__(self, *, sn_base: int, n: int | None = None) -> None:
        self.sn_base: Final = sn_base
        self.n: Final = n

    def members(self) -> tuple[str, ...]:
        return ("sn_base", "n")


class ConduitIdPart(Record):
    """ConduitIdPart: id1, id0."""

    __slots__ = ("id0", "id1")

    def __init__(self, *, id1: bool, id0: bool) -> None:
        self.id1: Final = id1
        self.id0: Final = id0

    def members(self) -> tuple[str, ...]:
        return ("id1", "id0")


class Conduit(Record):
    """Conduit.

    |Z|H|L|   19    |
    ~      id       ~  nat, if not Z
    """

    __slots__ = ("compact", "id")

    def __init__(self, *, compact: bool, id: int | ConduitIdPart) -> None:
        self.compact: Final = compact
        self.id: Final = id

    def members(self) -> tuple[str, ...]:
        return ("compact", "id")


Message: TypeAlias = (
    Scout
    | Hello
    | Open
    | Accept
    | Close
    | Declare
    | StreamData
    | BatchedData
    | WriteData
    | Pull
    | Ping
    | Pong
    | Synch
    | AckNack
    | KeepAlive
    | Frag
    | Conduit
)
