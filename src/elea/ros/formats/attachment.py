"""The attachment of every message, request and reply: 33 bytes (R2-201).

0   8   sequence number, signed, from 1
8   8   source time, nanoseconds since 1970
16  1   16, the length of what follows
17  16  gid
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_FORM: Final = struct.Struct("<qqB16s")
ATTACHMENT_LEN: Final = _FORM.size
GID_LEN: Final = 16


class Attachment(NamedTuple):
    """Which message of which endpoint, and when it was published."""

    sequence_number: int
    source_time_ns: int
    gid: bytes

    def to_bytes(self) -> bytes:
        """As it travels."""
        return _FORM.pack(self.sequence_number, self.source_time_ns, GID_LEN, self.gid)


def parse_attachment(data: bytes) -> Attachment | None:
    """What an attachment says; None: it is none of rmw_zenoh.

    Example:
        >>> parse_attachment(Attachment(1, 2, bytes(16)).to_bytes()).sequence_number
        1
        >>> parse_attachment(b"short") is None
        True
    """
    if len(data) != ATTACHMENT_LEN:
        return None
    number, time_ns, length, gid = _FORM.unpack(data)
    return Attachment(number, time_ns, gid) if length == GID_LEN else None
