"""What a node tells of a key is what it does with messages on it."""

from __future__ import annotations

from tests.unit.routing.mesh import Mesh, Node, Session

from elea.routing.explain import Action, explain
from elea.routing.regions import CLIENT, PEER
from elea.routing.stats import Drop


def told(
    node: Node, action: Action, key: str, sender: bytes | None = None, root: bytes | None = None
) -> dict[str, list[str]]:
    """Who is named, and why; the node's own application as `local`."""
    hops = explain(node.routing, action, key, sender, root)
    return {"local" if one.face.spec.local else one.face.spec.zid.decode(): one.why for one in hops}


def router() -> tuple[Node, Session, Session, Session]:
    node = Mesh().node("self", "router")
    return node, node.session(), node.neighbour(CLIENT, zid=b"c"), node.neighbour(CLIENT, zid=b"d")


def test_a_sample_goes_to_its_subscribers_and_not_back() -> None:
    node, session, c, d = router()
    session.subscriber("a/**")
    c.subscriber("a/*")
    d.subscriber("a/b")
    d.subscriber("**")
    d.subscriber("other")
    every = {"local": ["subscriber a/**"], "c": ["subscriber a/*"]}
    both = ["subscriber a/b", "subscriber **"]
    shown = told(node, Action.PUT, "a/b")
    assert {zid: sorted(why) for zid, why in shown.items()} == {**every, "d": sorted(both)}
    assert told(node, Action.PUT, "a/b", b"d") == every
    assert told(node, Action.PUT, "none", b"c") == {"d": ["subscriber **"]}


def test_what_is_told_is_what_happens() -> None:
    node, session, c, d = router()
    c.subscriber("a/*")
    d.subscriber("a/b")
    for one in (c, d, session):
        one.heard()
    d.put("a/b")
    assert told(node, Action.PUT, "a/b", b"d").keys() == {"c"}
    assert [bool(one.heard()) for one in (c, d, session)] == [True, False, False]


def test_a_question_counts_nothing_and_is_not_remembered() -> None:
    node, _, c, _ = router()
    c.subscriber("a/*")
    generation = node.routing.tables.generation
    told(node, Action.PUT, "a/b", b"d")
    told(node, Action.GET, "a/b")
    told(node, Action.SUBSCRIBE, "a/b")
    assert node.routing.tables.generation == generation
    assert not any(one.samples or one.queries for one in node.routing.tables.caches.values())
    assert node.routing.stats.dropped() == {}


def test_a_query_goes_to_all_that_can_answer() -> None:
    node, session, c, d = router()
    session.queryable("q/**", complete=True)
    c.queryable("q/a")
    shown = {"local": ["queryable q/** (complete)"], "c": ["queryable q/a"]}
    assert told(node, Action.GET, "q/a", b"d") == shown
    assert told(node, Action.GET, "q/a", b"c") == {"local": shown["local"]}
    assert d.heard() == []


def test_a_subscription_goes_to_who_publishes() -> None:
    node, session, c, d = router()
    session.publisher("p/x")
    c.publisher("p/*")
    d.querier("p/x")
    assert told(node, Action.SUBSCRIBE, "p/**", b"d") == {
        "local": ["publisher p/x"],
        "c": ["publisher p/*"],
    }
    assert told(node, Action.SUBSCRIBE, "p/**", b"c") == {"local": ["publisher p/x"]}


def test_peers_are_told_of_every_subscriber() -> None:
    node = Mesh().node("self", "peer")
    node.neighbour(PEER, zid=b"p")
    assert told(node, Action.SUBSCRIBE, "a") == {"p": ["is told of every subscriber"]}


def test_a_peer_that_has_not_told_what_it_has_gets_everything() -> None:
    node = Mesh().node("self", "peer")
    node.neighbour(PEER, zid=b"p")
    assert told(node, Action.PUT, "a") == {"p": ["has not told what it has"]}


def test_a_group_is_sent_everything() -> None:
    node = Mesh().node("self", "peer")
    node.group()
    assert list(told(node, Action.PUT, "a").values()) == [["a group is sent everything"]]


def test_routers_hand_on_along_the_tree_of_where_it_entered() -> None:
    mesh = Mesh()
    a, b, c = (mesh.node(name, "router") for name in "abc")
    mesh.connect(a, b)
    mesh.connect(b, c)
    mesh.wait(1)
    c.session().subscriber("k")
    mesh.pump()
    assert told(a, Action.PUT, "k") == {"b": ["subscriber k"]}
    assert told(b, Action.PUT, "k", b"a", b"a") == {"c": ["subscriber k"]}
    assert told(b, Action.PUT, "k", b"c", b"c") == {}
    assert told(c, Action.PUT, "k", b"b", b"a") == {"local": ["subscriber k"]}
    assert told(b, Action.SUBSCRIBE, "k", b"a", b"a") == {"c": ["is told of every subscriber"]}


def test_reasons_are_bounded() -> None:
    node, _, c, _ = router()
    for number in range(20):
        c.subscriber(f"a/{number}")
    [why] = told(node, Action.PUT, "a/*").values()
    assert (len(why), why[-1]) == (9, "12 more")


def test_every_reason_has_a_meaning() -> None:
    assert [one for one in Drop if not one.meaning] == []


def test_a_query_goes_to_those_that_its_target_chooses() -> None:
    node, session, c, d = router()
    c.queryable("a/b", complete=True)
    d.queryable("a/*")

    def asked(target: int) -> set[str]:
        hops = explain(node.routing, Action.GET, "a/b", None, None, target)
        return {one.face.spec.zid.decode() for one in hops}

    assert [asked(target) for target in (0, 1, 2)] == [{"c"}, {"c", "d"}, {"c"}]
    assert told(node, Action.GET, "a/b").keys() == {"c"}
    for target in (0, 1, 2):
        c.heard(), d.heard()
        session.get("a/b", target=target)
        reached = {name for name, one in (("c", c), ("d", d)) if one.heard()}
        assert reached == asked(target)
