"""Authentication of an Open by a key that both ends have: property 12, `psk` (19.3).

The value is an octet 1, the time in milliseconds as 8 octets, and an HMAC-SHA256 of the pid, the
version, the lease as a number of the wire, and that time. It is good within 30 seconds of the
acceptor's clock, and once. It says who opened a session, and nothing about what comes after.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from elea.xrce.message_records import Open
from elea.xrce.properties import nat

KIND_PSK: Final = 1
SKEW_MS: Final = 30_000
OPENS_COUNT: Final = 64  # of one device that are remembered, a minute of them
_TIME_LEN: Final = 8
_PROOF_LEN: Final = 1 + _TIME_LEN + 32


def psk_proof(key: bytes, pid: bytes, version: int, lease: int, time_ms: int) -> bytes:
    """The value of property 12.

    Example:
        >>> psk_proof(b"key", b"\\x01", 1, 100, 0)[:9].hex(" ")
        '01 00 00 00 00 00 00 00 00'
    """
    time = time_ms.to_bytes(_TIME_LEN, "big")
    told = pid + bytes((version,)) + nat(lease) + time
    return bytes((KIND_PSK,)) + time + hmac.digest(key, told, "sha256")


class PskProver:
    """What an initiator says: a value for each Open, no two of the same time.

    Args:
        key: The device's.
        time_ms: The time of day, in milliseconds since 1970.
    """

    def __init__(self, key: bytes, time_ms: Callable[[], int]) -> None:
        self._key = key
        self._time_ms = time_ms
        self._last_ms = 0

    def __call__(self, pid: bytes, version: int, lease: int) -> bytes:
        self._last_ms = max(self._time_ms(), self._last_ms + 1)
        return psk_proof(self._key, pid, version, lease, self._last_ms)


class PskChecker:
    """What an acceptor asks: whether an Open has the key of its device.

    Args:
        key_of: The key of a pid; None if it has none, and then it is refused.
        time_ms: The time of day, in milliseconds since 1970.
    """

    def __init__(self, key_of: Callable[[bytes], bytes | None], time_ms: Callable[[], int]) -> None:
        self.refused_count = 0
        self._key_of = key_of
        self._time_ms = time_ms
        self._seen: dict[bytes, list[int]] = {}  # times that were accepted, by pid

    def __call__(self, message: Open, value: bytes | None) -> bool:
        accepted = value is not None and self._accepts(message, value[:_PROOF_LEN])
        self.refused_count += not accepted
        return accepted

    def _accepts(self, message: Open, value: bytes) -> bool:
        key = self._key_of(message.pid)
        if key is None or len(value) < _PROOF_LEN or value[0] != KIND_PSK:
            return False
        told_ms, now_ms = int.from_bytes(value[1 : 1 + _TIME_LEN], "big"), self._time_ms()
        expected = psk_proof(key, message.pid, message.version, message.lease, told_ms)
        if not hmac.compare_digest(expected, value) or abs(now_ms - told_ms) > SKEW_MS:
            return False
        # Only who has the key comes so far, so that strangers fill no memory.
        seen = [one for one in self._seen.get(message.pid, ()) if one >= now_ms - SKEW_MS]
        if told_ms in seen or len(seen) >= OPENS_COUNT:
            return False
        self._seen[message.pid] = [*seen, told_ms]
        return True
