"""Access rules for ROS 2: an SROS 2 policy as the section `access_control` of a router (R2-815).

An enclave of the policy is a subject, known by the common name of its certificate. Names are made
absolute as ROS does: `~/x` is below the node, `x` below the namespace. Everything that the policy
does not allow is denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree

from elea.errors import ConfigError
from elea.keyexpr.keyexpr import KeyExpr
from elea.ros.formats.keys import BUFFER_CPU, checked_domain

READ_ONLY: Final = "read only"
_POLICY_LEN_MAX: Final = 1_048_576
_PERMISSIONS: Final = {"ALLOW": "allow", "DENY": "deny"}
_TOKENS: Final = "@ros2_lv"
_ACTION_SERVICES: Final = ("send_goal", "cancel_goal", "get_result")
_ACTION_TOPICS: Final = ("feedback", "status")
# What an endpoint does, as messages that pass the router: from it (ingress) and to it (egress).
_FLOWS: Final[dict[str, dict[str, list[str]]]] = {
    "publish": {
        "ingress": ["put", "delete", "declare_queryable", "reply"],  # and its cache
        "egress": ["declare_subscriber", "query"],
    },
    "subscribe": {
        "ingress": ["declare_subscriber", "query"],
        "egress": ["put", "delete", "declare_queryable", "reply"],
    },
    "reply": {"ingress": ["declare_queryable", "reply"], "egress": ["query"]},
    "request": {"ingress": ["query"], "egress": ["declare_queryable", "reply"]},
}


def access_control(policy: str, domain: int = 0) -> dict[str, Any]:
    """The section `access_control` of a policy.

    Raises:
        ConfigError: it is no policy of SROS 2.

    Example:
        >>> text = '''<policy version="0.2.0"><enclaves><enclave path="/cell/arm"><profiles>
        ... <profile ns="/cell" node="arm"><topics publish="ALLOW"><topic>pose</topic></topics>
        ... </profile></profiles></enclave></enclaves></policy>'''
        >>> [rule["key_exprs"][0] for rule in access_control(text)["rules"]][:2]
        ['0/cell/pose/*/*', '0/cell/pose/*/*']
    """
    checked_domain(domain)
    rules: list[dict[str, Any]] = []
    subjects, policies = [], []
    for enclave in _enclaves(policy):
        path = _attribute(enclave, "path")
        own = [
            {**rule, "id": f"{path} {number}"}
            for number, rule in enumerate(_rules_of(enclave, domain), 1)
        ]
        rules += own
        subjects.append({"id": path, "cert_common_names": [path]})
        allowed = [*(rule["id"] for rule in own), "graph"]
        policies.append({"rules": allowed, "subjects": [path]})
    rules.append(_graph(domain, "liveliness_token"))
    return _section(rules, subjects, policies)


def read_only(common_name: str, domain: int = 0) -> dict[str, Any]:
    """The section for an observer: it subscribes and sees the graph, and changes nothing."""
    checked_domain(domain)
    data, tokens = [f"{domain}/**"], [f"{_TOKENS}/{domain}/**"]
    # A ROS operator must see who listens: the tokens of its node and subscriptions are allowed.
    own = [f"{_TOKENS}/{domain}/*/*/*/{kind}/**" for kind in ("NN", "MS")]
    rules: list[dict[str, Any]] = [
        {
            "id": f"{READ_ONLY} {number}",
            "permission": "allow",
            "flows": [flow],
            "messages": messages,
            "key_exprs": keys,
        }
        for number, (flow, messages, keys) in enumerate(
            (
                ("ingress", ["declare_subscriber"], data),
                ("egress", ["put", "delete"], data),
                ("ingress", ["liveliness_token"], own),
                ("egress", ["liveliness_token"], tokens),
            ),
            1,
        )
    ]
    rules.append(_graph(domain))
    subjects = [{"id": common_name, "cert_common_names": [common_name]}]
    policies = [{"rules": [rule["id"] for rule in rules], "subjects": [common_name]}]
    return _section(rules, subjects, policies)


def _section(
    rules: list[dict[str, Any]], subjects: list[Any], policies: list[Any]
) -> dict[str, Any]:
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _graph(domain: int, *messages: str) -> dict[str, Any]:
    """The graph may be asked for, and what else is said."""
    return {
        "id": "graph",
        "permission": "allow",
        "messages": [*messages, "liveliness_query", "declare_liveliness_subscriber"],
        "key_exprs": [f"{_TOKENS}/{domain}/**"],
    }


def _enclaves(policy: str) -> Iterator[ElementTree.Element]:
    if len(policy) > _POLICY_LEN_MAX:
        raise ConfigError("policy", f"exceeds {_POLICY_LEN_MAX} characters")
    if "<!" in policy.replace("<!--", ""):
        raise ConfigError("policy", "has a document type or entities, which are not read")
    try:
        root = ElementTree.fromstring(policy)  # noqa: S314  # without entities, of bounded length
    except ElementTree.ParseError as error:
        raise ConfigError("policy", f"expected XML: {error}") from error
    if root.tag != "policy" or root.find("enclaves") is None:
        raise ConfigError("policy", f"expected <policy><enclaves>, got <{root.tag}>")
    yield from root.iterfind("enclaves/enclave")


def _rules_of(enclave: ElementTree.Element, domain: int) -> Iterator[dict[str, Any]]:
    for profile in enclave.iterfind("profiles/profile"):
        namespace, node = _attribute(profile, "ns"), _attribute(profile, "node")
        for group in profile:
            for verb, said in group.attrib.items():
                permission = _PERMISSIONS.get(said)
                if permission is None:
                    raise ConfigError(
                        "policy", f"{verb}: expected ALLOW or DENY, got {said[:40]!a}"
                    )
                names = [_full(item.text or "", namespace, node) for item in group]
                if names:
                    yield from _group_rules(group.tag, verb, names, permission, domain)


def _group_rules(
    tag: str, verb: str, names: list[str], permission: str, domain: int
) -> Iterator[dict[str, Any]]:
    if tag == "actions" and verb in ("call", "execute"):
        calls = verb == "call"
        services = [f"{name}/_action/{one}" for name in names for one in _ACTION_SERVICES]
        topics = [f"{name}/_action/{one}" for name in names for one in _ACTION_TOPICS]
        yield from _rules("request" if calls else "reply", services, permission, domain)
        yield from _rules("subscribe" if calls else "publish", topics, permission, domain)
        return
    legal = {"topics": ("publish", "subscribe"), "services": ("reply", "request")}
    if verb not in legal.get(tag, ()):
        raise ConfigError("policy", f"{tag[:40]!a} has no permission {verb[:40]!a}")
    yield from _rules(verb, names, permission, domain)


def _rules(verb: str, names: list[str], permission: str, domain: int) -> Iterator[dict[str, Any]]:
    is_topic = verb in ("publish", "subscribe")
    ends = ["/*/*", f"/*/*/{BUFFER_CPU}", "/*/*/@adv/**"] if is_topic else ["/*/*"]
    keys = [str(KeyExpr.autocanonize(f"{domain}{name}{end}")) for name in names for end in ends]
    for flow, messages in _FLOWS[verb].items():
        yield {
            "permission": permission,
            "flows": [flow],
            "messages": messages,
            "key_exprs": keys,
        }


def _full(name: str, namespace: str, node: str) -> str:
    """A name of a policy as an absolute one; `*` stands for any number of chunks."""
    name = name.strip()
    space = namespace.rstrip("/")
    if name.startswith("~"):
        name = f"{space}/{node}{name[1:]}"
    elif not name.startswith("/"):
        name = f"{space}/{name}"
    chunks = ["**" if chunk == "*" else chunk for chunk in name.split("/")[1:]]
    if not all(chunks) or any("*" in chunk and chunk != "**" for chunk in chunks):
        raise ConfigError("policy", f"expected a ROS name or *, got {name[:80]!a}")
    return "/" + "/".join(chunks)


def _attribute(element: ElementTree.Element, name: str) -> str:
    found = element.get(name)
    if not found:
        raise ConfigError("policy", f"<{element.tag}> has no {name}")
    return found
