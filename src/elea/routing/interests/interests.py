"""Interests: asked by those below, answered from the tables, passed on to the gateways.

An interest with a current part ends with D_FINAL, once every gateway that was asked on its behalf
has ended its own answer, was lost, or took too long (behaviour.md 4.3, 4.6).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from elea.keyexpr.match import intersects
from elea.routing.context import Context
from elea.routing.declarations import Declarations
from elea.routing.face import Face
from elea.routing.interests.demands import Registered
from elea.routing.interests.pacing import Pacing
from elea.routing.interests.upstream import Asked, Upstream, Waiting
from elea.routing.stats import Drop
from elea.wire.fields import WireExpr
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


class Interests:
    """The interests of neighbours and sessions."""

    __slots__ = ("_context", "_declarations", "_pacing", "_registered", "_upstream")

    def __init__(self, context: Context, declarations: Declarations, upstream: Upstream) -> None:
        self._context = context
        self._declarations = declarations
        self._upstream = upstream
        self._pacing = Pacing(context.timers, context.limits)
        self._registered: dict[int, dict[int, Registered]] = {}  # by face, then by interest

    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        remembered = self._registered or self._pacing
        return not remembered and len(self._context.demands) == 0

    def registered(self, face_id: int) -> list[Registered]:
        """The interests in the future that a face has."""
        return list(self._registered.get(face_id, {}).values())

    def close_face(self, face: Face) -> None:
        """A face left: its interests are over. Unlike Eclipse, the gateways are told too."""
        self._pacing.forget(face.id)
        for registered in self._registered.pop(face.id, {}).values():
            self._withdraw(registered, forget=False)

    def receive(self, face: Face, interest: Interest, key: str | None, now_ns: int) -> None:
        """A neighbour or a session said INTEREST; `key` is its resolved key."""
        if interest.mode is InterestMode.FINAL:
            self._finish(face, interest.id)
            return
        if _is_ignored(face, interest):
            self._context.stats.drop(Drop.INTEREST_IGNORED)
        elif self._is_early(face, interest, now_ns):
            if self._is_full(face):
                self._context.stats.drop(Drop.INTEREST_LIMIT)
            else:
                self._pacing.wait(face.id, interest, key, partial(self._receive, face))
        else:
            self._receive(face, interest, key, now_ns)

    def _is_early(self, face: Face, interest: Interest, now_ns: int) -> bool:
        """Whether the answers that a face had are not paid off yet."""
        asks = interest.mode & InterestMode.CURRENT and not face.spec.local
        return bool(asks) and self._pacing.must_wait(face.id, now_ns)

    def _receive(self, face: Face, interest: Interest, key: str | None, now_ns: int) -> None:
        options = interest.options & _ENTITIES
        aggregate = _is_aggregate(face, interest)
        if aggregate and key is None:
            # There is no key to represent the matches by. Eclipse then answers D_FINAL alone.
            aggregate = False
            options = options if face.spec.elea else 0
        registered: Registered | None = None
        if options and not face.is_north and not self._is_repeated(face, interest):
            if self._is_full(face):
                # No answer either: a D_FINAL would say that there is nothing to know.
                self._context.stats.drop(Drop.INTEREST_LIMIT)
                return
            if interest.mode & InterestMode.FUTURE:
                registered = self._register(face, interest.id, options, key)
        if interest.mode & InterestMode.CURRENT:
            self._answer(face, interest, options, key, registered, aggregate, now_ns)
        else:
            if aggregate and registered is not None:
                self._declarations.open_aggregates(registered, None)
            if registered is not None:
                # Tokens that are there already are no news to who asks, but this node has to know
                # them: else it could not tell when the last with a key goes (behaviour.md 5.12).
                with_tokens = bool(options & OPTION_TOKENS)
                mode = InterestMode.CURRENT_FUTURE if with_tokens else InterestMode.FUTURE
                self._upstream.pass_on(registered.demand, mode)
            if self._context.role.ends_future and not face.spec.elea:
                self._context.egress.final(face, interest.id)

    def _answer(
        self,
        face: Face,
        interest: Interest,
        options: int,
        key: str | None,
        registered: Registered | None,
        aggregate: bool,
        now_ns: int,
    ) -> None:
        """The current part: what the gateways know, what is known here, and the end."""
        asked: list[Asked] = []
        future = bool(interest.mode & InterestMode.FUTURE)
        if registered is not None:
            asked = self._upstream.pass_on(registered.demand, InterestMode.CURRENT_FUTURE)
        elif options and not future and not face.is_north:
            asked = self._upstream.ask_once(options, key)
        waiting = Waiting(face, interest.id)
        entries = [] if aggregate else self._declarations.wanted(options, key)
        turn_count = self._context.limits.declarations_turn_count
        in_turns = len(entries) > turn_count and not face.spec.local
        if in_turns:
            waiting.untold = entries[::-1]
        if asked or in_turns:
            self._upstream.wait(waiting, asked, now_ns)
        if aggregate and registered is not None:
            self._declarations.open_aggregates(registered, interest.id)
        elif aggregate and key is not None:
            self._declarations.aggregate_once(face, interest.id, options, key)
        elif interest.options & OPTION_KEYEXPRS and face.spec.elea:
            self._tell_aliases(face, interest.id, key)
        if in_turns:
            self._pacing.charge(face.id, len(entries), now_ns)
            self._tell_in_turns(waiting, future, now_ns)
            return
        told = self._declarations.snapshot(face, interest.id, entries, future=future)
        waiting.answered.update(dict.fromkeys(told))
        if not face.spec.local:
            self._pacing.charge(face.id, len(told), now_ns)
        # A session that is told something may have taken its interest back meanwhile.
        if not asked and (registered is None or self._is_active(registered)):
            self._context.egress.final(face, interest.id)

    def _tell_in_turns(self, waiting: Waiting, future: bool, now_ns: int) -> None:
        """Tell a part of a long answer; others are served between two parts (T24).

        What changes meanwhile is told as news to who asked for the future, and else as it is when
        its turn comes.
        """
        if waiting.timer is None:
            return  # taken back, gone, or too late
        count = self._context.limits.declarations_turn_count
        part = waiting.untold[-count:][::-1]
        del waiting.untold[-count:]
        told = self._declarations.snapshot(waiting.face, waiting.id, part, future=future)
        waiting.answered.update(dict.fromkeys(told))
        if waiting.untold:
            again = partial(self._tell_in_turns, waiting, future)
            self._context.timers.add(now_ns + 1, again)
        else:
            self._upstream.told(waiting)

    def _tell_aliases(self, face: Face, interest_id: int, key: str | None) -> None:
        """The specification's K: the aliases that `face` was told, again."""
        for expr_id, text in face.aliases.own.items():
            if key is None or intersects(key, text):
                body = DeclareKeyExpr(expr_id, WireExpr(0, text))
                self._context.egress.declaration(face, body, interest_id)

    def _is_repeated(self, face: Face, interest: Interest) -> bool:
        """Whether its id is in use: then it is answered, and nothing else."""
        if not interest.mode & InterestMode.FUTURE:
            return False
        return interest.id in self._registered.get(face.id, {})

    def _is_full(self, face: Face) -> bool:
        if face.spec.local:
            return False
        registered = self._registered.get(face.id, {})
        snapshots = [id_ for id_ in self._upstream.waiting_for(face) if id_ not in registered]
        count = len(registered) + len(snapshots) + self._pacing.waiting_count(face.id)
        return count >= self._context.limits.interests_count

    def _register(self, face: Face, interest_id: int, options: int, key: str | None) -> Registered:
        demand = self._context.demands.open(options, key)
        registered = Registered(face, interest_id, demand)
        demand.sources[face.id, interest_id] = registered
        self._registered.setdefault(face.id, {})[interest_id] = registered
        return registered

    @staticmethod
    def _is_active(registered: Registered) -> bool:
        return (registered.face.id, registered.id) in registered.demand.sources

    def _finish(self, face: Face, interest_id: int) -> None:
        """FINAL: no more news for this interest, and no end of its current part."""
        if self._pacing.withdraw(face.id, interest_id):
            return
        registered = self._registered.get(face.id, {}).pop(interest_id, None)
        if registered is None:
            self._context.stats.drop(Drop.UNKNOWN_INTEREST)
            return
        if not self._registered[face.id]:
            del self._registered[face.id]
        self._upstream.dismiss(face, interest_id)
        self._withdraw(registered, forget=_forgets(face))

    def _withdraw(self, registered: Registered, *, forget: bool) -> None:
        """One source of a demand is gone; with the last one the gateways are told."""
        demand = registered.demand
        del demand.sources[registered.face.id, registered.id]
        if forget and not registered.aggregates:
            # Before the gateways' declarations go: the face is not to hear of that either.
            self._declarations.forget(registered.face, demand.options, demand.key)
        if not demand.sources:
            self._context.demands.discard(demand)
            self._upstream.withdraw(demand)


def _is_ignored(face: Face, interest: Interest) -> bool:
    """The refusals of behaviour.md 4.3; nodes of the specification answer everything."""
    if face.spec.multicast or face.is_router:
        return True
    if face.spec.elea:
        return False
    if face.is_north and not face.is_mutual:
        return True
    kinds = interest.options & _ENTITIES
    return interest.mode is InterestMode.CURRENT and kinds != OPTION_TOKENS


def _is_aggregate(face: Face, interest: Interest) -> bool:
    if not interest.options & OPTION_AGGREGATE or interest.options & OPTION_TOKENS:
        return False
    return face.spec.elea or face.is_broker


def _forgets(face: Face) -> bool:
    """To clients what was told stays told until it vanishes, and so it does to sessions."""
    return not face.spec.local and (face.spec.elea or not face.is_broker)
