"""Declarations: what every face is told, kept equal to what it should know.

One rule for all kinds and regions: after a change of an entry, each face that could notice is
compared with `Tables.view`, and the difference is declared or undeclared (behaviour.md 3.5 to 3.8).
North faces are told everything they may know; the others what their interests ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from elea.routing.context import Context
from elea.routing.face import EntityKey, Face
from elea.routing.interests.demands import Aggregate, Registered
from elea.routing.tables import (
    ABSENT,
    OPTIONS,
    PRESENT,
    Change,
    Entry,
    Kind,
    Told,
    is_complete,
    merge_info,
)


class Declarations:
    """Who was told what."""

    __slots__ = ("_demands", "_egress", "_limits", "_north", "_tables", "on_change")

    def __init__(self, context: Context) -> None:
        self._tables = context.tables
        self._demands = context.demands
        self._egress = context.egress
        self._limits = context.limits
        self._north: dict[int, Face] = {}  # told everything they may know, without asking
        self.on_change: Callable[[Change], None] | None = None  # told of every change

    def open_face(self, face: Face) -> None:
        """A face joined: tell it what is told without asking."""
        if not face.is_north or face.is_router:
            return
        self._north[face.id] = face
        for kind in Kind:
            for entry in self._tables.intersecting(kind, None):
                self._sync(entry, face, wanted=True)

    def mute(self, face: Face) -> None:
        """A face left: forget what it was told, so that nothing more is said to it."""
        self._north.pop(face.id, None)
        for kind in Kind:
            for key in face.told[kind]:
                entry = self._tables.get(kind, key)
                assert entry is not None
                del entry.told[face.id]
                self._tables.prune(entry)
            face.told[kind].clear()

    def takes_turns(self, face: Face) -> bool:
        """Take back a part of what a client declared that leaves; False when the rest is little.

        What it said first goes first. Others are served between two parts (T23).
        """
        count = self._limits.declarations_turn_count
        if face.declared_count <= count or not face.is_broker or face.spec.local:
            return False
        for kind in Kind:
            names = list(islice(face.remote[kind], count))
            for name in names:
                self.undeclare(kind, face, name)
            count -= len(names)
        return True

    def close_face(self, face: Face) -> None:
        """All that a face declared is gone with it.

        First all of it, then the news: whoever reacts to the first piece must not find the rest.
        """
        changes: dict[Entry, Change] = {}
        for kind in Kind:
            for name in list(face.remote[kind]):
                change = self._tables.remove(kind, face, name)
                if change is not None:
                    changes[change.entry] = change
        for change in changes.values():
            self._propagate(change)
            self._tables.prune(change.entry)

    def declare(
        self,
        kind: Kind,
        face: Face,
        name: EntityKey,
        key: str,
        info: int,
        quiet: bool = False,
    ) -> None:
        """`face` declared an entity. `quiet`: it is no news, only news to us; tell nobody yet."""
        known = face.remote[kind].get(name)
        if known is not None and known != key:
            # Never done by honest neighbours; without this the first key would stay for ever.
            self.undeclare(kind, face, name)
        if face.spec.gateway and known is None:
            self._tables.supersede(kind, face, key)
        change = self._tables.add(kind, face, name, key, info)
        if change is not None:
            self._propagate(change, quiet=quiet)

    def undeclare(self, kind: Kind, face: Face, name: EntityKey) -> None:
        """`face` took an entity back."""
        change = self._tables.remove(kind, face, name)
        if change is not None:
            self._propagate(change)
            self._tables.prune(change.entry)

    def wanted(self, options: int, key: str | None) -> list[Entry]:
        """What an interest asks for, as it is now."""
        kinds = [kind for kind in Kind if options & OPTIONS[kind]]
        return [entry for kind in kinds for entry in self._tables.intersecting(kind, key)]

    def snapshot(
        self, face: Face, interest_id: int, entries: Iterable[Entry], *, future: bool
    ) -> list[tuple[Kind, str]]:
        """A part of the answer to an interest's current part (behaviour.md 4.3); what was told."""
        answered: list[tuple[Kind, str]] = []
        for entry in entries:
            info = self._tables.view(entry, face)
            if info == ABSENT:
                continue
            told = self._tell(entry, face, info) if future else Told(0, info)
            self._egress.entity(face, entry.kind, entry.key, told, interest_id)
            answered.append((entry.kind, entry.key))
        return answered

    def tell(self, kind: Kind, key: str, face: Face, interest_id: int) -> None:
        """Tell one face of an entry in answer to its interest.

        Again if it knows it already: another of its interests asked (behaviour.md 4.4).
        """
        entry = self._tables.get(kind, key)
        if entry is None:
            return
        info = self._tables.view(entry, face)
        if info != ABSENT:
            self._egress.entity(face, kind, key, self._tell(entry, face, info), interest_id)

    def forget(self, face: Face, options: int, key: str | None) -> None:
        """An interest is over: forget silently what only it had asked for (behaviour.md 4.4)."""
        for kind in Kind:
            if options & OPTIONS[kind]:
                for entry in self._tables.intersecting(kind, key):
                    if face.id in entry.told and not self._is_interested(face, entry):
                        self._untell(entry, face)

    def unlearn(self, gateway: Face, options: int, key: str | None) -> None:
        """An interest was taken back: drop what `gateway` declared because of it alone.

        It will not say when those entities vanish, or it will and nothing is lost.
        """
        for kind in Kind:
            if not options & OPTIONS[kind]:
                continue
            for entry in self._tables.intersecting(kind, key):
                owner = entry.owner(gateway)
                if owner is not None and not self._demands.wants(kind, entry.key):
                    for name in list(owner.infos):
                        self.undeclare(kind, gateway, name)

    def open_aggregates(self, registered: Registered, interest_id: int | None) -> None:
        """Start to answer an aggregate interest; with `interest_id`, its current part too."""
        demand = registered.demand
        assert demand.key is not None
        for kind in (Kind.SUBSCRIBER, Kind.QUERYABLE):
            if demand.options & OPTIONS[kind]:
                aggregate = registered.aggregates[kind] = Aggregate()
                aggregate.visible_count = self._count_visible(kind, demand.key, registered.face)
                if aggregate.visible_count and interest_id is not None:
                    aggregate.told_id = registered.face.next_id()
                    aggregate.told_info = self._aggregate_info(kind, demand.key, registered.face)
                    self._tell_aggregate(registered, kind, interest_id)

    def aggregate_once(self, face: Face, interest_id: int, options: int, key: str) -> None:
        """Answer the current part of an aggregate interest that does not look at the future."""
        for kind in (Kind.SUBSCRIBER, Kind.QUERYABLE):
            if options & OPTIONS[kind] and self._count_visible(kind, key, face):
                told = Told(0, self._aggregate_info(kind, key, face))
                self._egress.entity(face, kind, key, told, interest_id)

    def entity_ids(self, face: Face, registered: list[Registered]) -> set[int]:
        """The ids that `face` knows declarations of ours by; `registered` are its interests."""
        ids = {one.told_id for each in registered for one in each.aggregates.values()}
        for kind in Kind:
            for key in face.told[kind]:
                entry = self._tables.get(kind, key)
                if entry is not None and face.id in entry.told:
                    ids.add(entry.told[face.id].id)
        return ids

    def _propagate(self, change: Change, *, quiet: bool = False) -> None:
        entry = change.entry
        if entry.kind is not Kind.TOKEN:
            self._tables.routes_changed()
        interested: dict[int, Face] = {}
        for registered in self._demands.matching(entry.kind, entry.key):
            if registered.aggregates and entry.kind in registered.aggregates:
                self._update_aggregate(registered, change)
            else:
                interested[registered.face.id] = registered.face
        if self.on_change is not None:
            self.on_change(change)
        for face in list(self._north.values()):
            self._sync(entry, face, wanted=True)
        for face in interested.values():
            if entry.kind is not Kind.TOKEN:
                self._sync(entry, face, wanted=True)
            elif not quiet:
                self._sync_token(change, face)
        if len(entry.told) > 0:
            for face_id in list(entry.told):
                if face_id not in interested and face_id not in self._north:
                    self._sync(entry, self._tables.faces[face_id], wanted=False)

    def _sync(self, entry: Entry, face: Face, *, wanted: bool) -> None:
        """Make what `face` was told of `entry` true."""
        info = self._tables.view(entry, face)
        told = entry.told.get(face.id)
        if face.spec.multicast:
            self._sync_group(entry, face, info)
        elif info == ABSENT:
            if told is not None:
                self._untell(entry, face)
                self._egress.undeclare(face, entry.kind, entry.key, told.id)
        elif told is None:
            if wanted:
                told = self._tell(entry, face, info)
                self._egress.entity(face, entry.kind, entry.key, told)
        elif told.info != info:
            told.info = info
            self._egress.entity(face, entry.kind, entry.key, told)

    def _sync_token(self, change: Change, face: Face) -> None:
        """As `_sync`, for a token that `face` may have chosen not to be told of at first.

        To who watches the future only, a token that was there before is no news; when it goes, its
        key has to be said (behaviour.md 5.12).
        """
        entry = change.entry
        if face.id not in entry.told and self._tables.can_see(Kind.TOKEN, face, change.face):
            alive_anyway = self._tables.is_visible(entry, face, change.face)
            if alive_anyway or change.was_owner == change.is_owner:
                return
            if not change.is_owner:
                self._egress.undeclare(face, Kind.TOKEN, entry.key, 0)
                return
        self._sync(entry, face, wanted=True)

    def _sync_group(self, entry: Entry, face: Face, info: int) -> None:
        """A multicast group hears of subscribers, under id 0, and never of their end."""
        if entry.kind is not Kind.SUBSCRIBER:
            return
        if info == ABSENT:
            if face.id in entry.told:
                self._untell(entry, face)
        elif face.id not in entry.told:
            told = entry.told[face.id] = Told(0, info)
            face.told[entry.kind][entry.key] = None
            self._egress.entity(face, entry.kind, entry.key, told)

    def _tell(self, entry: Entry, face: Face, info: int) -> Told:
        told = entry.told.get(face.id)
        if told is None:
            told = entry.told[face.id] = Told(face.next_id(), info)
            face.told[entry.kind][entry.key] = None
        told.info = info
        return told

    def _untell(self, entry: Entry, face: Face) -> None:
        del entry.told[face.id]
        del face.told[entry.kind][entry.key]

    def _is_interested(self, face: Face, entry: Entry) -> bool:
        return any(
            registered.face is face and not registered.aggregates
            for registered in self._demands.matching(entry.kind, entry.key)
        )

    def _update_aggregate(self, registered: Registered, change: Change) -> None:
        entry = change.entry
        face = registered.face
        aggregate = registered.aggregates[entry.kind]
        key = registered.demand.key
        assert key is not None
        if (
            change.was_owner != change.is_owner
            and self._tables.can_see(entry.kind, face, change.face)
            and not self._tables.is_visible(entry, face, change.face)
        ):
            aggregate.visible_count += 1 if change.is_owner else -1
        if aggregate.visible_count == 0:
            if aggregate.told_id:
                self._egress.undeclare(face, entry.kind, key, aggregate.told_id)
                aggregate.told_id = 0
            return
        if entry.kind is Kind.SUBSCRIBER and aggregate.told_id:
            return
        info = self._aggregate_info(entry.kind, key, face)
        if aggregate.told_id == 0 or aggregate.told_info != info:
            aggregate.told_id = aggregate.told_id or face.next_id()
            aggregate.told_info = info
            self._tell_aggregate(registered, entry.kind, None)

    def _tell_aggregate(self, registered: Registered, kind: Kind, interest_id: int | None) -> None:
        aggregate = registered.aggregates[kind]
        key = registered.demand.key
        assert key is not None
        told = Told(aggregate.told_id, aggregate.told_info)
        self._egress.entity(registered.face, kind, key, told, interest_id)

    def _count_visible(self, kind: Kind, key: str, face: Face) -> int:
        entries = self._tables.intersecting(kind, key)
        return sum(self._tables.view(entry, face) != ABSENT for entry in entries)

    def _aggregate_info(self, kind: Kind, key: str, face: Face) -> int:
        """Complete if a complete queryable covers the whole key of the interest."""
        if kind is not Kind.QUERYABLE:
            return PRESENT
        merged = ABSENT
        for entry in self._tables.including(kind, key):
            info = self._tables.view(entry, face)
            if info != ABSENT and is_complete(info):
                merged = merge_info(merged, info)
        return PRESENT if merged == ABSENT else merged
