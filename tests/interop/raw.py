"""A raw Elea transport in the place of an Eclipse node, to say what Eclipse says only now and then.

What a node must understand is fixed by the protocol; when an Eclipse node happens to say it is not.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.interop.blocking_node import Node
from tests.interop.ends import ELEA, WAIT_S, open_session, settings_of

from elea.transport.negotiation import Offer
from elea.wire.codec import NetworkMessage
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest

ROUTER = 0
PEER = 1
CLIENT = 2
M = TypeVar("M")


@contextmanager
def accepted(
    mode: str, whatami: int = ROUTER, more: Mapping[str, object] | None = None
) -> Iterator[tuple[Any, Node]]:
    """A session of Elea that dialled a raw node: (session, node)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"tcp/127.0.0.1:{listener.getsockname()[1]}"
        settings = settings_of(mode, connect=endpoint, more=more)
        opened: list[Any] = []
        thread = threading.Thread(target=lambda: opened.append(open_session(ELEA, settings)))
        thread.start()
        node = Node.accept(listener, Offer(zid=b"\x0e\x2e", whatami=whatami))
    thread.join(WAIT_S)
    [session] = opened
    try:
        yield session, node
    finally:
        session.close()
        node.release()


def declare(body: Declaration, interest_id: int | None = None) -> Declare:
    """A declaration, as Eclipse nodes send it."""
    return Declare(body, interest_id, qos=QOS_DECLARE)


def final(interest_id: int) -> Declare:
    """The end of what is current for an interest."""
    return declare(DeclareFinal(), interest_id)


def key(text: str) -> WireExpr:
    """A key in full."""
    return WireExpr(0, text)


def heard(node: Node, kind: type[M]) -> list[M]:
    """The messages of one kind, or the bodies of declarations of one kind, received so far."""
    messages: list[NetworkMessage] = node.sink.messages
    bodies = [one.body for one in messages if isinstance(one, Declare)]
    return [one for one in [*messages, *bodies] if isinstance(one, kind)]


def wait_for(node: Node, kind: type[M], count: int = 1) -> list[M]:
    """Wait until so many of a kind were received."""
    node.run_until(lambda: len(heard(node, kind)) >= count, WAIT_S)
    return heard(node, kind)


def interests(node: Node) -> list[Interest]:
    """The interests received so far."""
    return heard(node, Interest)
