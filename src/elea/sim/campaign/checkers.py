"""Laws over a history. Each returns what breaks it, as text; nothing means that it holds.

The numbers are those of the invariants in `docs/topics/simulation.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.keyexpr.match import intersects
from elea.routing.tables import Kind
from elea.sim.campaign.history import (
    Asked,
    Attached,
    CalledLate,
    Cancelled,
    Declared,
    Delivered,
    Ended,
    Event,
    Fault,
    Interested,
    Left,
    LostNeighbour,
    Published,
    Replied,
    Requested,
    Retracted,
    Settled,
    Undeclared,
    Vanished,
)

Events = list[tuple[int, Event]]
Law = Callable[[Events], list[str]]

SETTLING_NS: Final = (
    1_000_000_000  # more than a declaration needs to reach everybody, without faults
)


def order_is_kept(events: Events) -> list[str]:
    """I2: what a session gets of one source on one key comes in the order it was published."""
    last: dict[tuple[int, int, str], int] = {}
    broken = []
    for _, event in events:
        if isinstance(event, Delivered):
            name = (event.session, event.source, event.key)
            if event.number < last.get(name, 0):
                broken.append(f"{event} came after number {last[name]}")
            last[name] = max(event.number, last.get(name, 0))
    return broken


def only_declared_get(events: Events) -> list[str]:
    """I3: no sample without a subscriber, and none after its end; no query without a queryable."""
    declared: dict[int, dict[tuple[Kind, int], str]] = {}
    asked: dict[tuple[int, int], str] = {}
    broken = []
    for _, event in events:
        if isinstance(event, Declared):
            declared.setdefault(event.session, {})[event.kind, event.id] = event.key
        elif isinstance(event, Undeclared):
            del declared[event.session][event.kind, event.id]
        elif isinstance(event, Left):
            declared.pop(event.session, None)
        elif isinstance(event, Asked):
            asked[event.session, event.id] = event.key
        elif isinstance(event, (Delivered, Requested)):
            is_sample = isinstance(event, Delivered)
            key = event.key if isinstance(event, Delivered) else asked[event.source, event.id]
            kind = Kind.SUBSCRIBER if is_sample else Kind.QUERYABLE
            if not any(
                of is kind and intersects(wanted, key)
                for (of, _), wanted in declared.get(event.session, {}).items()
            ):
                broken.append(f"{event} without a {kind.name.lower()}")
    return broken


def nothing_comes_late(events: Events) -> list[str]:
    """I3: no function is called for an entity once `undeclare()` has returned."""
    return [str(event) for _, event in events if isinstance(event, CalledLate)]


def at_most_once(events: Events) -> list[str]:
    """I4: a session gets each sample and each query at most once, whole, and never its own."""
    seen: set[tuple[int, int, str, int]] = set()
    broken = []
    for _, event in events:
        if isinstance(event, Delivered):
            name = (event.session, event.source, event.key, event.number)
            if not event.whole:
                broken.append(f"{event} is not what was published")
        elif isinstance(event, Requested):
            name = (event.session, event.source, "?", event.id)
        else:
            continue
        if name in seen:
            broken.append(f"{event} came twice")
        if event.session == event.source:
            broken.append(f"{event} came back to its source")
        seen.add(name)
    return broken


def only_published_is_delivered(events: Events) -> list[str]:
    """Nothing is delivered that was not published before."""
    published: set[tuple[int, str, int]] = set()
    broken = []
    for _, event in events:
        if isinstance(event, Published):
            published.add((event.session, event.key, event.number))
    for _, event in events:
        if (
            isinstance(event, Delivered)
            and (event.source, event.key, event.number) not in published
        ):
            broken.append(f"{event} was never published")
    return broken


def queries_end_once(events: Events) -> list[str]:
    """I7: every query ends exactly once, and is silent afterwards.

    Not those that were cancelled, or whose session left: they stay silent from then on.
    """
    open_: dict[tuple[int, int], Asked] = {}
    broken = []
    for _, event in events:
        if isinstance(event, Asked):
            open_[event.session, event.id] = event
        elif isinstance(event, Left):
            open_ = {name: one for name, one in open_.items() if name[0] != event.session}
        elif isinstance(event, (Ended, Replied, Cancelled)):
            name = (event.session, event.id)
            if name not in open_:
                broken.append(f"{event} for a query that is over")
            elif not isinstance(event, Replied):
                del open_[name]
    return broken + [f"{query} never ended" for query in open_.values()]


def interests_settle_once(events: Events) -> list[str]:
    """An interest in what is there is told its end exactly once, unless it is taken back before."""
    open_: dict[tuple[int, int], Interested] = {}
    broken = []
    for _, event in events:
        if isinstance(event, Interested) and event.current and event.settles:
            open_[event.session, event.id] = event
        elif isinstance(event, Retracted):
            open_.pop((event.session, event.id), None)
        elif isinstance(event, Left):
            open_ = {name: one for name, one in open_.items() if name[0] != event.session}
        elif isinstance(event, Settled) and open_.pop((event.session, event.id), None) is None:
            broken.append(f"{event} for an interest that is over")
    return broken + [f"{interest} never settled" for interest in open_.values()]


class Spans:
    """From when to when sessions had their entities."""

    def __init__(self, events: Events) -> None:
        end_ns = events[-1][0] + SETTLING_NS * 10 if events else 0
        self._open: dict[tuple[int, Kind, int], tuple[str, int]] = {}
        self.spans: list[tuple[int, Kind, str, int, int]] = []  # session, kind, key, from, to
        for time_ns, event in events:
            if isinstance(event, Declared):
                name = (event.session, event.kind, event.id)
                self._open[name] = (event.key, time_ns)
            elif isinstance(event, Undeclared):
                self._close((event.session, event.kind, event.id), time_ns)
            elif isinstance(event, Left):
                for name in [name for name in self._open if name[0] == event.session]:
                    self._close(name, time_ns)
        for name in list(self._open):
            self._close(name, end_ns)

    def _close(self, name: tuple[int, Kind, int], time_ns: int) -> None:
        key, since_ns = self._open.pop(name)
        self.spans.append((name[0], name[1], key, since_ns, time_ns))


def nothing_is_lost(
    events: Events, reaches: Callable[[str, str], bool], settling_ns: int = SETTLING_NS
) -> list[str]:
    """I5: blocking samples reach all who wanted them, as long as no link was ever lost.

    A subscriber that is younger than `settling_ns`, or ends that soon, may miss the sample.
    """
    if any(isinstance(event, LostNeighbour) for _, event in events):
        return []
    homes = {event.session: event.node for _, event in events if isinstance(event, Attached)}
    started_ns = min((t for t, e in events if isinstance(e, Attached)), default=0)
    got = {
        (event.session, event.source, event.key, event.number)
        for _, event in events
        if isinstance(event, Delivered)
    }
    wanted = [span for span in Spans(events).spans if span[1] is Kind.SUBSCRIBER]
    broken = []
    for time_ns, event in events:
        if not isinstance(event, Published) or not event.blocking:
            continue
        if time_ns < started_ns + settling_ns:
            continue  # links are still being made
        for session, _, key, since_ns, to_ns in wanted:
            if (
                session != event.session
                and since_ns + settling_ns <= time_ns <= to_ns - settling_ns
                and intersects(key, event.key)
                and reaches(homes[event.session], homes[session])
                and (session, event.session, event.key, event.number) not in got
            ):
                broken.append(f"{event} did not reach session {session}")
    return broken


def no_false_ends(events: Events, reaches: Callable[[str, str], bool]) -> list[str]:
    """I11: without faults nobody who watches is told that a token is gone which lives."""
    if any(isinstance(event, (LostNeighbour, Fault)) for _, event in events):
        return []
    homes = {event.session: event.node for _, event in events if isinstance(event, Attached)}
    tokens = [span for span in Spans(events).spans if span[1] is Kind.TOKEN]
    watched: dict[tuple[int, int], str] = {}
    broken = []
    for time_ns, event in events:
        if isinstance(event, Interested):
            if event.kind is Kind.TOKEN and event.future:
                watched[event.session, event.id] = event.key
        elif isinstance(event, Retracted):
            watched.pop((event.session, event.id), None)
        elif (
            isinstance(event, Vanished)
            and event.kind is Kind.TOKEN
            and any(
                session == event.session and intersects(key, event.key)
                for (session, _), key in watched.items()
            )
        ):
            broken += [
                f"{event} though session {session} has it"
                for session, _, key, since_ns, to_ns in tokens
                if key == event.key
                and since_ns + SETTLING_NS <= time_ns < to_ns
                and reaches(homes[session], homes[event.session])
            ]
    return broken


def no_missed_ends(events: Events, reaches: Callable[[str, str], bool]) -> list[str]:
    """I11: without faults everybody who watches is told when the last token with a key is gone."""
    if any(isinstance(event, (LostNeighbour, Fault)) for _, event in events):
        return []
    homes = {event.session: event.node for _, event in events if isinstance(event, Attached)}
    tokens = [span for span in Spans(events).spans if span[1] is Kind.TOKEN]
    told: dict[tuple[int, str], list[int]] = {}
    for time_ns, event in events:
        if isinstance(event, Vanished) and event.kind is Kind.TOKEN:
            told.setdefault((event.session, event.key), []).append(time_ns)
    broken = []
    for watcher, wanted, since_ns, until_ns in _watches(events):
        near = [
            one
            for one in tokens
            if intersects(wanted, one[2]) and reaches(homes[one[0]], homes[watcher])
        ]
        for session, _, key, from_ns, to_ns in near:
            # Both were there long enough to know of each other, and nobody else had the key.
            quiet_ns = (to_ns - SETTLING_NS, to_ns + SETTLING_NS)
            if from_ns > quiet_ns[0] or since_ns > quiet_ns[0] or until_ns < quiet_ns[1]:
                continue
            if any(
                other[2] == key and other[3] < quiet_ns[1] and other[4] > quiet_ns[0]
                for other in near
                if other != (session, Kind.TOKEN, key, from_ns, to_ns)
            ):
                continue
            if not any(to_ns <= one <= quiet_ns[1] for one in told.get((watcher, key), ())):
                broken.append(f"session {watcher} was not told that {key} of {session} is gone")
    return broken


def _watches(events: Events) -> list[tuple[int, str, int, int]]:
    """Who watched which tokens of the future, from when to when."""
    open_: dict[tuple[int, int], tuple[str, int]] = {}
    found = []
    for time_ns, event in events:
        if isinstance(event, Interested):
            if event.kind is Kind.TOKEN and event.future:
                open_[event.session, event.id] = (event.key, time_ns)
        elif isinstance(event, Retracted):
            watch = open_.pop((event.session, event.id), None)
            if watch is not None:
                found.append((event.session, *watch, time_ns))
        elif isinstance(event, Left):
            for name in [name for name in open_ if name[0] == event.session]:
                found.append((event.session, *open_.pop(name), time_ns))
    return found


ALWAYS: Final[tuple[Law, ...]] = (
    order_is_kept,
    only_declared_get,
    nothing_comes_late,
    at_most_once,
    only_published_is_delivered,
)
AT_REST: Final[tuple[Law, ...]] = (queries_end_once, interests_settle_once)
