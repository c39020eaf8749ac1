"""CookieJar: an acceptor's memory, kept by the opener. wire.md 5.3, threats T10 and T12.

A cookie holds the terms of a handshake, sealed with a key that exists in this process only: a keyed
BLAKE2b over the terms, the expiry and the link's address. It opens once, for the address it was
sealed for, until it expires. What is inside is not secret: the opener has seen all of it.

Cookies are numbered. Which of the last ones were used is a bit each; a cookie that is older than
those has expired.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from elea.errors import RemoteProtocolError
from elea.ids import Rng
from elea.limits import DEFAULT_LIMITS, Limits
from elea.transport.exchange import read_terms, write_terms
from elea.transport.negotiation import Terms, refused
from elea.wire.buffer import Reader, Writer
from elea.wire.transport.close import CloseReason

_KEY_LEN: Final = 32
_TAG_LEN: Final = 16


class CookieJar:
    """Seals and opens the cookies of one node."""

    __slots__ = ("_key", "_limits", "_rng", "_sealed_count", "_used")

    def __init__(self, rng: Rng, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._rng = rng
        self._key = rng(_KEY_LEN)
        self._limits = limits
        self._sealed_count = 0
        self._used = bytearray(-(-limits.cookies_count // 8))  # a bit each, by number

    def nonce(self) -> int:
        """A fresh 64-bit challenge for user/password."""
        return int.from_bytes(self._rng(8), "little")

    def seal(self, terms: Terms, address: str, now_ns: int) -> bytes:
        """A cookie that holds `terms`, for whoever is at `address`."""
        index, bit = self._place(self._sealed_count)
        self._used[index] &= ~bit
        writer = Writer()
        writer.z64(self._sealed_count)  # so that two equal handshakes get two cookies
        writer.z64(now_ns + self._limits.cookie_ns)
        write_terms(writer, terms)
        self._sealed_count += 1
        body = writer.to_bytes()
        return self._tag(body, address) + body

    def open(self, cookie: bytes, address: str, now_ns: int) -> Terms:
        """The terms inside `cookie`, once.

        Raises:
            RemoteProtocolError: if it is not ours, not for this address, too old or used.
        """
        reader, index, bit = self._check(cookie, address, now_ns)
        self._used[index] |= bit
        return read_terms(reader)

    def is_valid(self, cookie: bytes, address: str, now_ns: int) -> bool:
        """Whether `open` would open it."""
        try:
            self._check(cookie, address, now_ns)
        except RemoteProtocolError:
            return False
        return True

    def _check(self, cookie: bytes, address: str, now_ns: int) -> tuple[Reader, int, int]:
        """What is inside after number and expiry, and where it stands whether it was used."""
        tag, body = cookie[:_TAG_LEN], cookie[_TAG_LEN:]
        if not hmac.compare_digest(tag, self._tag(body, address)):
            raise refused("the cookie is not the one that was sent", CloseReason.INVALID)
        reader = Reader(body)  # what we sealed is well-formed
        number = reader.z64("number")
        expiry_ns = reader.z64("expiry")
        if now_ns >= expiry_ns or number + self._limits.cookies_count < self._sealed_count:
            raise refused("the cookie has expired", CloseReason.INVALID)
        index, bit = self._place(number)
        if self._used[index] & bit:
            raise refused("the cookie was used before", CloseReason.INVALID)
        return reader, index, bit

    def _place(self, number: int) -> tuple[int, int]:
        """Where it stands whether a cookie was used: an octet and a bit of it."""
        index, shift = divmod(number % self._limits.cookies_count, 8)
        return index, 1 << shift

    def _tag(self, body: bytes, address: str) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=_TAG_LEN)
        digest.update(len(body).to_bytes(8, "little"))
        digest.update(body)
        digest.update(address.encode(errors="surrogatepass"))
        return digest.digest()
