"""History of a route to DDS: asked for, held against live samples, and merged (dds.md 13).

Owned by the DDS thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elea.dds.cache import Arrived, merge
from elea.dds.history import CACHE, Question
from elea.dds.line import Item
from elea.dds.qos import KEEP_ALL, Durability
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.session.handlers import Callback

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.dds.to_dds import ToDds
    from elea.session.context import Declared


class RouteHistory:
    """Asks other bridges, advanced publishers and storages for what durable readers get.

    Args:
        bridge: Who asks, a few questions at a time.
        route: Whose live samples wait meanwhile.
    """

    def __init__(self, bridge: Bridge, route: ToDds) -> None:
        self._bridge = bridge
        self._route = route
        self._asking = 0  # queries that run
        self._came: list[Item] = []
        self._was_asked = False
        self._is_due = False  # a durable mirror writer was replaced, and starts empty
        self._late_publishers: Declared | None = None

    @property
    def is_asking(self) -> bool:
        """Whether live samples wait for history."""
        return self._asking > 0

    @property
    def was_asked(self) -> bool:
        """Whether the route was durable once, and asked."""
        return self._was_asked

    def mirror_replaced(self) -> None:
        """Ask again: a durable mirror writer is new, and starts empty."""
        self._is_due = True

    def follow(self) -> None:
        """Ask, if the route has become durable or it is due again."""
        bridge, route = self._bridge, self._route
        if not route.plan.is_durable or (self._was_asked and not self._is_due):
            return
        if bridge.settings.ros and self._late_publishers is None:
            self._late_publishers = self._watch_publishers()
        self._was_asked, self._is_due = True, False
        self._ask(self._questions())

    def ask_again(self, zid: str) -> None:
        """Ask a bridge that appeared for its history (D-566)."""
        if self._route.plan.is_durable and self._was_asked:
            self._ask([(f"{self._route.id.key}/{CACHE}/{zid}", "")])

    def expect(self, count: int) -> None:
        """Hold live samples back until so many queries have ended."""
        self._asking += count

    def close(self) -> None:
        """Watch no more."""
        self._bridge.undeclare(self._late_publishers)

    def _watch_publishers(self) -> Declared:
        """Ask advanced publishers for their history, those there are and those to come (D-664).

        A publisher may have said that it is there before this node knew of its cache, and so
        before the first query could reach it.
        """
        bridge = self._bridge

        def told(sample: Sample) -> None:
            key = sample.key_text
            if sample.kind is SampleKind.PUT and f"/{bridge.session.zid()}/" not in key:
                bridge.post(lambda _now_ns: self._ask([(key, self._parameters())]))

        handler = Callback(told, indirect=False)
        expr = f"{self._route.id.key}/@adv/pub/**"
        return bridge.session.liveliness().declare_subscriber(expr, handler, history=True)

    def _questions(self) -> list[tuple[str, str]]:
        """What is asked of all there are (D-565, D-568): key expressions and parameters."""
        route = self._route
        key = route.id.key
        questions = [(f"{key}/{CACHE}/*", "")]
        if self._bridge.settings.advanced:
            questions.append((f"{key}/@adv/**", self._parameters()))
        durability = max(
            (one.qos.durability for one in route.plan.endpoints), default=Durability.VOLATILE
        )
        if durability >= Durability.TRANSIENT:
            questions.append((key, "_time=[..]"))
        return questions

    def _parameters(self) -> str:
        """What advanced publishers are asked with: no more than the readers keep."""
        depth = self._depth()
        return "" if depth is None or not self._bridge.settings.ros else f"_max={depth}"

    def _depth(self) -> int | None:
        depths = [one.qos.depth for one in self._route.plan.endpoints if one.qos.is_durable]
        return None if not depths or KEEP_ALL in depths else max(depths)

    def _ask(self, questions: list[tuple[str, str]]) -> None:
        self.expect(len(questions))
        for expr, parameters in questions:
            self._bridge.counts.queries += 1
            self._bridge.history.ask(Question(expr, parameters, self._ended))

    def _ended(self, items: list[Item], beyond: int) -> None:
        """Take what a query brought; after the last one history and live are merged."""
        if beyond:
            self._route.counts.lose("history", beyond)
        self._came += items
        self._asking -= 1
        if not self._asking:
            self._route.rearrange(self._merged)

    def _merged(self, live: list[Item]) -> list[Item]:
        history, self._came = [self._arrived(one) for one in self._came], []
        ordered = merge(history, map(self._arrived, live), self._depth())
        return [one.item for one in ordered if isinstance(one.item, Item)]

    def _arrived(self, item: Item) -> Arrived:
        return Arrived(item.time, item.clock, item, self._route.instance_of(item))
