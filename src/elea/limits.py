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

    # Texts handed to us by users and files.
    selector_len: int = 65_535
    config_len: int = 1024 * 1024
    config_depth: int = 32
    config_nodes_count: int = 20_000

    # Links: sockets, and those who knock (T09, T10, T49).
    link_addresses_count: int = 8  # tried at once per connection, over all names it has
    link_read_len: int = 65_536  # one read; a larger buffer costs a page fault per page, each time
    link_turn_len: int = 256 * 1024  # read from one link before the others have their turn
    link_turn_datagrams_count: int = 64  # the same for links where one read is one batch
    accept_pending_count: int = 512  # handshakes going on, over all listeners
    accept_pending_per_address_count: int = 32  # of one IPv4 address or IPv6 /64
    accept_turn_count: int = 64  # newcomers taken before the links have their turn
    accept_handshake_ns: int = 5_000_000_000  # from the first octet to the open session
    link_queue_len: int = 4 * 1024 * 1024  # waiting to be written to one link
    udp_sources_count: int = 1_000  # links of one UDP listener
    udp_inbox_len: int = 1024 * 1024  # datagrams of one source that nobody has read yet


DEFAULT_LIMITS: Final = Limits()
