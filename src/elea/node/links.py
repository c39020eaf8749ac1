"""Links: every link of a node, in its handshake or part of a transport, and what has to be written.

A link that ends stays here until the driver has written its last words and closed it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from elea.fast.intake import Intake
from elea.node.connector import Connector
from elea.node.ports import CloseLink, Effect, LinkInfo
from elea.records import dataclass, field
from elea.transport.handshake import Acceptor, Opener
from elea.wire.framing import StreamDecoder, frame

if TYPE_CHECKING:
    from elea.node.neighbour import Neighbour


@dataclass(slots=True)
class NodeLink:
    """One link: in its handshake, or part of a neighbour's transport."""

    id: int
    info: LinkInfo
    connector: Connector | None
    handshake: Opener | Acceptor | None
    stream: StreamDecoder | None
    since_ns: int
    outgoing: deque[bytes] = field(default_factory=deque)
    neighbour: Neighbour | None = None
    intake: Intake | None = None  # once it is part of a transport
    closing: bool = False
    waits_for: set[int] = field(default_factory=set)  # faces without room for what it brings

    def write(self, batch: bytes) -> None:
        """Queue a batch of a handshake."""
        self.outgoing.append(frame(batch) if self.info.stream else batch)


class Links:
    """The links of a node by number, and the numbers of those with something to pull.

    Links of multicast groups have numbers of the same series; only their writing is noted here.

    Args:
        ask: Takes effects for the driver.
    """

    __slots__ = ("_ask", "_by_id", "_dirty")

    def __init__(self, ask: Callable[[Effect], None]) -> None:
        self._ask = ask
        self._by_id: dict[int, NodeLink] = {}
        self._dirty: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, link_id: int) -> NodeLink | None:
        """Return a link, unless it is gone."""
        return self._by_id.get(link_id)

    def all(self) -> list[NodeLink]:
        """Return the links there are now; they may go while the caller looks at them."""
        return list(self._by_id.values())

    def infos(self, link_ids: Iterable[int]) -> list[LinkInfo]:
        """Return what the driver said of these links."""
        return [self._by_id[link_id].info for link_id in link_ids]

    def add(self, link: NodeLink) -> None:
        """Keep a link that was made."""
        self._by_id[link.id] = link

    def remove(self, link_id: int) -> NodeLink | None:
        """Forget a link that is closed."""
        self._dirty.pop(link_id, None)
        return self._by_id.pop(link_id, None)

    def end(self, link: NodeLink, reason: str) -> None:
        """Have the driver close a link once its last words are written."""
        if not link.closing:
            link.closing = True
            self._ask(CloseLink(link.id, reason))

    def mark_dirty(self, *link_ids: int) -> None:
        """Note links that have something to pull."""
        for link_id in link_ids:
            self._dirty[link_id] = None

    def is_dirty(self) -> bool:
        """Return whether a link has something to pull."""
        return bool(self._dirty)

    def take_dirty(self) -> list[int]:
        """Return the links with something to pull, once."""
        taken = list(self._dirty)
        self._dirty.clear()
        return taken
