"""A policy at work on a router between two clients, and both places where it is enforced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.node.worlds import Session, settings

from elea.config.config import Config
from elea.ids import WhatAmI
from elea.limits import Limits
from elea.node.guards import Guards, identity_of
from elea.policy.access import Verdict
from elea.policy.events import LoggedIn, LoginRefused, OverQuota, PolicyEvent, Refused
from elea.policy.identity import Identity
from elea.policy.policy import Policy
from elea.sim.world import SimDriver, World, seconds
from elea.wire.codec import NetworkMessage
from elea.wire.data.query import Query
from elea.wire.fields import QOS_DECLARE, QOS_REQUEST, WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import OPTION_RESTRICTED, OPTION_TOKENS, Interest, InterestMode
from elea.wire.network.request import Request
from elea.wire.network.response_final import ResponseFinal

ALL = [
    *("put", "delete", "declare_subscriber", "query", "declare_queryable", "reply"),
    *("liveliness_token", "declare_liveliness_subscriber", "liveliness_query"),
]


def policy_of(more: Mapping[str, object], **given: Any) -> Policy:
    return Policy.from_config(Config.from_mapping(more), **given)


def access(
    *keys: str,
    permission: str = "allow",
    default: str = "deny",
    messages: list[str] | None = None,
    flows: tuple[str, ...] = ("ingress", "egress"),
) -> dict[str, object]:
    """One rule, for everybody."""
    rule = {
        "id": "rule",
        "permission": permission,
        "messages": messages or ALL,
        "flows": list(flows),
        "key_exprs": list(keys),
    }
    return {
        "access_control": {
            "enabled": True,
            "default_permission": default,
            "rules": [rule],
            "subjects": [{"id": "all"}],
            "policies": [{"rules": ["rule"], "subjects": ["all"]}],
        }
    }


class Star:
    """A router with a policy, and two clients."""

    def __init__(self, policy: Policy) -> None:
        self.world = World(1)
        made = settings(0xAA, WhatAmI.ROUTER, listen="tcp/router:7447", policy=policy)
        self.router: SimDriver = self.world.add("router", made)
        self.events: list[PolicyEvent] = []
        self.router.node.guards.report = self.events.append
        self.one, self.other = (
            Session(
                self.world.add(name, settings(zid, WhatAmI.CLIENT, connect=("tcp/router:7447",)))
            )
            for name, zid in (("one", 0xB1), ("other", 0xB2))
        )
        self.run()

    def run(self, duration_s: int = 1) -> None:
        self.world.run_for(seconds(duration_s))

    def say(self, session: Session, message: NetworkMessage) -> list[NetworkMessage]:
        """Send a message of a session; what comes back within a second."""
        session.messages.clear()
        driver = session.driver
        driver.node.local_send(session.face_id, message, True, driver.now_ns())
        driver.flush()
        self.run()
        return session.messages

    @property
    def refusals(self) -> list[tuple[str, str, str, str]]:
        found = [one.refusal for one in self.events if isinstance(one, Refused)]
        return [(str(x.reason), x.flow.value, x.action.value, x.key) for x in found]

    def change(self, policy: Policy) -> None:
        self.router.node.guards.change(policy)
        self.router.flush()
        self.run()


def samples(star: Star) -> list[str]:
    """The keys of samples that get from one client to the other, of a few."""
    star.one.subscribe("open/**")
    star.one.subscribe("shut/**")
    star.run()
    for key in ("shut/a", "open/a", "other/a"):
        star.other.put(key, b"x")
    star.run()
    return [key for key, _ in star.one.samples]


def test_without_a_policy_no_face_is_guarded() -> None:
    star = Star(Policy())
    assert samples(star) == ["shut/a", "open/a"]
    node = star.router.node
    assert [one.sink.guard for one in node._neighbours] == [None, None]
    assert [one.outlet.guard for one in node._neighbours] == [None, None]


@pytest.mark.parametrize("flow", ["ingress", "egress"])
@pytest.mark.parametrize("message", ["put", "declare_subscriber"])
def test_samples_are_refused_on_either_side(flow: str, message: str) -> None:
    rules = access("shut/**", permission="deny", default="allow", messages=[message], flows=(flow,))
    star = Star(policy_of(rules))
    found = samples(star)
    if (message, flow) == ("declare_subscriber", "egress"):
        assert found == ["shut/a", "open/a"]  # a client is told of no subscriber unless it asks
        return
    assert found == ["open/a"]
    key = "shut/**" if message == "declare_subscriber" else "shut/a"
    assert star.refusals == [("access_control", flow, message, key)]
    assert sum(star.router.node.guards.refused.values()) == 1
    assert sum(view.refused_count for view in star.router.node.views()) == 1


def test_a_subscription_that_is_denied_in_part_gets_the_rest() -> None:
    """The example of the documentation locked its control room out."""
    rules = access("shut/**", permission="deny", default="allow", messages=["declare_subscriber"])
    star = Star(policy_of(rules))
    star.one.subscribe("**")
    star.run()
    for key in ("shut/a", "shut/**", "*/a", "**", "open/a"):
        star.other.put(key, b"x")
    star.other.put("open/*", b"x")
    star.run()
    assert [key for key, _ in star.one.samples] == ["open/a", "open/*"]
    refused = [("access_control", "egress", "put", key) for key in ("shut/a", "shut/**", "*/a")]
    assert star.refusals == [*refused, ("access_control", "egress", "put", "**")]


def test_rules_that_deny_a_part_later_take_that_part_away() -> None:
    star = Star(Policy())
    star.one.subscribe("**")
    star.run()

    def denied(key: str) -> Policy:
        messages = ["declare_subscriber"]
        return policy_of(access(key, permission="deny", default="allow", messages=messages))

    star.change(denied("shut/**"))
    star.other.put("shut/a", b"x")
    star.other.put("open/a", b"x")
    star.run()
    star.change(denied("**"))  # all of it: the subscription itself goes
    star.other.put("open/b", b"x")
    star.run()
    star.change(denied("shut/**"))
    star.other.put("shut/c", b"x")
    star.other.put("open/c", b"x")
    star.run()
    assert [key for key, _ in star.one.samples] == ["open/a", "open/c"]


@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_a_guard_taken_away_is_noticed(flow: str) -> None:
    """Each of the two places is needed: without it something passes that the rules forbid."""
    rules = access("shut/**", permission="deny", default="allow", messages=["put"], flows=(flow,))
    star = Star(policy_of(rules))
    for neighbour in star.router.node._neighbours:
        if flow == "ingress":
            neighbour.sink.guard = None
        else:
            neighbour.outlet.guard = None
    assert samples(star) == ["shut/a", "open/a"]


def test_each_sample_is_checked_again_where_it_leaves() -> None:
    """A subscriber was let in by a rule that is gone: what it gets is still checked."""
    star = Star(Policy())
    star.one.subscribe("**")
    star.run()
    rules = access("shut/**", permission="deny", default="allow", messages=["put"])
    star.change(policy_of(access("**", messages=ALL)))
    star.change(policy_of(rules))
    for key in ("shut/a", "open/a"):
        star.other.put(key, b"x")
    star.run()
    assert [key for key, _ in star.one.samples] == ["open/a"]


@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_a_refused_query_ends_at_once(flow: str) -> None:
    rules = access("shut/q", permission="deny", default="allow", messages=["query"], flows=(flow,))
    star = Star(policy_of(rules))
    declare = Declare(DeclareQueryable(1, WireExpr(0, "shut/q"), True), qos=QOS_DECLARE)
    star.say(star.one, declare)
    request = Request(7, WireExpr(0, "shut/q"), Query(), QOS_REQUEST, timeout_ms=60_000)
    assert star.say(star.other, request) == [ResponseFinal(7, QOS_REQUEST)]
    assert star.one.messages == []
    assert star.refusals == [("access_control", flow, "query", "shut/q")]


@pytest.mark.parametrize("mode", [InterestMode.CURRENT, InterestMode.CURRENT_FUTURE])
def test_a_refused_interest_in_tokens_is_answered(mode: InterestMode) -> None:
    star = Star(policy_of(access("open/**")))
    token = Declare(DeclareToken(1, WireExpr(0, "open/t")), qos=QOS_DECLARE)
    star.say(star.one, token)
    options = OPTION_TOKENS | OPTION_RESTRICTED
    for number, key, expected in ((1, "shut/*", []), (2, "open/*", ["open/t"])):
        interest = Interest(number, mode, options, WireExpr(0, key), QOS_DECLARE)
        bodies = [one.body for one in star.say(star.other, interest) if isinstance(one, Declare)]
        assert isinstance(bodies[-1], DeclareFinal)
        assert [one.key.suffix for one in bodies if isinstance(one, DeclareToken)] == expected


@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_a_refused_token_is_neither_seen_nor_taken_back(flow: str) -> None:
    kinds = ["liveliness_token"]
    rules = access("shut/*", permission="deny", default="allow", messages=kinds, flows=(flow,))
    star = Star(policy_of(rules))
    options = OPTION_TOKENS | OPTION_RESTRICTED
    wants = Interest(9, InterestMode.CURRENT_FUTURE, options, WireExpr(0, "**"), QOS_DECLARE)
    star.say(star.other, wants)
    star.other.messages.clear()
    star.say(star.one, Declare(DeclareToken(1, WireExpr(0, "shut/t")), qos=QOS_DECLARE))
    star.say(star.one, Declare(UndeclareToken(1), qos=QOS_DECLARE))
    assert star.other.messages == []


def test_a_refused_declaration_passes_once_the_rules_allow_it() -> None:
    star = Star(policy_of(access("open/**")))
    assert samples(star) == ["open/a"]
    star.one.samples.clear()
    star.change(policy_of(access("**")))
    star.other.put("shut/a", b"x")
    star.run()
    assert [key for key, _ in star.one.samples] == ["shut/a"]
    star.change(policy_of(access("open/**")))
    assert not star.router.node.routing.destinations(
        star.router.node._neighbours.faces()[-1], "shut/a"
    )
    star.change(Policy())
    star.other.put("shut/a", b"x")
    star.run()
    assert [key for key, _ in star.one.samples] == ["shut/a", "shut/a"]


def test_what_was_told_is_taken_back_when_the_rules_forbid_it() -> None:
    """Between peers everything is told unasked: here to a neighbour of the router."""
    world = World(1)
    far = Session(world.add("far", settings(0xAA, listen="tcp/far:7447")))
    near = Session(world.add("near", settings(0xBB, connect=("tcp/far:7447",))))
    far.subscribe("a")
    far.subscribe("b")
    world.run_for(seconds(1))
    node = far.driver.node
    [face] = node._neighbours.faces()
    for keys, expected in (
        (["a"], ["a"]),
        (["a", "b"], ["a", "b"]),
        (["c"], []),
        (["**"], ["a", "b"]),
    ):
        node.guards.change(policy_of(access(*keys, flows=("egress",), messages=ALL)))
        far.driver.flush()
        world.run_for(seconds(1))
        told = near.driver.node.routing.tables
        [other] = near.driver.node._neighbours.faces()
        assert sorted(told.faces[other].remote[0].values()) == expected
    assert len(node.routing.tables.faces[face].told[0]) == 2


@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_rules_that_change_apply_to_what_routers_told_each_other(flow: str) -> None:
    """What a router had told before rules changed stayed, until one of the two ended."""
    world = World(1)
    made = settings(0xAA, WhatAmI.ROUTER, listen="tcp/far:7447")
    far = Session(world.add("far", made))
    near = Session(world.add("near", settings(0xBB, WhatAmI.ROUTER, connect=("tcp/far:7447",))))
    for session in (far, near):
        session.subscribe("a")
        session.subscribe("b")
    world.run_for(seconds(5))
    changing, seen = (near, near) if flow == "ingress" else (far, near)
    for keys, expected in (
        (["a", "b"], ["a", "b"]),
        (["a"], ["a"]),
        (["c"], []),
        (["**"], ["a", "b"]),
    ):
        changing.driver.node.guards.change(policy_of(access(*keys, flows=(flow,), messages=ALL)))
        changing.driver.flush()
        world.run_for(seconds(20))
        flooding = seen.driver.node.routing.flooding
        assert flooding is not None
        [face] = seen.driver.node._neighbours.faces()
        assert sorted(key for _, key in flooding.said_by(face)) == expected, keys


def test_routers_stay_connected_if_rules_change_for_others() -> None:
    world = World(1)
    far = Session(world.add("far", settings(0xAA, WhatAmI.ROUTER, listen="tcp/far:7447")))
    near = world.add("near", settings(0xBB, WhatAmI.ROUTER, connect=("tcp/far:7447",)))
    Session(near).subscribe("a")
    world.run_for(seconds(5))
    [face] = far.driver.node._neighbours.faces()
    for _ in range(2):
        far.driver.node.guards.change(policy_of(access("a", "b", messages=ALL)))
        far.driver.flush()
        world.run_for(seconds(5))
        assert far.driver.node._neighbours.faces() == [face]


def test_routers_stay_connected_if_rules_change_back_to_what_they_were() -> None:
    world = World(1)
    policy = policy_of(access("a", flows=("egress",), messages=ALL))
    made = settings(0xAA, WhatAmI.ROUTER, listen="tcp/far:7447", policy=policy)
    far = Session(world.add("far", made))
    far.subscribe("a")
    far.subscribe("b")  # is not told
    world.add("near", settings(0xBB, WhatAmI.ROUTER, connect=("tcp/far:7447",)))
    world.run_for(seconds(5))
    [face] = far.driver.node._neighbours.faces()
    far.driver.node.guards.change(policy)
    far.driver.flush()
    world.run_for(seconds(5))
    assert far.driver.node._neighbours.faces() == [face]


@pytest.mark.parametrize("mode", [InterestMode.CURRENT, InterestMode.CURRENT_FUTURE])
def test_an_interest_that_may_not_leave_is_answered_here(mode: InterestMode) -> None:
    """A client with rules of its own: its session asks, and the router never hears of it."""
    star = Star(Policy())
    star.say(star.one, Declare(DeclareToken(1, WireExpr(0, "shut/t")), qos=QOS_DECLARE))
    guards = star.other.driver.node.guards
    guards.change(policy_of(access("open/**", flows=("egress",))))
    options = OPTION_TOKENS | OPTION_RESTRICTED
    interest = Interest(1, mode, options, WireExpr(0, "shut/*"), QOS_DECLARE)
    [answer] = star.say(star.other, interest)
    assert isinstance(answer, Declare)
    assert isinstance(answer.body, DeclareFinal)
    assert answer.interest_id == 1
    assert sum(guards.refused.values()) == 1


def test_a_query_that_may_not_leave_ends_here() -> None:
    star = Star(Policy())
    declare = Declare(DeclareQueryable(1, WireExpr(0, "shut/q"), True), qos=QOS_DECLARE)
    star.say(star.one, declare)
    star.other.driver.node.guards.change(policy_of(access("open/**", flows=("egress",))))
    request = Request(7, WireExpr(0, "shut/q"), Query(), QOS_REQUEST, timeout_ms=60_000)
    assert star.say(star.other, request) == [ResponseFinal(7, QOS_REQUEST)]


def test_an_authorizer_has_the_last_word_for_a_while() -> None:
    asked: list[tuple[str, str]] = []

    def authorize(identity: Identity, action: str, key: str) -> Verdict:
        asked.append((action, key))
        return Verdict(key != "shut/a", None, "because")

    star = Star(policy_of({"elea": {"authorizer_max_age": 5_000}}, authorize=authorize))
    assert samples(star) == ["open/a"]
    assert ("authorizer", "ingress", "put", "shut/a") in star.refusals
    for _ in range(3):
        star.other.put("shut/a", b"x")
    star.run()
    assert asked.count(("put", "shut/a")) == 1  # remembered
    star.run(5)
    star.other.put("shut/a", b"x")
    star.run()
    assert asked.count(("put", "shut/a")) == 2  # but not for ever


def test_who_comes_is_told() -> None:
    star = Star(Policy())
    names = [one.identity.zid for one in star.events if isinstance(one, LoggedIn)]
    assert sorted(names) == ["b1", "b2"]


def test_who_is_not_let_in_is_told() -> None:
    world = World(1)
    made = settings(0xAA, WhatAmI.ROUTER, listen="tcp/router:7447", sessions_max=0)
    router = world.add("router", made)
    events: list[PolicyEvent] = []
    router.node.guards.report = events.append
    world.add("client", settings(0xB1, WhatAmI.CLIENT, connect=("tcp/router:7447",)))
    world.run_for(seconds(1))
    assert any(isinstance(one, LoginRefused) for one in events)


QUOTA = {"messages_per_second": 10, "declarations": 2}


def test_who_sends_too_much_is_read_more_slowly() -> None:
    star = Star(policy_of({"elea": {"quotas": [QUOTA]}}))
    star.one.subscribe("**")
    star.run(3)
    for index in range(40):
        star.other.put("a", b"%d" % index)
    star.run(0)
    star.run(1)
    assert any(isinstance(one, OverQuota) and not one.closed for one in star.events)
    star.run(8)
    assert [payload for _, payload in star.one.samples] == [b"%d" % index for index in range(40)]
    assert star.router.node.guards.next_timer_ns() is None  # it is read again
    star.other.put("a", b"after")
    star.run()
    assert star.one.samples[-1] == ("a", b"after")


def test_who_sends_too_much_for_too_long_is_closed() -> None:
    star = Star(policy_of({"elea": {"quotas": [{**QUOTA, "close_after_ms": 3_000}]}}))
    for _ in range(30):
        for _ in range(10):
            star.other.put("a", b"x")
        star.run()
        if any(isinstance(one, OverQuota) and one.closed for one in star.events):
            break
    assert any(isinstance(one, OverQuota) and one.closed for one in star.events)


def test_who_declares_too_much_is_refused() -> None:
    star = Star(policy_of({"elea": {"quotas": [QUOTA]}}))
    for key in ("a", "b", "c"):
        star.one.subscribe(key)
    star.run()
    assert star.refusals == [("quota", "ingress", "declare_subscriber", "c")]


def test_nothing_is_remembered_of_who_left() -> None:
    star = Star(policy_of({**access("open/**"), "elea": {"quotas": [QUOTA]}}))
    samples(star)
    for session in (star.one, star.other):
        session.driver.node.detach(session.face_id, star.world.now_ns)
        session.driver.close()
    star.run(2)
    guards = star.router.node.guards
    assert not guards
    assert guards._held == {}


def test_who_comes_back_owes_what_it_owed() -> None:
    star = Star(policy_of({"elea": {"quotas": [QUOTA]}}))
    for index in range(40):
        star.other.put("a", b"%d" % index)
    star.run(0)
    guards = star.router.node.guards
    face = guards._faces[_face_of(star)]
    account = face.account
    assert account is not None
    star.other.driver.close()
    while star.router.node.face_of(b"\xb2") is not None:
        star.world.run_for(seconds(1) // 10)
    assert guards._account(face.identity) is account
    assert account.debt_ns(star.world.now_ns) > 0
    star.run(60)
    assert account.debt_ns(star.world.now_ns) == 0


def test_who_comes_back_is_not_read_until_it_has_paid() -> None:
    """Each new connection was read once: 6,400 messages in 0.2 s with a quota of 500 per second."""
    star, guards, face_id = many_links()
    node = star.router.node
    neighbour, account = node._neighbours.at(face_id), guards._faces[face_id].account
    assert neighbour is not None
    assert account is not None
    for _ in range(40):
        account.spend(1, star.world.now_ns)
    guards.leave(face_id)
    assert guards._held == {}
    guards.join(neighbour, node._links.infos(neighbour.links))
    assert guards._held[face_id] > star.world.now_ns
    assert guards.overdue(guards._held[face_id] + seconds(10)) == []
    assert guards._held == {}


def test_accounts_of_those_who_left_are_bounded() -> None:
    star = Star(policy_of({"elea": {"quotas": [QUOTA]}}))
    guards = star.router.node.guards
    for number in range(3_000):
        account = guards._account(Identity(zid="b3", user=f"user {number}"))
        assert account is not None
        account.spend(0, star.world.now_ns)
    assert Limits().accounts_left_count // 2 < len(guards._accounts)
    assert len(guards._accounts) <= Limits().accounts_left_count + 2


def many_links() -> tuple[Star, Guards, int]:
    """A client that is over its quota."""
    star = Star(policy_of({"elea": {"quotas": [QUOTA]}}))
    for index in range(40):
        star.other.put("a", b"%d" % index)
    star.run(0)
    guards = star.router.node.guards
    guards._excess(guards._faces[_face_of(star)])
    return star, guards, _face_of(star)


def _face_of(star: Star) -> int:
    face_id = star.router.node.face_of(b"\xb2")
    assert face_id is not None
    return face_id


def test_one_more_link_does_not_pay_what_is_owed() -> None:
    star, guards, face_id = many_links()
    node = star.router.node
    account = guards._faces[face_id].account
    assert account is not None
    assert face_id in guards._held
    neighbour = node._neighbours.at(face_id)
    assert neighbour is not None
    guards.join(neighbour, node._links.infos(neighbour.links))
    assert guards._faces[face_id].account is account
    assert face_id in guards._held


def test_a_link_that_moves_a_neighbour_out_of_its_quota_ends_its_waiting() -> None:
    star, guards, face_id = many_links()
    face = guards._faces[face_id]
    guards._policy = Policy()  # as if the new link proved another identity
    guards._guard(face)
    assert face.account is None
    assert guards.next_timer_ns() is None
    guards._held[face_id] = 0  # whatever else may lead there: it is no busy loop
    assert guards.overdue(star.world.now_ns) == []
    assert guards.next_timer_ns() is None


def test_a_link_is_who_it_proves_to_be() -> None:
    star = Star(Policy())
    [info, _] = [view.links[0] for view in star.router.node.views()]
    shown = replace(info, scheme="wss", interfaces=("lo",), peer_common_name="robot")
    identity = identity_of(b"\x01", "anna", [info, shown])
    assert [one.protocol for one in identity.links] == ["tcp", "ws"]
    assert identity.common_names == ("robot",)
    assert identity.name == "user:anna"
    assert replace(identity, user=None).name == "cert:robot"
    assert identity_of(b"\x01", None, [info]).name.startswith("address:")
