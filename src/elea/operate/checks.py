"""Why nothing arrives: checks of a key in a fixed order; the first that fails is the verdict."""

from __future__ import annotations

import difflib
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from elea.errors import EleaError, KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.operate.admin_space import AdminSpace, Node, Sources
from elea.operate.labels import Labels
from elea.operate.walk import SILENT, Step, Walk, flat

OK: Final = "ok"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"

_SENDERS_COUNT: Final = 4  # publishers whose way is followed
_NEAR_COUNT: Final = 3
_CANDIDATES_COUNT: Final = 10_000  # declared keys among which near ones are looked for
_RECENT_S: Final = 120.0  # a refusal before that may have been mended
_SETTLE_S: Final = 1.0  # between two looks at counters, and how long a sample is waited for


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a key, and its answer."""

    name: str
    state: str
    text: str


@dataclass(slots=True)
class Diagnosis:
    """All checks of a key, with the ways its samples take."""

    key: str
    checks: list[Check] = field(default_factory=list)
    ways: list[tuple[str, list[tuple[int, Step]]]] = field(default_factory=list)  # by sender
    labels: Labels | None = None  # of the nodes that were asked

    @property
    def verdict(self) -> Check:
        """The first check that failed; else the first that is not known; else the last."""
        for state in (FAILED, UNKNOWN):
            for check in self.checks:
                if check.state == state:
                    return check
        return self.checks[-1]


def diagnose(space: AdminSpace, key: str) -> Diagnosis:
    """Find out why samples on a key do not reach its subscribers.

    Raises:
        EleaError: the session is closed.
    """
    found = Diagnosis(key)
    checks = found.checks
    try:
        checks.append(Check("key", OK, f"{KeyExpr(key)} is a legal key expression"))
    except (KeyExprError, LimitError) as error:
        checks.append(Check("key", FAILED, str(error)))
        return found
    nodes = space.nodes(stats=True)
    labels = found.labels = Labels(space)
    labels.learn(nodes)
    sources = list(space.sources(key))
    senders = _zids(sources, "publisher")
    takers = _zids(sources, "subscriber") + [
        one for one in _zids(sources, "queryable") if one not in _zids(sources, "subscriber")
    ]
    refused = _refused(space, key, labels)
    if refused is not None:
        checks.append(refused)
    checks.append(_published(space, key, senders, labels))
    checks.append(_wanted(key, _zids(sources, "subscriber"), _zids(sources, "queryable"), labels))
    if not senders or not takers:
        return found
    checks.append(_connected(nodes, senders, takers, labels))
    found.ways = _follow(space, key, senders)
    steps = [step for _, way in found.ways for _, step in way]
    checks.append(_allowed(steps, labels))
    checks.append(_flowing(space, key, senders, found.ways, labels))
    checks.append(_told(steps, labels))
    checks.append(_seen(space, key))
    return found


def _zids(sources: list[Sources], kind: str) -> list[str]:
    return list(dict.fromkeys(zid for one in sources if one.kind == kind for zid in one.zids))


def _names(zids: list[str], labels: Labels) -> str:
    shown = [labels.label(zid) for zid in zids[:_NEAR_COUNT]]
    more = len(zids) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _refused(space: AdminSpace, key: str, labels: Labels) -> Check | None:
    """What a node refused on this key of late: also of clients that declare no publisher."""
    found = [one for one in space.refusals() if one.key and _intersect(one.key, key)]
    if not found:
        return None
    last = max(found, key=lambda one: one.at_s)
    count = sum(
        (one.action, one.rule, one.zid) == (last.action, last.rule, last.zid) for one in found
    )
    who, at = labels.label(last.zid, "client"), labels.label(last.teller)
    rule = f"rule {last.rule!r}" if last.rule else "the default"
    sender = f"the client {who}" if who.startswith("on ") else who
    times = f"{count} times, the last time" if count > 1 else "once,"
    age_s = max(0.0, time.time() - last.at_s)
    action = last.action.replace("_", " ")
    refused = f"refused {times} {age_s:.0f} s ago"
    text = f"{rule} at {at} does not let {sender} {action} {last.key}: {refused}"
    return Check("refusals", FAILED if age_s < _RECENT_S else OK, text)


def _intersect(one: str, other: str) -> bool:
    try:
        return KeyExpr(one).intersects(KeyExpr(other))
    except (KeyExprError, LimitError):
        return False


def _published(space: AdminSpace, key: str, senders: list[str], labels: Labels) -> Check:
    if senders:
        return Check("publisher", OK, f"declared by {_names(senders, labels)}")
    near = _near(space, key)
    hint = f"; declared keys that look alike: {', '.join(near)}" if near else ""
    text = f"no publisher of {key} is declared (a put without a publisher is not seen here){hint}"
    return Check("publisher", FAILED, text)


def _near(space: AdminSpace, key: str) -> list[str]:
    """Declared keys that look like this one: another case, one slash or prefix too many."""
    declared: dict[str, str] = {}
    for source in space.sources("**"):
        if source.kind == "publisher" and len(declared) < _CANDIDATES_COUNT:
            declared.setdefault(source.key.lower(), source.key)
    lower = key.lower()
    close = difflib.get_close_matches(lower, declared, _NEAR_COUNT)
    ends = [one for one in declared if one.endswith(f"/{lower}") or lower.endswith(f"/{one}")]
    return [declared[one] for one in dict.fromkeys(close + ends)][:_NEAR_COUNT]


def _wanted(key: str, subscribers: list[str], queryables: list[str], labels: Labels) -> Check:
    parts = []
    if subscribers:
        parts.append(f"subscribed by {_names(subscribers, labels)}")
    if queryables:
        parts.append(f"queries are answered by {_names(queryables, labels)}")
    if not parts:
        return Check("subscriber", FAILED, f"no subscriber and no queryable of {key} is declared")
    return Check("subscriber", OK, "; ".join(parts))


def _connected(nodes: list[Node], senders: list[str], takers: list[str], labels: Labels) -> Check:
    """Whether both ends are in one connected part of the network."""
    neighbours: dict[str, set[str]] = {}
    for node in nodes:
        for one in node.neighbours:
            neighbours.setdefault(node.zid, set()).add(one.zid)
            neighbours.setdefault(one.zid, set()).add(node.zid)
    reached, waiting = set(senders), list(senders)
    while waiting:
        for zid in neighbours.get(waiting.pop(), set()) - reached:
            reached.add(zid)
            waiting.append(zid)
    apart = [zid for zid in takers if zid not in reached]
    if len(apart) < len(takers):
        return Check("path", OK, f"publishers and {_names(takers, labels)} are connected")
    text = f"{_names(senders, labels)} and {_names(apart, labels)} are not connected to each other"
    return Check("path", FAILED, text)


def _follow(
    space: AdminSpace, key: str, senders: list[str]
) -> list[tuple[str, list[tuple[int, Step]]]]:
    ways = []
    for zid in senders[:_SENDERS_COUNT]:
        try:
            ways.append((zid, list(flat(Walk(space, "put", key).start(zid)))))
        except EleaError:  # it left in the meantime
            ways.append((zid, []))
    return ways


def _allowed(steps: list[Step], labels: Labels) -> Check:
    for step in steps:
        if step.hop.refused or step.note.startswith("lets nothing in"):
            what = step.note or f"does not get it: {step.hop.refused}"
            return Check("rules", FAILED, f"{labels.label(step.hop.zid)} {what}")
    return Check("rules", OK, "no rule on the way refuses it")


def _flowing(
    space: AdminSpace,
    key: str,
    senders: list[str],
    ways: list[tuple[str, list[tuple[int, Step]]]],
    labels: Labels,
) -> Check:
    """Whether all hops take what they are given: looked at twice if a counter casts doubt."""
    before = _losses(ways)
    if any(before.values()):
        threading.Event().wait(_SETTLE_S)
        after = _losses(_follow(space, key, senders))
        for hop, (dropped, waiting) in after.items():
            more = dropped - before.get(hop, (0, 0))[0]
            if more > 0 or (waiting and before.get(hop, (0, 0))[1]):
                text = f"{labels.label(hop)} is slow: {more} dropped in a second, {waiting} wait"
                return Check("queues", FAILED, text)
        total = sum(one[0] for one in before.values())
        if total:
            return Check("queues", OK, f"nothing is dropped now; {total} were dropped before")
    return Check("queues", OK, "no hop drops or waits")


def _losses(ways: list[tuple[str, list[tuple[int, Step]]]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for _, way in ways:
        for _, step in way:
            counters = step.hop.counters
            pair = (counters.get("dropped_messages", 0), counters.get("waiting_messages", 0))
            if any(pair):
                found[step.hop.zid] = pair
    return found


def _told(steps: list[Step], labels: Labels) -> Check:
    silent = [step.hop.zid for step in steps if step.note == SILENT]
    if silent:
        return Check("answers", UNKNOWN, f"{_names(silent, labels)} {SILENT}")
    return Check("answers", OK, "every node on the way answers")


def _seen(space: AdminSpace, key: str) -> Check:
    """Whether a sample comes within a second."""
    came = threading.Event()
    with space.session.declare_subscriber(key, lambda _: came.set()):
        seen = came.wait(_SETTLE_S)
    if seen:
        return Check("samples", OK, "a sample arrived here just now")
    text = f"declared, but no sample arrived here within {_SETTLE_S:g} s"
    return Check("samples", UNKNOWN, text)
