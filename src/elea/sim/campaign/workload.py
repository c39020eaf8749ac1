"""Workload: sessions that do random but plausible things, by a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from elea.routing.tables import Kind
from elea.sim.campaign.actor import Actor, Answer, Wish
from elea.sim.campaign.history import History
from elea.sim.campaign.plan import Plan
from elea.sim.campaign.session_actor import SessionActor
from elea.sim.world import World
from elea.wire.network.interest import InterestMode

KEYS: Final = ("a/1", "a/2", "b/1", "c")  # what is published
WANTED: Final = ("a/1", "a/2", "b/1", "c", "a/*", "**", "*/1", "b/1/**")  # what is declared
# What aggregate interests ask for: never declared, so that the one answer cannot be mistaken.
SUMMED: Final = ("a/**", "b/*", "*/2")
SESSIONS_MAX: Final = 4  # per node

_FILLS: Final = (0, 0, 10, 200, 700)
_FILLS_IN_BATCHES: Final = (1.2, 4)  # what has to be cut into fragments
_ANSWERS: Final = (
    *(Answer.INSIDE, Answer.INSIDE, Answer.SOON, Answer.SOON, Answer.LATE, Answer.ERROR),
    *(Answer.TWICE, Answer.NEVER),
)
# Publishers and queriers want both; so do most who watch tokens (behaviour.md 4.2).
_MODES: Final = (
    *(InterestMode.CURRENT_FUTURE, InterestMode.CURRENT_FUTURE),
    *(InterestMode.FUTURE, InterestMode.CURRENT),
)
_TIMEOUTS_MS: Final = (100, 500, 2_000, 6_000)


AnyActor = Actor | SessionActor


class Workload:
    """The sessions of a world, and what they do while the phase lasts."""

    def __init__(self, world: World, plan: Plan, rng: Random, history: History) -> None:
        self.actors: list[AnyActor] = []
        self.calm = False  # queryables answer at once
        self._world = world
        self._plan = plan
        self._rng = rng
        self._history = history
        self._until_ns = 0
        self._last_number = 0
        self._qos: dict[tuple[int, str], tuple[int, bool]] = {}
        self._steps: list[tuple[int, Callable[[AnyActor], None]]] = [
            (40, self._put),
            (10, self._declare),
            (8, self._undeclare),
            (6, self._wish),
            (4, self._unwish),
            (8, self._ask),
            (1, self._cancel),
            (1, self._detach),
            (2, self._attach),
        ]
        self._weights = [weight for weight, _ in self._steps]
        batch_len = plan.nodes[0].settings.offered.batch_len
        self._fills = (*_FILLS, *(int(batch_len * count) for count in _FILLS_IN_BATCHES))

    def populate(self, name: str) -> None:
        """The sessions that a node starts with."""
        count = next(one.sessions_count for one in self._plan.nodes if one.name == name)
        for _ in range(count):
            actor = self.attach(name)
            for _ in range(self._rng.randrange(3)):
                self._declare(actor)

    def attach(self, name: str) -> AnyActor:
        """One more session."""
        self._last_number += 1
        driver = self._world.nodes[name]
        actor: AnyActor
        if self._rng.random() < self._plan.sessions_share:
            actor = SessionActor(driver, self._last_number, self._history, self._draw_answer, KEYS)
        else:
            actor = Actor(driver, self._last_number, self._history, self._draw_answer)
        self.actors.append(actor)
        return actor

    def lost(self, name: str) -> None:
        """A node crashed."""
        for actor in self.present():
            if actor.driver.name == name:
                actor.crashed()

    def present(self) -> list[AnyActor]:
        """The sessions there are."""
        return [actor for actor in self.actors if actor.attached]

    def start(self, until_ns: int) -> None:
        """Do things until a time."""
        self._until_ns = until_ns
        self._next()

    def _next(self) -> None:
        delay_ns = self._rng.randint(1, self._plan.pace_ns)
        if self._world.now_ns + delay_ns < self._until_ns:
            self._world.after(delay_ns, self._step)

    def _step(self) -> None:
        usable = [actor for actor in self.actors if actor.usable]
        if usable:
            [(_, step)] = self._rng.choices(self._steps, self._weights)
            step(self._rng.choice(usable))
        self._next()

    def _draw_answer(self) -> Answer:
        return Answer.INSIDE if self.calm else self._rng.choice(_ANSWERS)

    def _put(self, actor: AnyActor) -> None:
        rng = self._rng
        key = rng.choice(KEYS)
        # Order is promised per priority and channel: a source keeps to one of each for a key.
        priority, reliable = self._qos.setdefault(
            (actor.number, key), (rng.choice((1, 5, 5, 7)), rng.random() < 0.8)
        )
        for _ in range(rng.choice((1, 1, 2, 8))):
            if actor.driver.node.is_congested():
                return  # somebody who published before waits for room, and so does the next
            actor.put(
                key,
                fill_len=rng.choice(self._fills),
                priority=priority,
                blocking=rng.random() < 0.7,
                reliable=reliable,
            )

    def _declare(self, actor: AnyActor) -> None:
        kind = self._rng.choice((Kind.SUBSCRIBER, Kind.SUBSCRIBER, Kind.QUERYABLE, Kind.TOKEN))
        keys = KEYS if kind is Kind.TOKEN else WANTED
        actor.declare(kind, self._rng.choice(keys), complete=self._rng.random() < 0.3)

    def _undeclare(self, actor: AnyActor) -> None:
        if actor.entities:
            actor.undeclare(*self._rng.choice(list(actor.entities)))

    def _wish(self, actor: AnyActor) -> None:
        rng = self._rng
        kind = rng.choice((Kind.SUBSCRIBER, Kind.QUERYABLE, Kind.TOKEN, Kind.TOKEN))
        aggregate = kind is not Kind.TOKEN and rng.random() < 0.3
        mode = rng.choice(_MODES) if kind is Kind.TOKEN else InterestMode.CURRENT_FUTURE
        wish = Wish(mode, kind, rng.choice(SUMMED if aggregate else WANTED), aggregate)
        if not aggregate or wish not in actor.wishes.values():  # as sessions share theirs
            actor.wish(wish)

    def _unwish(self, actor: AnyActor) -> None:
        if actor.wishes:
            actor.unwish(self._rng.choice(list(actor.wishes)))

    def _ask(self, actor: AnyActor) -> None:
        rng = self._rng
        actor.ask(rng.choice(WANTED), target=rng.randrange(3), timeout_ms=rng.choice(_TIMEOUTS_MS))

    def _cancel(self, actor: AnyActor) -> None:
        if actor.queries:
            actor.cancel(self._rng.choice(list(actor.queries)))

    def _detach(self, actor: AnyActor) -> None:
        actor.detach()

    def _attach(self, actor: AnyActor) -> None:
        name = actor.driver.name
        if sum(one.driver.name == name for one in self.present()) < SESSIONS_MAX:
            self.attach(name)
