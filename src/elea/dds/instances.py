"""Publishers for keys of instances: a bounded number, least recently used first out (D-502)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from elea.encoding import Encoding
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SourceInfo
from elea.qos import CongestionControl
from elea.session.publisher import Publisher
from elea.session.session import Session
from elea.timestamp import Timestamp

_PUBLISHERS_COUNT_MAX: Final = 1_024


class InstancePublishers:
    """Puts and deletes on keys that come and go."""

    def __init__(self, session: Session, undeclare: Callable[..., None]) -> None:
        self._session = session
        self._undeclare = undeclare
        self._publishers: OrderedDict[tuple[str, bool], Publisher] = OrderedDict()

    def send(
        self,
        key: str,
        payload: bytes | None,
        *,
        encoding: Encoding,
        attachment: bytes | None,
        timestamp: Timestamp | None,
        source_info: SourceInfo | None,
        blocks: bool,
    ) -> bool:
        """Put a value, or delete without one, if there is room; False if not."""
        publisher = self._publisher(key, encoding, blocks=blocks)
        if payload is None:
            return publisher.try_delete(
                attachment=attachment, timestamp=timestamp, source_info=source_info
            )
        return publisher.try_put(
            payload, attachment=attachment, timestamp=timestamp, source_info=source_info
        )

    def close(self) -> None:
        """Undeclare all."""
        self._undeclare(*self._publishers.values())
        self._publishers.clear()

    def _publisher(self, key: str, encoding: Encoding, *, blocks: bool) -> Publisher:
        found = self._publishers.get((key, blocks))
        if found is None:
            found = self._publishers[key, blocks] = self._session.declare_publisher(
                KeyExpr(key),
                encoding=encoding,
                congestion_control=CongestionControl.BLOCK if blocks else CongestionControl.DROP,
            )
            if len(self._publishers) > _PUBLISHERS_COUNT_MAX:
                _, oldest = self._publishers.popitem(last=False)
                self._undeclare(oldest)
        else:
            self._publishers.move_to_end((key, blocks))
        return found
