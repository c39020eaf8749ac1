"""Access control: may this neighbour do this on that key?

The configuration is Eclipse Zenoh's; the answer is stricter where Eclipse would let wildcards
around a rule (threat T32). A key is denied as soon as it *intersects* a deny rule, of whichever
subject the neighbour matches; it is allowed only if an allow rule *includes* it. Eclipse denies by
inclusion, and lets one subject that allows overrule another that denies.

A subscription that a deny rule covers in part is accepted: the neighbour gets no sample whose key
intersects the rule (docs/adr/0018). Eclipse accepts it as well, and sends those samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

from elea.config.config import Config
from elea.config.shapes import PLACEHOLDERS
from elea.errors import ConfigError, KeyExprError, LimitError
from elea.keyexpr.canon import canonize
from elea.keyexpr.match import includes, intersects
from elea.policy.actions import Action, Flow
from elea.policy.identity import Identity, LinkIdentity, Selection
from elea.policy.records import Record, identified, records, text, texts
from elea.policy.service_keys import Demand
from elea.records import dataclass

_PATH: Final = "access_control"
_ANY: Final = "$*"  # what a placeholder becomes in a deny rule if there is no value for it
_ILLEGAL: Final = frozenset("/*$?#{}")
# A deny rule for one of these hides keys: whoever may read any row may not be subject to one.
_HIDING: Final = {
    Flow.INGRESS: frozenset({Action.QUERY, Action.DECLARE_SUBSCRIBER}),
    Flow.EGRESS: frozenset({Action.REPLY, Action.PUT, Action.DELETE}),
}
_SAMPLES: Final = frozenset({Action.PUT, Action.DELETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, as configured."""

    id: str
    allows: bool
    actions: frozenset[Action]
    flows: frozenset[Flow]
    keys: tuple[str, ...]  # key expressions; some hold placeholders

    @classmethod
    def read(cls, record: Record) -> Self:
        """A rule of the configuration."""
        flows = texts(record, "flows")
        keys = (*(texts(record, "key_exprs") or ()), *(texts(record, "key_expr_templates") or ()))
        if not keys:
            raise ConfigError(
                f"{_PATH}/rules",
                f"rule {text(record, 'id')!a} names no key; give it key_exprs, or"
                " key_expr_templates",
            )
        return cls(
            id=text(record, "id"),
            allows=record.get("permission") == "allow",
            actions=frozenset(Action(name) for name in texts(record, "messages") or ()),
            flows=frozenset(Flow) if flows is None else frozenset(Flow(name) for name in flows),
            keys=keys,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, and why: the rule that decided, or None if that was the default."""

    allowed: bool
    rule_id: str | None
    why: str


@dataclass(frozen=True, slots=True)
class _Bound:
    """A rule for one neighbour: its placeholders have values."""

    rule: Rule
    keys: tuple[str, ...]


class Access:
    """The rules that concern one neighbour, one way.

    Args:
        rules: In the order of the policies.
        identity: Of the neighbour.
        default: Whether what no rule decides is allowed.
        hiding: Rules of either way that deny reading.
        unseen: Rules that deny subscriptions of the neighbour: no sample that they are about goes
            to it. Of the way to it alone.
    """

    __slots__ = ("_allow", "_default", "_deny", "_hiding", "_unseen", "rules")

    def __init__(
        self,
        rules: Iterable[Rule],
        identity: Identity,
        *,
        default: bool,
        hiding: Iterable[Rule] = (),
        unseen: Iterable[Rule] = (),
    ) -> None:
        self.rules = tuple(rules)
        self._default = default
        self._hiding = [_Bound(rule, _bind(rule, identity)) for rule in hiding]
        self._unseen = [_Bound(rule, _bind(rule, identity)) for rule in unseen]
        bound = [_Bound(rule, _bind(rule, identity)) for rule in self.rules]
        self._deny = [one for one in bound if not one.rule.allows]
        self._allow = [one for one in bound if one.rule.allows]

    def decide(self, action: Action, key: str) -> Verdict:
        """Whether the neighbour may do `action` on all of `key`, which is canonical."""
        if action is Action.UNKNOWN:
            return Verdict(False, None, "a message of a kind that no rule can name")
        for one in self._deny:
            if action in one.rule.actions:
                for denied in one.keys:
                    if intersects(denied, key):
                        return Verdict(False, one.rule.id, f"denied on {denied}")
        if action in _SAMPLES:
            for one in self._unseen:
                for denied in one.keys:
                    if intersects(denied, key):
                        why = f"{Action.DECLARE_SUBSCRIBER} is denied on {denied}"
                        return Verdict(False, one.rule.id, why)
        return self._undenied(action, key)

    def subscribe(self, key: str) -> Verdict:
        """Whether a subscription of the neighbour is accepted.

        Only a deny rule for all of `key` refuses it. `decide`, asked about samples to this
        neighbour, refuses those that a deny rule for subscriptions is about.
        """
        action = Action.DECLARE_SUBSCRIBER
        filtered: list[str] = []
        for one in self._deny:
            if action in one.rule.actions:
                for denied in one.keys:
                    if includes(denied, key):
                        return Verdict(False, one.rule.id, f"denied on {denied}")
                    if intersects(denied, key):
                        filtered.append(denied)
        verdict = self._undenied(action, key)
        if not (filtered and verdict.allowed):
            return verdict
        why = f"allowed without samples on {', '.join(filtered)}, where it is denied"
        return Verdict(True, verdict.rule_id, why)

    def _undenied(self, action: Action, key: str) -> Verdict:
        """What allow rules and the default say."""
        if self._default:
            return Verdict(True, None, "no deny rule intersects it; the default is allow")
        for one in self._allow:
            if action in one.rule.actions:
                for allowed in one.keys:
                    if includes(allowed, key):
                        return Verdict(True, one.rule.id, f"allowed on {allowed}")
        return Verdict(False, None, "no allow rule includes it; the default is deny")

    def opens(self, action: Action, key: str, demand: Demand) -> Verdict:
        """Whether a service may be used whose answer, or effect, its key does not tell.

        It may if a rule names it, or if all that it could do is allowed to the neighbour anyway.
        """
        for one in self._allow:
            if action in one.rule.actions:
                for allowed in one.keys:
                    if demand.door in allowed.split("/") and includes(allowed, key):
                        return Verdict(True, one.rule.id, f"allowed on {allowed}")
        remedy = f"no allow rule for {action} on it names {demand.door!r}"
        if not demand.actions:
            return Verdict(False, None, remedy)
        for one in self._hiding:
            for hidden in one.keys:
                if intersects(hidden, demand.key):
                    return Verdict(False, one.rule.id, f"{remedy}, and {hidden} is denied")
        verdict = self.decide(demand.actions[0], demand.key)
        if verdict.allowed:
            return verdict
        why = f"{remedy}, and {demand.actions[0]} on {demand.key}: {verdict.why}"
        return Verdict(False, verdict.rule_id, why)


class AccessControl:
    """All rules, and whom they are about.

    Args:
        rules: By id.
        subjects: By id.
        policies: Which rules for which subjects, by their ids.
        default: Whether what no rule decides is allowed.
    """

    __slots__ = ("_default", "_policies", "_rules", "_subjects")

    def __init__(
        self,
        rules: dict[str, Rule],
        subjects: dict[str, Selection],
        policies: list[tuple[tuple[str, ...], tuple[str, ...]]],
        *,
        default: bool,
    ) -> None:
        self._rules = rules
        self._subjects = subjects
        self._policies = policies
        self._default = default

    @classmethod
    def from_config(cls, config: Config) -> Self | None:
        """Read `access_control`; None if it is not enabled.

        Raises:
            ConfigError: a list is missing, an id is used twice, or names nothing.
        """
        if not config.value(f"{_PATH}/enabled", bool):
            return None
        lists = {name: records(config, f"{_PATH}/{name}") for name in ("rules", "subjects")}
        policies = identified(config, f"{_PATH}/policies")
        for name, entries in (*lists.items(), ("policies", policies)):
            if entries is None:
                raise ConfigError(
                    f"{_PATH}/{name}",
                    "access control is enabled and needs rules, subjects and policies; write [] for"
                    " a list that shall be empty",
                )
        rules = {one: Rule.read(entry) for one, entry in _by_id("rules", lists["rules"] or [])}
        subjects = {
            one: Selection.read(entry) for one, entry in _by_id("subjects", lists["subjects"] or [])
        }
        made = []
        for entry in policies or []:
            named = texts(entry, "rules") or (), texts(entry, "subjects") or ()
            for what, known, ids in (
                ("rules", rules.keys(), named[0]),
                ("subjects", subjects.keys(), named[1]),
            ):
                if not ids:
                    raise ConfigError(f"{_PATH}/policies", f"a policy names no {what}")
                for one in ids:
                    if one not in known:
                        raise ConfigError(
                            f"{_PATH}/policies", f"{one!a} is none of the ids in {_PATH}/{what}"
                        )
            made.append(named)
        default = config.value(f"{_PATH}/default_permission", str) == "allow"
        return cls(rules, subjects, made, default=default)

    def subjects(self, identity: Identity) -> tuple[str, ...]:
        """The ids of the subjects that a neighbour matches."""
        return tuple(one for one, some in self._subjects.items() if some.matches(identity))

    def access(self, identity: Identity, flow: Flow) -> Access:
        """The rules that concern a neighbour, one way, in the order of the policies."""
        mine = set(self.subjects(identity))
        chosen: dict[str, Rule] = {}
        for rule_ids, subject_ids in self._policies:
            if mine.intersection(subject_ids):
                chosen |= {rule_id: self._rules[rule_id] for rule_id in rule_ids}
        return Access(
            [rule for rule in chosen.values() if flow in rule.flows],
            identity,
            default=self._default,
            hiding=[rule for rule in chosen.values() if _hides(rule)],
            unseen=[
                rule for rule in chosen.values() if flow is Flow.EGRESS and _denies_reading(rule)
            ],
        )


def _hides(rule: Rule) -> bool:
    return not rule.allows and any(
        flow in rule.flows and not rule.actions.isdisjoint(actions)
        for flow, actions in _HIDING.items()
    )


def _denies_reading(rule: Rule) -> bool:
    """Whether a rule denies subscriptions that a neighbour declares."""
    subscribes = Action.DECLARE_SUBSCRIBER in rule.actions and Flow.INGRESS in rule.flows
    return subscribes and not rule.allows


def _by_id(name: str, entries: list[Record]) -> list[tuple[str, Record]]:
    found: dict[str, Record] = {}
    for entry in entries:
        one = text(entry, "id")
        if not one.strip() or one in found:
            what = "empty" if not one.strip() else f"{one!a} used twice"
            raise ConfigError(f"{_PATH}/{name}", f"an id is {what}; each entry needs its own")
        found[one] = entry
    return list(found.items())


def _bind(rule: Rule, identity: Identity) -> tuple[str, ...]:
    """The keys of a rule for one neighbour.

    A value that is no chunk, or none at all, must not open anything: an allow rule is then about
    nothing, and a deny rule about every value.
    """
    found: dict[str, None] = {}
    for key in rule.keys:
        if "${" not in key:
            found[key] = None
            continue
        for link in identity.links or (LinkIdentity(protocol=""),):
            bound = _fill(key, _values(identity, link), any_value=not rule.allows)
            if bound is not None:
                found[bound] = None
    return tuple(found)


def _values(identity: Identity, link: LinkIdentity) -> dict[str, str | None]:
    values = (link.common_name, identity.user, identity.zid)
    return dict(zip(PLACEHOLDERS, values, strict=True))


def _fill(key: str, values: dict[str, str | None], *, any_value: bool) -> str | None:
    for name, value in values.items():
        placeholder = "${" + name + "}"
        if placeholder not in key:
            continue
        if value is None or not _is_chunk(value):
            if not any_value:
                return None
            value = _ANY
        key = key.replace(placeholder, value)
    try:
        return canonize(key)
    except (KeyExprError, LimitError):
        return "**" if any_value else None


def _is_chunk(value: str) -> bool:
    """Whether a value stands for itself, as a chunk or a part of one."""
    return bool(value) and value.isprintable() and not _ILLEGAL.intersection(value)
