"""CookieJar: an acceptor's memory, kept by the opener. wire.md 5.3, threats T10 and T12.

A cookie holds the terms of a handshake, sealed with a key that exists in this process only: a keyed
BLAKE2b over the terms, the expiry and the link's address. It opens once, for the address it was
sealed for, until it expires. What is inside is not secret: the opener has seen all of it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from elea.ids import Rng
from elea.limits import DEFAULT_LIMITS, Limits
from elea.transport.negotiation import Terms, refused
from elea.wire.buffer_hot import Reader, Writer
from elea.wire.transport.close import CloseReason
from elea.wire.transport.establishment import unpack_qos_link

_KEY_LEN: Final = 32
_TAG_LEN: Final = 16
_SALT_LEN: Final = 8  # two equal handshakes get two cookies

_QOS: Final = 0x01
_LOW_LATENCY: Final = 0x02
_COMPRESSION: Final = 0x04
_NONCE: Final = 0x08
_REGION: Final = 0x10
_QOS_LINK: Final = 0x20


class CookieJar:
    """Seals and opens the cookies of one node."""

    __slots__ = ("_key", "_limits", "_rng", "_used")

    def __init__(self, rng: Rng, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._rng = rng
        self._key = rng(_KEY_LEN)
        self._limits = limits
        self._used: dict[bytes, int] = {}  # tag to expiry, oldest first

    def nonce(self) -> int:
        """A fresh 64-bit challenge for user/password."""
        return int.from_bytes(self._rng(8), "little")

    def seal(self, terms: Terms, address: str, now_ns: int) -> bytes:
        """A cookie that holds `terms`, for whoever is at `address`."""
        writer = Writer()
        writer.raw(self._rng(_SALT_LEN))
        writer.z64(now_ns + self._limits.cookie_ns)
        _write_terms(writer, terms)
        body = writer.to_bytes()
        return self._tag(body, address) + body

    def open(self, cookie: bytes, address: str, now_ns: int) -> Terms:
        """The terms inside `cookie`, once.

        Raises:
            RemoteProtocolError: if it is not ours, not for this address, too old or used.
        """
        tag, body = cookie[:_TAG_LEN], cookie[_TAG_LEN:]
        if not hmac.compare_digest(tag, self._tag(body, address)):
            raise refused("the cookie is not the one that was sent", CloseReason.INVALID)
        reader = Reader(body, start=_SALT_LEN)  # what we sealed is well-formed
        expiry_ns = reader.z64("expiry")
        if now_ns >= expiry_ns:
            raise refused("the cookie has expired", CloseReason.INVALID)
        if tag in self._used:
            raise refused("the cookie was used before", CloseReason.INVALID)
        self._forget(now_ns)
        self._used[tag] = expiry_ns
        return _read_terms(reader)

    def _forget(self, now_ns: int) -> None:
        """Drop tags that have expired, and the oldest when there are too many."""
        while self._used:
            oldest = next(iter(self._used))
            full = len(self._used) >= self._limits.cookies_used_count
            if self._used[oldest] > now_ns and not full:
                return
            del self._used[oldest]

    def _tag(self, body: bytes, address: str) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=_TAG_LEN)
        digest.update(len(body).to_bytes(8, "little"))
        digest.update(body)
        digest.update(address.encode(errors="surrogatepass"))
        return digest.digest()


def _write_terms(writer: Writer, terms: Terms) -> None:
    flags = (
        (_QOS if terms.qos else 0)
        | (_LOW_LATENCY if terms.low_latency else 0)
        | (_COMPRESSION if terms.compression else 0)
        | (_NONCE if terms.nonce is not None else 0)
        | (_REGION if terms.peer_region_name is not None else 0)
        | (_QOS_LINK if terms.qos_link is not None else 0)
    )
    writer.u8(flags)
    writer.block(terms.peer_zid)
    writer.u8(terms.peer_whatami)
    writer.u16le(terms.batch_len)
    writer.u8(terms.resolution)
    writer.z64(terms.patch)
    if terms.nonce is not None:
        writer.z64(terms.nonce)
    if terms.peer_region_name is not None:
        writer.text(terms.peer_region_name)
    if terms.qos_link is not None:
        writer.z64(terms.qos_link.pack())


def _read_terms(reader: Reader) -> Terms:
    flags = reader.u8("flags")
    zid = reader.take(reader.z8("zid length"), "zid")
    whatami = reader.u8("role")
    batch_len = reader.u16le("batch size")
    resolution = reader.u8("resolution")
    patch = reader.z64("patch")
    nonce = reader.z64("nonce") if flags & _NONCE else None
    region = None
    if flags & _REGION:
        region = reader.utf8(reader.z8("region length"), "region name")
    qos_link = unpack_qos_link(reader.z64("QoS link"), reader) if flags & _QOS_LINK else None
    return Terms(
        peer_zid=zid,
        peer_whatami=whatami,
        batch_len=batch_len,
        resolution=resolution,
        qos=bool(flags & _QOS),
        patch=patch,
        low_latency=bool(flags & _LOW_LATENCY),
        compression=bool(flags & _COMPRESSION),
        qos_link=qos_link,
        peer_region_name=region,
        nonce=nonce,
    )
