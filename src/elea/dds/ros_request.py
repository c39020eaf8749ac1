"""Requests and replies of ROS services, as rmw_cyclonedds writes them (D-666).

In DDS, 16 bytes stand between the header and the body: the id of the client and the number of
the request. On Zenoh they travel as the attachment of the query. Pure.

    DDS:    header (4) | client (8) | number (8) | body
    Zenoh:  header (4) | body           attachment: "rqh" | client (8) | number (8) | 1 or 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ID_LEN: Final = 16
_HEADER_LEN: Final = 4
_MARK: Final = b"rqh"
_LITTLE: Final = b"\0\1\0\0"
_KINDS: Final = (b"\0\0", b"\0\1")  # CDR 1, which ROS 2 uses


@dataclass(frozen=True, slots=True)
class RequestId:
    """The client and number of a request; `data` is in the byte order that the header says."""

    data: bytes
    is_little: bool = True

    @classmethod
    def make(cls, client: int, number: int, *, is_little: bool = True) -> RequestId:
        """Return the id of a request that the bridge makes itself."""
        order = "little" if is_little else "big"
        parts = client.to_bytes(8, order), number.to_bytes(8, order)  # type: ignore[arg-type]
        return cls(b"".join(parts), is_little)

    def to_attachment(self) -> bytes:
        """Return the attachment of a query.

        Example:
            >>> RequestId.make(1, 2).to_attachment().hex()
            '7271680100000000000000020000000000000001'
        """
        return _MARK + self.data + (b"\1" if self.is_little else b"\0")

    @classmethod
    def read(cls, attachment: bytes) -> RequestId | None:
        """Return the id in an attachment; None if there is none."""
        if len(attachment) != len(_MARK) + ID_LEN + 1 or not attachment.startswith(_MARK):
            return None
        return cls(attachment[3:-1], attachment[-1] != 0)


def to_dds(payload: bytes, id_: RequestId) -> bytes | None:
    """Return a sample of DDS from a payload of Zenoh; None if the payload is no CDR.

    A query without a payload is a request without members.
    """
    if not payload:
        return (_LITTLE if id_.is_little else bytes(4)) + id_.data
    if len(payload) < _HEADER_LEN or payload[:2] not in _KINDS:
        return None
    return payload[:_HEADER_LEN] + id_.data + payload[_HEADER_LEN:]


def from_dds(sample: bytes) -> tuple[RequestId, bytes] | None:
    """Return the id and the payload of Zenoh from a sample of DDS; None if it is too short."""
    if len(sample) < _HEADER_LEN + ID_LEN or sample[:2] not in _KINDS:
        return None
    id_ = RequestId(sample[_HEADER_LEN : _HEADER_LEN + ID_LEN], bool(sample[1] & 1))
    return id_, sample[:_HEADER_LEN] + sample[_HEADER_LEN + ID_LEN :]


def is_little(payload: bytes) -> bool:
    """Whether a payload is little endian; one that does not say is."""
    return len(payload) < 2 or bool(payload[1] & 1)


def service_id(guid: bytes, number: int) -> str:
    """Return the id that the endpoints of a service have in their user data (D-666).

    Example:
        >>> service_id(bytes.fromhex("01100a0b0c0d0e0f10111213000001c1"), 7)
        ' 1.10.a.b.c.d.e.f.10.11.12.13.0.0.0.7'
    """
    octets = guid[:12] + number.to_bytes(4, "big")
    first, *others = (f"{one:x}" for one in octets)
    return ".".join((f"{first:>2}", *others))
