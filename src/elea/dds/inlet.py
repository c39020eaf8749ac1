"""Inlet: samples of a key on their way to DDS, from the session to the line of a route.

A route that takes the place of another one takes its inlet: samples that the session has received
and not delivered yet are in it, and a second subscriber would not get them (D-309). Threads of the
session call it, except `hand_over` and `close`, which the DDS thread does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elea.dds.line import FULL, Intake, Item, Line
from elea.dds.qos import KEEP_ALL
from elea.dds.rmw import RmwSubscriber, rmw_key
from elea.keyexpr.keyexpr import KeyExpr
from elea.qos import CongestionControl, Locality
from elea.sample import Sample
from elea.session.handlers import Callback

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.dds.to_dds import ToDds


class Inlet:
    """Receives the samples of a route's key.

    Args:
        bridge: Whose session it is.
        route: What the samples are for.
    """

    def __init__(self, bridge: Bridge, route: ToDds) -> None:
        self._bridge = bridge
        self._route = route
        self.line = Line(bridge.limits)
        settings, id_ = bridge.settings, route.id
        intake = Intake(
            self.line,
            self,
            checks_encoding=settings.check_encoding,
            len_max=bridge.limits.dds_sample_len,
        )
        origin = None if bridge.marks_own else Locality.REMOTE
        expr = id_.key + ("/*" if settings.has_instances(id_.key) else "")
        self._subscriber = bridge.session.declare_subscriber(
            KeyExpr(expr), Callback(intake.receive), allowed_origin=origin
        )
        rmw = rmw_key(bridge, route.plan, any_hash=True)
        self.rmw = None if rmw is None else RmwSubscriber(self, bridge, rmw, id_.key)

    def hand_over(self, route: ToDds) -> None:
        """Receive for another route of the same key from now on."""
        self._route = route
        self._bridge.upkeep.wake(route)

    def close(self) -> int:
        """Receive no more; returns how many samples were not written."""
        self.line.close()
        self._bridge.undeclare(self._subscriber)
        count = len(self.line.take(len(self.line)))
        if self.rmw is not None:
            self.rmw.close()
            count += len(self.rmw.line.take(len(self.rmw.line)))
        return count

    def home(self) -> frozenset[bytes]:
        """Return the prefixes of the participants of the own domain."""
        return self._bridge.presence.home

    def is_own(self, source: tuple[bytes, int]) -> bool:
        """Whether a sample is one that the bridge put."""
        return self._bridge.origins.has(source)

    def shows_delete(self, key: str) -> bool:
        """Whether the domain may see that a key is deleted (D-814)."""
        return self._bridge.rights.show_delete(key)

    def refuse(self, reason: str) -> None:
        """Count a sample that is not written: a duplicate by a rule, or lost."""
        if reason.startswith("D-"):
            self._bridge.counts.duplicate(reason)
        else:
            self._route.counts.lose(reason)

    def wake(self) -> None:
        """Tell the DDS thread that samples wait."""
        self._bridge.upkeep.wake(self._route)

    def add_to_full(self, item: Item, length: int, sample: Sample) -> int:
        """Take a sample that found the line full, or is longer than it (D-457)."""
        route = self._route
        blocks = sample.congestion_control is not CongestionControl.DROP
        keeps_all = any(one.qos.depth == KEEP_ALL for one in route.plan.endpoints)
        result, dropped = self.line.add(
            item,
            length,
            waits=blocks and not route.is_asking,
            drops_oldest=route.is_asking or not (blocks or keeps_all),
        )
        lost = dropped + (result == FULL)
        if lost:
            self._route.counts.lose("line full", lost)
        return result
