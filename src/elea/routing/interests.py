"""Interests: asked by those below, answered from the tables, passed on to the gateways.

An interest with a current part ends with D_FINAL, once every gateway that was asked on its behalf
has ended its own answer, was lost, or took too long (behaviour.md 4.3, 4.6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from elea.keyexpr.match_hot import intersects
from elea.limits import Limits
from elea.routing.declarations import Declarations
from elea.routing.demands import Demand, Demands, Registered
from elea.routing.egress import Egress
from elea.routing.face import Face
from elea.routing.roles.role import Role
from elea.routing.settings import RoutingSettings
from elea.routing.stats import Drop, RoutingStats
from elea.routing.tables import OPTIONS, Kind, Tables, Told
from elea.routing.timers import Timer, Timers
from elea.wire.fields_hot import WireExpr
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.interest import (
    OPTION_AGGREGATE,
    OPTION_KEYEXPRS,
    OPTION_QUERYABLES,
    OPTION_SUBSCRIBERS,
    OPTION_TOKENS,
    Interest,
    InterestMode,
)

_ENTITIES: Final = OPTION_SUBSCRIBERS | OPTION_QUERYABLES | OPTION_TOKENS


@dataclass(slots=True, eq=False)
class Waiting:
    """A face that waits for the end of the current part of its interest."""

    face: Face
    id: int
    answered: dict[tuple[Kind, str], None]  # of a snapshot: what was handed on already
    asked: dict[tuple[int, int], Asked] = field(default_factory=dict)  # copies that have not ended
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class Asked:
    """An interest of ours at a gateway."""

    face: Face
    id: int
    options: int
    key: str | None
    demand: Demand | None  # None: a snapshot for one face, over with its D_FINAL
    current: bool  # whether D_FINAL will say that everything is known
    retract: bool = False  # a snapshot asked for as CURRENT_FUTURE, to be taken back at its end
    resync: bool = False  # asked when the gateway appeared: its answers are news for everybody
    ended: bool = False
    waiting: list[Waiting] = field(default_factory=list)


class Interests:
    """Interests of both directions."""

    __slots__ = (
        "_asked",
        "_declarations",
        "_demands",
        "_egress",
        "_gateways",
        "_limits",
        "_registered",
        "_role",
        "_settings",
        "_settled",
        "_stats",
        "_tables",
        "_timers",
        "_waiting",
    )

    def __init__(
        self,
        role: Role,
        tables: Tables,
        demands: Demands,
        declarations: Declarations,
        egress: Egress,
        timers: Timers,
        stats: RoutingStats,
        limits: Limits,
        settings: RoutingSettings,
    ) -> None:
        self._role = role
        self._tables = tables
        self._demands = demands
        self._declarations = declarations
        self._egress = egress
        self._timers = timers
        self._stats = stats
        self._limits = limits
        self._settings = settings
        self._gateways: dict[int, Face] = {}
        # Keys on which a gateway has told everything, with how many interests say so.
        self._settled: dict[tuple[int, Kind], dict[str, int]] = {}
        self._registered: dict[int, dict[int, Registered]] = {}  # by face, then by interest
        self._asked: dict[int, dict[int, Asked]] = {}
        self._waiting: dict[int, list[Waiting]] = {}

    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        return not (
            self._gateways
            or self._settled
            or self._registered
            or self._asked
            or self._waiting
            or len(self._demands)
        )

    def open_face(self, face: Face) -> None:
        """A gateway appeared: ask it for all that is wanted below (behaviour.md 1.11, 4.2)."""
        if not face.spec.gateway or face.spec.multicast:
            return
        self._gateways[face.id] = face
        for demand in self._demands.all():
            asked = self._ask(face, demand, demand.options, demand.key, InterestMode.CURRENT_FUTURE)
            asked.resync = True

    def close_face(self, face: Face) -> None:
        """A face left: its interests are over, and it answers none of ours."""
        self._gateways.pop(face.id, None)
        for waiting in list(self._waiting.get(face.id, ())):
            self._abandon(waiting)
        for registered in list(self._registered.pop(face.id, {}).values()):
            self._withdraw(registered, forget=False)
        lost = self._asked.pop(face.id, {})
        for asked in lost.values():
            if asked.demand is not None:
                asked.demand.upstream.pop(face.id, None)
        for kind in Kind:
            self._settled.pop((face.id, kind), None)
        # Whoever waited may speak again at once: by now nothing refers to the face any more.
        for asked in lost.values():
            self._release(asked)

    def is_settled(self, face: Face, kind: Kind, key: str) -> bool:
        """Whether gateway `face` has told all it knows of `kind` on exactly `key`.

        Then it is sent data only for what it declared (behaviour.md 4.8).
        """
        keys = self._settled.get((face.id, kind))
        return keys is not None and key in keys and "*" not in key and not face.overflowed

    def receive(self, face: Face, interest: Interest, key: str | None, now_ns: int) -> None:
        """A neighbour or a session said INTEREST; `key` is its resolved key."""
        if interest.mode is InterestMode.FINAL:
            self._finish(face, interest.id)
            return
        if self._is_ignored(face, interest):
            self._stats.drop(Drop.INTEREST_IGNORED)
            return
        options = interest.options & _ENTITIES
        current = bool(interest.mode & InterestMode.CURRENT)
        future = bool(interest.mode & InterestMode.FUTURE)
        aggregate = self._is_aggregate(face, interest)
        if aggregate and key is None:
            # There is no key to represent the matches by. Eclipse then answers D_FINAL alone.
            aggregate = False
            options = options if face.spec.elea else 0
        is_new = interest.id not in self._registered.get(face.id, {})
        registered: Registered | None = None
        if options and not face.is_north and (is_new or not future):
            if self._is_full(face):
                # No answer either: a D_FINAL would say that there is nothing to know.
                self._stats.drop(Drop.INTEREST_LIMIT)
                return
            if future:
                registered = self._register(face, interest.id, options, key)
        answered: list[tuple[Kind, str]] = []
        if aggregate and key is not None:
            if registered is not None:
                self._declarations.open_aggregates(registered, interest.id if current else None)
            elif current:
                self._declarations.aggregate_once(face, interest.id, options, key)
        elif current:
            answered = self._snapshot(face, interest, options, key, future=future)
        if not current:
            if registered is not None:
                self._pass_on(registered.demand, InterestMode.FUTURE)
            if self._role.ends_future and not face.spec.elea:
                self._egress.final(face, interest.id)
            return
        asked: list[Asked] = []
        if registered is not None:
            asked = self._pass_on(registered.demand, InterestMode.CURRENT_FUTURE)
        elif options and not future and not face.is_north:
            asked = self._ask_once(options, key)
        self._await(Waiting(face, interest.id, dict.fromkeys(answered)), asked, now_ns)

    def ended(self, face: Face, interest_id: int) -> None:
        """A gateway, or a peer that was asked, said D_FINAL."""
        asked = self._asked.get(face.id, {}).get(interest_id)
        if asked is None:
            self._stats.drop(Drop.UNKNOWN_INTEREST)
            return
        if asked.ended:
            return
        asked.ended = True
        if asked.demand is None:
            self._forget_asked(asked)
            if asked.retract:
                self._egress.interest_final(face, interest_id)
        elif asked.current and asked.key is not None:
            self._settle(asked, 1)
        self._release(asked)

    def answer_to(self, face: Face, interest_id: int) -> Asked | None:
        """The interest of ours that a declaration claims to answer."""
        return self._asked.get(face.id, {}).get(interest_id)

    def relay(self, asked: Asked, kind: Kind, key: str, info: int) -> None:
        """Hand one declaration of a snapshot to those who asked for it, once each."""
        for waiting in asked.waiting:
            if (kind, key) not in waiting.answered:
                waiting.answered[kind, key] = None
                self._egress.entity(waiting.face, kind, key, Told(0, info), waiting.id)

    def tell_waiting(self, asked: Asked, kind: Kind, key: str) -> None:
        """Hand a declaration that was there before to those who asked for what is there."""
        for waiting in asked.waiting:
            self._declarations.tell(kind, key, waiting.face, waiting.id)

    def _is_ignored(self, face: Face, interest: Interest) -> bool:
        """The refusals of behaviour.md 4.3; nodes of the specification answer everything."""
        if face.spec.multicast:
            return True
        if face.spec.elea:
            return False
        if face.is_north and not face.is_mutual:
            return True
        return interest.mode is InterestMode.CURRENT and (
            interest.options & _ENTITIES != OPTION_TOKENS
        )

    def _is_aggregate(self, face: Face, interest: Interest) -> bool:
        if not interest.options & OPTION_AGGREGATE or interest.options & OPTION_TOKENS:
            return False
        return face.spec.elea or face.is_broker

    def _is_full(self, face: Face) -> bool:
        if face.spec.local:
            return False
        registered = self._registered.get(face.id, {})
        snapshots = [one for one in self._waiting.get(face.id, ()) if one.id not in registered]
        return len(registered) + len(snapshots) >= self._limits.interests_count

    def _register(self, face: Face, interest_id: int, options: int, key: str | None) -> Registered:
        demand = self._demands.open(options, key)
        registered = Registered(face, interest_id, demand)
        demand.sources[face.id, interest_id] = registered
        self._registered.setdefault(face.id, {})[interest_id] = registered
        return registered

    def _snapshot(
        self, face: Face, interest: Interest, options: int, key: str | None, *, future: bool
    ) -> list[tuple[Kind, str]]:
        if interest.options & OPTION_KEYEXPRS and face.spec.elea:
            for expr_id, text in face.aliases.own.items():
                if key is None or intersects(key, text):
                    body = DeclareKeyExpr(expr_id, WireExpr(0, text))
                    self._egress.declaration(face, body, interest.id)
        return self._declarations.snapshot(face, interest.id, options, key, future=future)

    def _await(self, waiting: Waiting, asked: list[Asked], now_ns: int) -> None:
        """Say D_FINAL, now or when those who were asked on this behalf are done."""
        if not asked:
            self._egress.final(waiting.face, waiting.id)
            return
        for one in asked:
            one.waiting.append(waiting)
            waiting.asked[one.face.id, one.id] = one
        self._waiting.setdefault(waiting.face.id, []).append(waiting)
        deadline_ns = now_ns + self._settings.interests_timeout_ns
        waiting.timer = self._timers.add(deadline_ns, lambda _: self._give_up(waiting))

    def _pass_on(self, demand: Demand, mode: InterestMode) -> list[Asked]:
        """Ask every gateway that was not asked yet; the copies whose end is outstanding."""
        outstanding: list[Asked] = []
        wants_current = mode is InterestMode.CURRENT_FUTURE
        for gateway in self._gateways.values():
            known = [self._asked[gateway.id][id_] for id_ in demand.upstream.get(gateway.id, ())]
            asked = next((one for one in known if one.current or not wants_current), None)
            if asked is None:
                asked = self._ask(gateway, demand, demand.options, demand.key, mode)
            if not asked.ended:
                outstanding.append(asked)
        return outstanding

    def _ask_once(self, options: int, key: str | None) -> list[Asked]:
        """Ask for a snapshot: one gateway, and peers that have not told everything yet."""
        asked: list[Asked] = []
        eclipse_answers = options == OPTION_TOKENS
        for gateway in self._gateways.values():
            if gateway.spec.elea or eclipse_answers:
                asked.append(self._ask(gateway, None, options, key, InterestMode.CURRENT))
            else:
                one = self._ask(gateway, None, options, key, InterestMode.CURRENT_FUTURE)
                one.retract = True
                asked.append(one)
            break
        for face in self._tables.faces.values():
            if face.is_mutual and not face.ready and (face.spec.elea or eclipse_answers):
                asked.append(self._ask(face, None, options, key, InterestMode.CURRENT))
        return asked

    def _ask(
        self,
        face: Face,
        demand: Demand | None,
        options: int,
        key: str | None,
        mode: InterestMode,
    ) -> Asked:
        current = mode is not InterestMode.FUTURE
        asked = Asked(face, face.next_id(), options, key, demand, current)
        self._asked.setdefault(face.id, {})[asked.id] = asked
        if demand is not None:
            demand.upstream.setdefault(face.id, []).append(asked.id)
        self._egress.interest(face, asked.id, mode, options, key)
        return asked

    def _forget_asked(self, asked: Asked) -> None:
        mine = self._asked[asked.face.id]
        del mine[asked.id]
        if not mine:
            del self._asked[asked.face.id]

    def _settle(self, asked: Asked, step: int) -> None:
        """Note, or take back, that a gateway has told everything on a key."""
        assert asked.key is not None
        for kind in (Kind.SUBSCRIBER, Kind.QUERYABLE):
            if asked.options & OPTIONS[kind]:
                self._tables.routes_changed()
                keys = self._settled.setdefault((asked.face.id, kind), {})
                keys[asked.key] = keys.get(asked.key, 0) + step
                if keys[asked.key] == 0:
                    del keys[asked.key]
                    if not keys:
                        del self._settled[asked.face.id, kind]

    def _release(self, asked: Asked) -> None:
        """One of those who were asked is done: whoever waited for it alone is served."""
        waiting, asked.waiting = asked.waiting, []
        for one in waiting:
            del one.asked[asked.face.id, asked.id]
            if not one.asked:
                self._give_up(one)

    def _give_up(self, waiting: Waiting) -> None:
        """Say D_FINAL: everybody has answered, or the time is over."""
        self._abandon(waiting)
        self._egress.final(waiting.face, waiting.id)

    def _abandon(self, waiting: Waiting) -> None:
        """Nobody waits any more; snapshots that were asked for this one alone are over."""
        assert waiting.timer is not None
        waiting.timer.cancel()
        mine = self._waiting[waiting.face.id]
        mine.remove(waiting)
        if not mine:
            del self._waiting[waiting.face.id]
        for asked in waiting.asked.values():
            asked.waiting.remove(waiting)
            if asked.demand is None:
                self._forget_asked(asked)
                if asked.retract:
                    self._egress.interest_final(asked.face, asked.id)

    def _finish(self, face: Face, interest_id: int) -> None:
        """FINAL: no more news for this interest, and no end of its current part."""
        registered = self._registered.get(face.id, {}).pop(interest_id, None)
        if registered is None:
            self._stats.drop(Drop.UNKNOWN_INTEREST)
            return
        if not self._registered[face.id]:
            del self._registered[face.id]
        for waiting in list(self._waiting.get(face.id, ())):
            if waiting.id == interest_id:
                self._abandon(waiting)
        self._withdraw(registered, forget=self._forgets(face))

    @staticmethod
    def _forgets(face: Face) -> bool:
        """To clients what was told stays told until it vanishes, and so it does to sessions."""
        return not face.spec.local and (face.spec.elea or not face.is_broker)

    def _withdraw(self, registered: Registered, *, forget: bool) -> None:
        """One source of a demand is gone; with the last one the gateways are told."""
        demand = registered.demand
        del demand.sources[registered.face.id, registered.id]
        if forget and not registered.aggregates:
            # Before the gateways' declarations go: the face is not to hear of that either.
            self._declarations.forget(registered.face, demand.options, demand.key)
        if demand.sources:
            return
        self._demands.discard(demand)
        upstream, demand.upstream = demand.upstream, {}
        for gateway_id, ids in upstream.items():
            for interest_id in ids:
                asked = self._asked[gateway_id][interest_id]
                self._forget_asked(asked)
                if asked.ended and asked.current and asked.key is not None:
                    self._settle(asked, -1)
                self._egress.interest_final(asked.face, interest_id)
            self._declarations.unlearn(self._gateways[gateway_id], demand.options, demand.key)
