"""Rules of alerts: when one is raised and cleared. No Spark: subscribers use them as well.

For each group a rule is a machine with three states, moved by samples in the order they come:

| state | sample | then |
| --- | --- | --- |
| calm | `when` holds | pending since its time; raised at once if there is no `for` |
| pending | `when` holds, `for` after that time or later | raised |
| pending | `when` does not hold | calm |
| raised | `clear` holds and `when` does not | cleared: calm |

A sample that does not say whether a condition holds (it has no such field) does not count for it;
one that is older than another of its group that came before does not count at all. Without `clear`
an alert is cleared when `when` does not hold. Time is that of the samples: without one nothing
happens.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from elea.decode.paths import path_text
from elea.errors import KeyExprError
from elea.keyexpr.template import KeyFormat
from elea.predicate import Fields, Layout, PayloadFields, Predicate, compile_predicate, parse
from elea.predicate.model import Field, walk
from elea.provenance import SampleKind

if TYPE_CHECKING:
    from elea.sample import Sample
    from elea.session.session import Session
    from elea.session.subscriber import Subscriber

RAISED: Final = "raised"
CLEARED: Final = "cleared"

Group: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """An alert was raised or cleared.

    Args:
        id: The same for both, and whenever the same samples are looked at again.
        state: `raised` or `cleared`.
        group: Values of the columns that tell groups apart.
        at_us: The time of the sample that did it, in microseconds since 1970.
        since_us: The time from which on `when` held.
        key: Of that sample.
        values: What it held of what the rule looks at.
    """

    id: str
    state: str
    group: Group
    at_us: int
    since_us: int
    key: str
    values: str


@dataclass(slots=True)
class State:
    """Of one group."""

    last_us: int
    since_us: int | None = None
    id: str | None = None  # of the alert, while it is raised


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule.

    Args:
        name: Part of the ids of its alerts.
        when: The condition, in the language of predicates, over the payload's members.
        for_us: How long it has to hold, in microseconds.
        clear: The condition that ends it; None: that `when` does not hold.
        by: What tells groups apart: fields of `key`, `key` itself, or members of the payload.
        key: The form of keys, whose fields may be used: `fleet/{robot}/imu`.

    Example:
        >>> rule = AlertRule("hot", "temp > 80", for_us=1_000_000, clear="temp < 75")
        >>> machine = rule.machine()
        >>> seen = [(0, 81), (1, 85), (2, 79), (3, 70)]
        >>> found = [machine.see((), s * 1_000_000, t > 80, t < 75) for s, t in seen]
        >>> [one and one.state for one in found]
        [None, 'raised', None, 'cleared']
    """

    name: str
    when: str
    for_us: int = 0
    clear: str | None = None
    by: Sequence[str] = ()
    key: str | None = None

    def machine(self) -> Machine:
        """What applies it to samples."""
        return Machine(self)

    def predicates(self) -> tuple[Predicate, Predicate | None]:
        """The two conditions."""
        return parse(self.when), None if self.clear is None else parse(self.clear)

    def columns(self) -> tuple[str, ...]:
        """What the conditions look at, by the path of each."""
        found: dict[str, None] = {}
        for predicate in self.predicates():
            for node in () if predicate is None else walk(predicate):
                if isinstance(node, Field):
                    found[path_text(node.path)] = None
        return tuple(found)

    def subscribe(
        self,
        session: Session,
        handler: Callable[[Event], None] | None = None,
        *,
        key_expr: str | None = None,
        publish: str | None = None,
        layout: Layout | None = None,
    ) -> Subscriber[None]:
        """Apply the rule to samples as they come.

        Args:
            handler: Called with each event.
            key_expr: Which samples; those of `key` if it is not given.
            publish: The form of a key to which events are put as JSON: `alerts/{robot}/hot`.
            layout: The type of payloads that do not say it themselves, as CDR.

        Raises:
            ValueError: neither `key_expr` nor `key` is given.
        """
        form = None if self.key is None else KeyFormat(self.key)
        if key_expr is None:
            if form is None:
                raise ValueError("saw neither key_expr nor key; one says which samples are meant")
            key_expr = str(form.key_expr)
        target = None if publish is None else KeyFormat(publish)
        machine = self.machine()

        def see(sample: Sample) -> None:
            event = machine.sample(sample, layout)
            if event is None:
                return
            if handler is not None:
                handler(event)
            if target is not None:
                fields = dict(zip(self.by, event.group, strict=True))
                key = target.build(**{name: fields[name] for name in target.fields})
                session.put(str(key), to_json(event, self.by), encoding="application/json")

        return session.declare_subscriber(key_expr, see)


class Machine:
    """A rule on its way through samples: one state for each group.

    Attributes:
        late_count: Samples that were older than what was seen before.
        unread_count: Samples that did not say whether a condition holds.
    """

    def __init__(self, rule: AlertRule, states: Mapping[Group, State] | None = None) -> None:
        self.rule = rule
        self.states: dict[Group, State] = dict(states or {})
        self.late_count = 0
        self.unread_count = 0
        when, clear = rule.predicates()
        self._when = compile_predicate(when)
        self._clear = None if clear is None else compile_predicate(clear)
        self._form = None if rule.key is None else KeyFormat(rule.key)
        self._paths = [
            (path_text(node.path), node.path)
            for predicate in (when, clear)
            for node in ([] if predicate is None else walk(predicate))
            if isinstance(node, Field)
        ]

    def sample(self, sample: Sample, layout: Layout | None = None) -> Event | None:
        """What a sample does; deletions do nothing. Without a timestamp its time is now."""
        if sample.kind is not SampleKind.PUT:
            return None
        stamp, key = sample.timestamp, sample.key_text
        at_ns = time.time_ns() if stamp is None else stamp.time.as_nanos()
        fields = PayloadFields(sample.payload.to_bytes(), sample.encoding, key=key, layout=layout)
        return self.fields(fields, key, at_ns // 1_000)

    def fields(self, fields: Fields, key: str, at_us: int) -> Event | None:
        """The same, of what is in a sample."""
        when = self._when(fields)
        clear = None if self._clear is None else self._clear(fields)
        if when is None and clear is None:
            self.unread_count += 1
            return None
        told = {text: scalar(fields.field(path)) for text, path in self._paths}
        return self.see(self._group(fields, key), at_us, when, clear, key, told)

    def see(
        self,
        group: Group,
        at_us: int,
        when: bool | None,
        clear: bool | None,
        key: str = "",
        values: Mapping[str, object] | None = None,
    ) -> Event | None:
        """The same, of whether the conditions hold."""
        state = self.states.setdefault(group, State(at_us))
        if at_us < state.last_us:
            self.late_count += 1
            return None
        state.last_us = at_us
        found = None
        if state.id is not None and state.since_us is not None:
            is_over = when is False if self._clear is None else clear is True and when is not True
            if is_over:
                found = (CLEARED, state.id, state.since_us)
                state.id = state.since_us = None
        elif when is False:
            state.since_us = None
        elif when is True:
            if state.since_us is None:
                state.since_us = at_us
            if at_us - state.since_us >= self.rule.for_us:
                state.id = alert_id(self.rule.name, group, state.since_us)
                found = (RAISED, state.id, state.since_us)
        if found is None:
            return None
        text = json.dumps(values or {}, sort_keys=True)
        return Event(found[1], found[0], group, at_us, found[2], key, text)

    def _group(self, fields: Fields, key: str) -> Group:
        told: Mapping[str, str] = {}
        if self._form is not None:
            try:
                told = self._form.parse(key)
            except KeyExprError:
                told = {}
        found = []
        for name in self.rule.by:
            value = key if name == "key" else told.get(name)
            if value is None:
                value = _text(fields.field(tuple(name.split("."))))
            found.append(value)
        return tuple(found)


def alert_id(rule: str, group: Group, since_us: int) -> str:
    """What an alert is called: by the rule, the group, and since when."""
    text = json.dumps([rule, list(group), since_us])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def to_json(event: Event, by: Sequence[str]) -> str:
    """An event as it is published."""
    told = {
        "id": event.id,
        "state": event.state,
        **dict(zip(by, event.group, strict=True)),
        "at_us": event.at_us,
        "since_us": event.since_us,
        "key": event.key,
        "values": json.loads(event.values),
    }
    return json.dumps(told)


def _text(value: object) -> str:
    """A value that tells groups apart: texts and integers."""
    return "" if value is None else str(value)


def scalar(value: object) -> object:
    """A value as JSON has it; one that is none of its scalars as a text."""
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
