"""A sample between devices and the data space."""

from __future__ import annotations

from dataclasses import dataclass

from elea.encoding import Encoding
from elea.timestamp import Timestamp
from elea.xrce.names import from_key
from elea.xrce.qualities import Level


@dataclass(slots=True, frozen=True, kw_only=True)
class Sample:
    """What was written to one key. `path` is the key as devices spell it, without the scheme."""

    key: str
    path: str
    payload: bytes
    timestamp: Timestamp
    encoding: Encoding = Encoding.ZENOH_BYTES
    reliable: bool = True
    level: Level | None = None  # None: nothing says it, so that it satisfies every request
    deleted: bool = False
    priority: int = 5

    @classmethod
    def of_key(
        cls,
        key: str,
        payload: bytes,
        timestamp: Timestamp,
        *,
        encoding: Encoding = Encoding.ZENOH_BYTES,
        reliable: bool = True,
        deleted: bool = False,
        level: Level | None = None,
    ) -> Sample:
        """A sample of the data space."""
        return cls(
            key=key,
            path=from_key(key).path,
            payload=payload,
            timestamp=timestamp,
            encoding=encoding,
            reliable=reliable,
            deleted=deleted,
            level=level,
        )
