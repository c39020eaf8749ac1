"""Upstream: our own interests at the gateways, and those below who wait for their answers.

Every demand is put to every gateway once. A snapshot for one face is put to one gateway, and to the
peers that have not told everything yet (behaviour.md 4.6).
"""

from __future__ import annotations

from collections.abc import Collection

from elea.keyexpr.match import intersects
from elea.records import dataclass, field
from elea.routing.context import Context
from elea.routing.declarations import Declarations
from elea.routing.face import Face
from elea.routing.interests.demands import Demand
from elea.routing.stats import Drop
from elea.routing.tables import OPTIONS, Entry, Kind, Told
from elea.routing.timers import Timer
from elea.wire.network.interest import OPTION_TOKENS, InterestMode


@dataclass(slots=True, eq=False)
class Waiting:
    """A face that waits for the end of the current part of its interest."""

    face: Face
    id: int
    answered: dict[tuple[Kind, str], None] = field(default_factory=dict)  # what it was told so far
    asked: dict[tuple[int, int], Asked] = field(default_factory=dict)  # copies that have not ended
    untold: list[Entry] = field(default_factory=list)  # what is known here and not told yet
    timer: Timer | None = None  # None: it does not wait any more


@dataclass(slots=True, eq=False)
class Asked:
    """An interest of ours at a gateway or a peer."""

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


class Upstream:
    """What was asked, by whom it is waited for, and what is known to be all there is."""

    __slots__ = ("_asked", "_context", "_declarations", "_gateways", "_settled", "_waiting")

    def __init__(self, context: Context, declarations: Declarations) -> None:
        self._context = context
        self._declarations = declarations
        self._gateways: dict[int, Face] = {}
        self._asked: dict[int, dict[int, Asked]] = {}  # by face, then by interest
        self._waiting: dict[int, list[Waiting]] = {}  # by face
        # Keys on which a gateway has told everything, with how many interests say so.
        self._settled: dict[tuple[int, Kind], dict[str, int]] = {}

    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        return not (self._gateways or self._asked or self._waiting or self._settled)

    def has_asked(self, face_id: int, kind: Kind, key: str) -> bool:
        """Whether gateway `face_id` was asked for `kind` on `key`: what is there, and will be."""
        return any(
            asked.current
            and asked.demand is not None
            and asked.options & OPTIONS[kind]
            and (asked.key is None or intersects(asked.key, key))
            for asked in self._asked.get(face_id, {}).values()
        )

    def open_face(self, face: Face) -> None:
        """A gateway appeared: ask it for all that is wanted below (behaviour.md 1.11, 4.2)."""
        if not face.spec.gateway:
            return
        self._gateways[face.id] = face
        for demand in self._context.demands.all():
            self._ask(face, demand, demand, InterestMode.CURRENT_FUTURE).resync = True

    def close_face(self, face: Face) -> None:
        """A face left: it waits for nothing, and nobody waits for it."""
        self._gateways.pop(face.id, None)
        for waiting in list(self._waiting.get(face.id, ())):
            self._dismiss(waiting)
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

    def waiting_for(self, face: Face) -> list[int]:
        """The interests of `face` whose end is outstanding."""
        return [waiting.id for waiting in self._waiting.get(face.id, ())]

    def pass_on(self, demand: Demand, mode: InterestMode) -> list[Asked]:
        """Ask every gateway that was not asked yet; the copies whose end is outstanding."""
        outstanding: list[Asked] = []
        wants_current = mode is InterestMode.CURRENT_FUTURE
        for gateway in self._gateways.values():
            known = [self._asked[gateway.id][id_] for id_ in demand.upstream.get(gateway.id, ())]
            asked = next((one for one in known if one.current or not wants_current), None)
            if asked is None:
                asked = self._ask(gateway, demand, demand, mode)
            if not asked.ended:
                outstanding.append(asked)
        return outstanding

    def ask_once(self, options: int, key: str | None) -> list[Asked]:
        """Ask for a snapshot: one gateway, and peers that have not told everything yet.

        Returns:
            The copies whose end is outstanding.
        """
        wanted = Demand(options, key)
        asked: list[Asked] = []
        # Eclipse answers such a question for tokens alone; else ask for more, and take it back.
        tokens_only = options == OPTION_TOKENS
        for gateway in self._gateways.values():
            direct = tokens_only or gateway.spec.elea
            mode = InterestMode.CURRENT if direct else InterestMode.CURRENT_FUTURE
            asked.append(self._ask(gateway, wanted, None, mode))
            asked[-1].retract = not direct
            break
        for face in self._context.tables.faces.values():
            if face.is_mutual and not face.ready and (tokens_only or face.spec.elea):
                asked.append(self._ask(face, wanted, None, InterestMode.CURRENT))
        return [one for one in asked if not one.ended]  # a guard answers from inside `send`

    def wait(self, waiting: Waiting, asked: list[Asked], now_ns: int) -> None:
        """Say D_FINAL to `waiting` when all of `asked` have ended and all was told."""
        for one in asked:
            one.waiting.append(waiting)
            waiting.asked[one.face.id, one.id] = one
        self._waiting.setdefault(waiting.face.id, []).append(waiting)
        deadline_ns = now_ns + self._context.settings.interests_timeout_ns
        waiting.timer = self._context.timers.add(deadline_ns, lambda _: self._end(waiting))

    def told(self, waiting: Waiting) -> None:
        """All that is known here was told to `waiting`."""
        if not waiting.asked:
            self._end(waiting)

    def dismiss(self, face: Face, interest_id: int) -> None:
        """`face` does not wait for the end of this interest any more."""
        for waiting in list(self._waiting.get(face.id, ())):
            if waiting.id == interest_id:
                self._dismiss(waiting)

    def withdraw(self, demand: Demand) -> None:
        """Nobody below has this demand any more: take it back, with what it brought."""
        upstream, demand.upstream = demand.upstream, {}
        for gateway_id, ids in upstream.items():
            for interest_id in ids:
                asked = self._asked[gateway_id][interest_id]
                self._forget(asked)
                if asked.ended:
                    self._settle(asked, -1)
                self._context.egress.interest_final(asked.face, interest_id)
            self._declarations.unlearn(self._gateways[gateway_id], demand.options, demand.key)

    def ended(self, face: Face, interest_id: int) -> None:
        """A gateway, or a peer that was asked, said D_FINAL."""
        asked = self.find(face, interest_id)
        if asked is None:
            self._context.stats.drop(Drop.UNKNOWN_INTEREST)
            return
        if asked.ended:
            return
        asked.ended = True
        if asked.demand is None:
            self._forget(asked)
            if asked.retract:
                self._context.egress.interest_final(face, interest_id)
        else:
            self._settle(asked, 1)
        self._release(asked)

    def interest_ids(self, face_id: int) -> Collection[int]:
        """The ids of the interests that a face was asked with."""
        return self._asked.get(face_id, {}).keys()

    def find(self, face: Face, interest_id: int) -> Asked | None:
        """The interest of ours that a declaration claims to answer."""
        return self._asked.get(face.id, {}).get(interest_id)

    def relay(self, asked: Asked, kind: Kind, key: str, info: int) -> None:
        """Hand one declaration of a snapshot to those who asked for it, once each."""
        for waiting in list(asked.waiting):
            if (kind, key) not in waiting.answered:
                waiting.answered[kind, key] = None
                self._context.egress.entity(waiting.face, kind, key, Told(0, info), waiting.id)

    def tell_waiting(self, asked: Asked, kind: Kind, key: str) -> None:
        """Hand a declaration that was there before to those who asked for what is there."""
        for waiting in list(asked.waiting):
            if (kind, key) not in waiting.answered:
                waiting.answered[kind, key] = None
                self._declarations.tell(kind, key, waiting.face, waiting.id)

    def _ask(self, face: Face, wanted: Demand, demand: Demand | None, mode: InterestMode) -> Asked:
        current = mode is not InterestMode.FUTURE
        asked = Asked(face, face.next_id(), wanted.options, wanted.key, demand, current)
        self._asked.setdefault(face.id, {})[asked.id] = asked
        if demand is not None:
            demand.upstream.setdefault(face.id, []).append(asked.id)
        self._context.egress.interest(face, asked.id, mode, wanted.options, wanted.key)
        return asked

    def _forget(self, asked: Asked) -> None:
        mine = self._asked[asked.face.id]
        del mine[asked.id]
        if not mine:
            del self._asked[asked.face.id]

    def _settle(self, asked: Asked, step: int) -> None:
        """Note, or take back, that a gateway has told everything on a key."""
        if asked.key is None or not asked.current:
            return
        for kind in (Kind.SUBSCRIBER, Kind.QUERYABLE):
            if asked.options & OPTIONS[kind]:
                keys = self._settled.setdefault((asked.face.id, kind), {})
                keys[asked.key] = keys.get(asked.key, 0) + step
                if keys[asked.key] == 0:
                    del keys[asked.key]
                    if not keys:
                        del self._settled[asked.face.id, kind]
        self._context.tables.routes_changed()

    def _release(self, asked: Asked) -> None:
        """One of those who were asked is done: whoever waited for it alone is served."""
        waiting, asked.waiting = asked.waiting, []
        for one in waiting:
            del one.asked[asked.face.id, asked.id]
            if not one.asked and not one.untold:
                self._end(one)

    def _end(self, waiting: Waiting) -> None:
        """Say D_FINAL: everybody has answered, or the time is over."""
        self._dismiss(waiting)
        self._context.egress.final(waiting.face, waiting.id)

    def _dismiss(self, waiting: Waiting) -> None:
        """Nobody waits any more; snapshots that were asked for this one alone are over."""
        assert waiting.timer is not None
        waiting.timer.cancel()
        waiting.timer = None
        mine = self._waiting[waiting.face.id]
        mine.remove(waiting)
        if not mine:
            del self._waiting[waiting.face.id]
        asked, waiting.asked = waiting.asked, {}
        for one in asked.values():
            one.waiting.remove(waiting)
            if one.demand is None:
                self._forget(one)
                if one.retract:
                    self._context.egress.interest_final(one.face, one.id)
