"""Access rules decided a second time, naively: `python -m tests.property.acl_oracle --cases N`.

The oracle reads the configuration as plain objects and knows no key expressions. A key expression
is the set of keys it matches, found by trying every key of a small world; chunks and lengths are
enough of them that what holds there holds everywhere. To intersect is to have a key in common, to
include is to have all keys of the other.

One difference is legal: key expressions are compared by their form, in Eclipse Zenoh as here, and
`*/**` is then not found to include `**/a`, although it does. So more may be denied, never less.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random
from typing import Any, Final

from elea.config.config import Config
from elea.policy.access import AccessControl
from elea.policy.actions import Action, Flow
from elea.policy.identity import Identity, LinkIdentity

MESSAGES: Final = ("put", "declare_subscriber", "query", "liveliness_token")
_CHUNKS: Final = ("a", "b", "z", "@x")  # z stands in no expression: something else
_KEYS: Final = tuple("/".join(key) for n in range(1, 6) for key in product(_CHUNKS, repeat=n))
_PATTERNS: Final = ("a", "b", "@x", "*", "**")
_NAMES: Final = ("a", "b", "*", "a/b", "", None)  # what certificates and users may be called


@cache
def keys_of(expression: str) -> int:
    """The keys of the world that an expression matches, as bits."""
    pattern = ""
    for chunk in expression.split("/"):
        if chunk == "**":
            pattern += "(?:/[^@/][^/]*)*"
        elif chunk == "*":
            pattern += "/[^@/][^/]*"
        else:
            pattern += "/" + re.escape(chunk)
    matches = re.compile(pattern).fullmatch
    return sum(1 << index for index, key in enumerate(_KEYS) if matches("/" + key))


def allowed(
    config: dict[str, Any], who: dict[str, Any], message: str, flow: str, expression: str
) -> bool:
    """Whether a neighbour may do something, by the plain words of the rules."""
    asked = keys_of(expression)
    mine = [one for one in config["subjects"] if _is(one, who)]
    ids = {one["id"] for one in mine}
    rules = [
        one
        for one in config["rules"]
        if any(one["id"] in p["rules"] and ids & set(p["subjects"]) for p in config["policies"])
        and _concerns(one, message, flow)
    ]
    for one in rules:
        if one["permission"] == "deny":
            for key in one["key_exprs"]:
                if any(keys_of(text) & asked for text in _filled(key, who, deny=True)):
                    return False
    if config["default_permission"] == "allow":
        return True
    return any(
        asked & ~keys_of(text) == 0
        for one in rules
        if one["permission"] == "allow"
        for key in one["key_exprs"]
        for text in _filled(key, who, deny=False)
    )


def _concerns(rule: dict[str, Any], message: str, flow: str) -> bool:
    flows = rule.get("flows", ("ingress", "egress"))
    if message in rule["messages"] and flow in flows:
        return True
    # Who may not subscribe to keys is not sent samples on them either.
    subscribes = "declare_subscriber" in rule["messages"] and "ingress" in flows
    return rule["permission"] == "deny" and (message, flow) == ("put", "egress") and subscribes


def _is(subject: dict[str, Any], who: dict[str, Any]) -> bool:
    return (
        who["user"] in subject.get("usernames", (who["user"],))
        and who["cert"] in subject.get("cert_common_names", (who["cert"],))
        and who["interface"] in subject.get("interfaces", (who["interface"],))
        and who["protocol"] in subject.get("link_protocols", (who["protocol"],))
    )


def _filled(key: str, who: dict[str, Any], *, deny: bool) -> list[str]:
    """A key with names in place of placeholders: none or, to deny, all if a name is no chunk."""
    for placeholder, name in (("${username}", who["user"]), ("${cert_common_name}", who["cert"])):
        if placeholder in key:
            if name in ("a", "b"):
                key = key.replace(placeholder, name)
            elif deny:
                key = key.replace(placeholder, "*")
            else:
                return []
    return [key]


def _expression(random: Random, *extra: str) -> str:
    chunks = [random.choice((*_PATTERNS, *extra)) for _ in range(random.randint(1, 3))]
    index = 0
    while index < len(chunks) - 1:  # canonical: `**` once, and after `*`
        pair = chunks[index : index + 2]
        if pair == ["**", "**"]:
            del chunks[index]
            index = 0
        elif pair == ["**", "*"]:
            chunks[index : index + 2] = ["*", "**"]
            index = 0
        else:
            index += 1
    return "/".join(chunks)


def _some(random: Random, values: tuple[Any, ...]) -> list[Any]:
    return random.sample(values, random.randint(1, len(values)))


def policies(random: Random) -> dict[str, Any]:
    """Any configuration."""
    rules = []
    for index in range(random.randint(1, 5)):
        placeholders = ("${username}", "${cert_common_name}")
        keys = {_expression(random, *placeholders) for _ in range(random.randint(1, 3))}
        one: dict[str, Any] = {
            "id": f"r{index}",
            "permission": random.choice(("allow", "allow", "deny")),
            "messages": _some(random, MESSAGES),
            "key_exprs": sorted(keys),
        }
        if random.random() < 0.5:
            one["flows"] = _some(random, ("ingress", "egress"))
        rules.append(one)
    subjects = []
    for index in range(random.randint(1, 3)):
        subject: dict[str, Any] = {"id": f"s{index}"}
        for name, values in (
            ("usernames", ("a", "b")),
            ("cert_common_names", ("a", "b", "*")),
            ("interfaces", ("lo", "eth0")),
            ("link_protocols", ("tcp", "tls")),
        ):
            if random.random() < 0.25:
                subject[name] = _some(random, values)
        subjects.append(subject)
    named = [
        {
            "rules": _some(random, tuple(one["id"] for one in rules)),
            "subjects": _some(random, tuple(one["id"] for one in subjects)),
        }
        for _ in range(random.randint(1, 3))
    ]
    return {
        "enabled": True,
        "default_permission": random.choice(("deny", "deny", "allow")),
        "rules": rules,
        "subjects": subjects,
        "policies": named,
    }


def neighbours(random: Random) -> dict[str, Any]:
    """Anybody."""
    return {
        "user": random.choice(_NAMES),
        "cert": random.choice(_NAMES),
        "interface": random.choice(("lo", "eth0")),
        "protocol": random.choice(("tcp", "tls")),
    }


def identity_of(who: dict[str, Any]) -> Identity:
    """The same, as Elea knows it."""
    link = LinkIdentity(
        protocol=who["protocol"], interfaces=(who["interface"],), common_name=who["cert"]
    )
    return Identity(zid="1", user=who["user"], links=(link,))


def disagreements(seed: int, cases: int) -> Iterator[str]:
    """Cases in which Elea and the oracle differ, in words."""
    random = Random(seed)
    asked = 0
    while asked < cases:
        config = policies(random)
        control = AccessControl.from_config(Config.from_mapping({"access_control": config}))
        assert control is not None
        for _ in range(4):
            who = neighbours(random)
            sides = {flow: control.access(identity_of(who), Flow(flow)) for flow in _FLOWS}
            for _ in range(25):
                asked += 1
                flow, message = random.choice(_FLOWS), random.choice(MESSAGES)
                key = _expression(random)
                verdict = sides[flow].decide(Action(message), key)
                expected = allowed(config, who, message, flow, key)
                cautious = not verdict.allowed and verdict.rule_id is None and "**" in key
                if verdict.allowed != expected and not cautious:
                    yield f"seed {seed}: {config} {who} {flow} {message} {key}: {verdict}"


def leaks(seed: int, cases: int) -> Iterator[str]:
    """Samples that reach a subscriber, and that it might not have subscribed to by their key."""
    random = Random(seed)
    for _ in range(cases):
        config, who = policies(random), neighbours(random)
        control = AccessControl.from_config(Config.from_mapping({"access_control": config}))
        assert control is not None
        ingress, egress = (control.access(identity_of(who), Flow(flow)) for flow in _FLOWS)
        expression = _expression(random)
        if not ingress.subscribe(expression).allowed:
            continue
        keys = [one for index, one in enumerate(_KEYS) if keys_of(expression) >> index & 1]
        for key in random.sample(keys, min(len(keys), 20)):
            sent = egress.decide(Action.PUT, key).allowed
            if sent and not allowed(config, who, "declare_subscriber", "ingress", key):
                yield f"seed {seed}: {config} {who} {expression} is sent {key}"


_FLOWS: Final = ("ingress", "egress")


def main() -> int:
    """Run as many cases as asked for."""
    parser = argparse.ArgumentParser(description="Compare access control with a naive oracle.")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    found = list(disagreements(args.seed, args.cases))
    sys.stdout.write("\n".join([*found[:10], f"{len(found)} of {args.cases} cases differ", ""]))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
