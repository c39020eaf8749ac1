"""Every bound, with its unit and its reason.

Two kinds live here. The constants are inherent in the wire format and never change. `Limits` holds
what an operator may tighten or widen: each collection, length and rate that a peer can reach takes
its bound from one. A field's name ends in its unit: `_len` bytes, `_count` items, `_ns`
nanoseconds, `_depth` levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Inherent in the format (wire.md 2.20).
VLE_LEN_MAX: Final = 9  # the ninth octet carries eight bits and no continuation
ZID_LEN_MAX: Final = 16
BATCH_LEN_MAX: Final = 65_535  # the stream length prefix is a u16
KEY_SUFFIX_LEN_MAX: Final = 65_535
EXPR_ID_MAX: Final = 65_535
LOCATOR_LEN_MAX: Final = 255
SCHEMA_LEN_MAX: Final = 255
REGION_NAME_LEN_MAX: Final = 32
TIMESTAMP_STACK_COUNT_MAX: Final = 255
LOW_LATENCY_LEN_MAX: Final = 0xFFFF_FFFF  # the low-latency prefix is a u32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one node. The defaults suit a router on an untrusted network."""

    # Codec: what one message may make us allocate (threats T02 to T04).
    extensions_count: int = 32  # per message; none defines more than nine
    locators_count: int = 64  # per HELLO or link-state record
    linkstate_records_count: int = 2_048  # per OAM; one record per node of the network
    linkstate_links_count: int = 8_192  # per OAM, over all its records
    shm_slices_count: int = 64  # per payload; one of ten octets becomes an object of 200
    decompressed_len: int = BATCH_LEN_MAX  # an LZ4 block never grows past a batch (T08)
    message_len: int = 64 * 1024 * 1024  # one reassembled network message (T05)
    fragments_len: int = 64 * 1024 * 1024  # all unfinished messages of one conversation

    # Key expressions: matching is O(n*m), these keep n and m small (T20).
    keyexpr_len: int = 1_024
    keyexpr_chunks_count: int = 64
    keyexpr_double_wild_count: int = 16  # `**` per expression
    keyexpr_sub_wild_count: int = 8  # `$*` per chunk

    # Routing: what one neighbour may make us remember (T22 to T27). Sessions of our own process
    # are exempt where a bound guards against strangers only.
    aliases_count: int = 4_096  # per face and direction
    declarations_count: int = 10_000  # entities per face, over all kinds
    interests_count: int = 256  # per face; each may return every declaration
    queries_count: int = 1_024  # open queries per face that asked
    query_timeout_ns: int = 60 * 1_000_000_000  # longest a forwarded query stays open
    query_replies_count: int = 100_000  # per query
    query_replies_len: int = 256 * 1024 * 1024  # payload octets per query
    routes_count: int = 4_096  # cached routes per region and kind of message
    gossip_nodes_count: int = 2_048  # psids remembered per neighbour, and candidates not fetched

    # Texts handed to us by users and files.
    selector_len: int = 65_535
    config_len: int = 1024 * 1024
    config_depth: int = 32
    config_nodes_count: int = 20_000


DEFAULT_LIMITS: Final = Limits()
