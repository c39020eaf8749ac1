"""What the access rules of neighbours refused, and how to be sure that they have decided.

Zenoh has no answer to a sample or a declaration. Routers handle the messages of a link in their
order, and answer an interest: once that answer is here, all that was sent before was handled, and
what was refused was told (`elea.wire.network.refused`).
"""

from __future__ import annotations

from elea.errors import ClosedError
from elea.ids import WhatAmI, ZenohId
from elea.records import dataclass
from elea.session.context import Context
from elea.session.handlers import Delivery, FifoChannel, Handler
from elea.session.ports import NodePort


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action on a key that the access rules of a neighbour did not allow."""

    zid: ZenohId
    whatami: WhatAmI
    action: str  # as access rules name it: put, declare_subscriber, query
    key_expr: str

    def __str__(self) -> str:
        return (
            f"refused by {self.whatami} {self.zid}: {self.action} on {self.key_expr}:"
            " its access rules do not allow it; its audit names the rule"
        )


def refusals_of(context: Context) -> list[Refusal]:
    """Return what neighbours refused so far, oldest first."""
    prefix = context.core.face.prefix
    return [
        Refusal(
            ZenohId.from_bytes(one.zid),
            WhatAmI.from_index(one.whatami),
            one.action,
            one.key.removeprefix(prefix),
        )
        for one in context.read(context.driver.refusals)
    ]


def wait_decided(context: Context, key: str, timeout_s: float) -> bool:
    """Wait until the routers of this node have handled all that was sent; False if they have not.

    Args:
        context: The session.
        key: The routers are asked for subscribers to it: nothing else is asked for by fewer bytes.
        timeout_s: How long to wait.
    """
    driver, interests = context.driver, context.core.writers.interests
    deadline_ns = driver.now_ns() + int(timeout_s * 1e9)
    # An interest goes before samples of a lower priority that are queued.
    if not driver.wait_room(lambda: _is_written(driver.node), deadline_ns):
        return False
    delivery: Delivery[None] = Delivery(FifoChannel(1))
    assert isinstance(delivery.handler, Handler)
    asked = context.call(lambda: interests.ask_once(key, delivery.outlet))
    try:
        delivery.handler.recv(max(deadline_ns - driver.now_ns(), 0) / 1e9)
    except ClosedError:  # END: the answer is complete
        return True
    except TimeoutError:
        return False
    finally:
        context.call(lambda: interests.withdraw(asked))
    return True


def _is_written(node: NodePort) -> bool:
    """Whether no message waits for its turn; those in the queue of a link keep their order."""
    egress = node.direct
    if egress is None:
        return not node.is_congested()
    queues = [one.queues for one in egress.outlets.values() if one.queues is not None]
    return not node.is_congested() and not any(one.pending_len() for one in queues)
