"""Queries: who is asked, what comes back, and that they end (behaviour.md 5.6, 5.7)."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import Mesh, Node, Session, says

from elea.answers import DROPPED
from elea.limits import Limits
from elea.routing.queries import _Candidate, _choose
from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.wire.codec import NetworkMessage
from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.fields import QOS_REQUEST, WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declare import Declare
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.shared_extensions import EntityRef

BEST, ALL, ALL_COMPLETE = 0, 1, 2


def offer(face: Session, key: str, *, complete: bool = False) -> None:
    face.say(Declare(DeclareQueryable(next(face.ids), WireExpr(0, key), complete)))


def asked(*faces: Session) -> list[bool]:
    """Which of the faces got a request since the last look."""
    return [any(word.startswith("REQUEST") for word in face.heard()) for face in faces]


def test_a_query_without_a_queryable_ends_at_once() -> None:
    node = Mesh().node("p")
    session = node.session()
    number = session.get("q")
    assert session.heard() == [f"RESPONSE_FINAL {number}"]
    assert node.routing.stats.dropped() == {"no_queryable": 1}


def test_a_query_on_an_unknown_alias_ends_at_once() -> None:
    """3.4."""
    node = Mesh().node("p")
    client = node.neighbour(CLIENT)
    client.say(Request(5, WireExpr(9, "/x"), Query(), QOS_REQUEST))
    client.say(Request(6, WireExpr(0, "not//canonical"), Query(), QOS_REQUEST))
    assert client.heard() == ["RESPONSE_FINAL 5", "RESPONSE_FINAL 6"]
    assert node.routing.stats.dropped() == {"unknown_scope": 1, "invalid_key": 1}


def test_all_that_is_said_of_a_query_travels_with_it() -> None:
    node = Mesh().node("p")
    client, peer = node.neighbour(CLIENT), node.neighbour(PEER)
    offer(peer, "q/**")
    request = Request(7, WireExpr(0, "q/x"), Query(), 0x4D, ALL, 3, 1234)
    client.say(request)
    forwarded = peer.got[-1]
    assert forwarded == Request(1, WireExpr(0, "q/x"), request.body, 0x4D, ALL, 3, 1234)
    peer.say(Declare(DeclareKeyExpr(1, WireExpr(0, "q"))))
    responder = EntityRef(b"z", 3)
    peer.say(Response(1, WireExpr(1, "/x"), Reply(Del()), 5, responder))
    assert client.got == [Response(7, WireExpr(0, "q/x"), Reply(Del()), 0x4D, responder)]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (BEST, [False, True, False, False]),
        (ALL, [True, True, True, False]),
        (ALL_COMPLETE, [False, True, True, False]),
    ],
)
def test_targets_choose_within_a_region(target: int, expected: list[bool]) -> None:
    node = Mesh().node("p")
    session = node.session()
    faces = [node.neighbour(CLIENT, zid=bytes([number])) for number in range(1, 5)]
    offer(faces[0], "q/a")
    offer(faces[1], "q/**", complete=True)
    offer(faces[2], "q/*", complete=True)
    offer(faces[3], "other")
    session.get("q/a", target=target)
    assert asked(*faces) == expected


def test_completeness_needs_inclusion() -> None:
    """3.6: complete on q/a is not complete for q/*."""
    node = Mesh().node("p")
    session = node.session()
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(one, "q/a", complete=True)
    offer(two, "q/b")
    session.get("q/*")
    assert asked(one, two) == [True, True]
    session.get("q/*", target=ALL_COMPLETE)
    assert asked(one, two) == [False, False]


def test_the_best_is_chosen_in_each_region() -> None:
    """5.6: one complete queryable in each region that has one, all where there is none."""
    node = Mesh().node("p")
    asking = node.session()
    local = [node.session(), node.session()]
    clients = [node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")]
    peers = [node.neighbour(PEER, zid=b"3"), node.neighbour(PEER, zid=b"4")]
    for peer in peers:
        peer.say(Declare(DeclareFinal(), 0))
    for face in (*local, *clients):
        offer(face, "q", complete=True)
    for peer in peers:
        offer(peer, "q")
    asking.get("q")
    assert asked(*local, *clients, *peers) == [True, False, True, False, True, True]


def test_the_asker_does_not_stand_in_for_another() -> None:
    node = Mesh().node("p")
    one, two = node.session(), node.session()
    for face in (one, two):
        offer(face, "q", complete=True)
    node.session().get("q")
    assert asked(one, two) == [True, False]
    one.get("q")
    assert asked(one, two) == [False, True]
    two.get("q")
    assert asked(one, two) == [True, False]


def test_a_peer_that_has_not_told_everything_is_asked() -> None:
    """4.7, 5.6: with unknown info, also for ALL_COMPLETE; beaten by a complete one."""
    node = Mesh().node("p")
    session = node.session()
    late, known = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    known.say(Declare(DeclareFinal(), 0))
    session.get("q", target=ALL_COMPLETE)
    assert asked(late, known) == [True, False]
    offer(known, "q", complete=True)
    session.get("q")
    assert asked(late, known) == [False, True]
    session.get("q", target=ALL)
    assert asked(late, known) == [True, True]
    late.say(Declare(DeclareFinal(), 0))
    session.get("q", target=ALL)
    assert asked(late, known) == [False, True]


def test_a_face_is_asked_once_however_many_of_its_queryables_match() -> None:
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT)
    offer(client, "q/a")
    offer(client, "q/*")
    session.get("q/a", target=ALL)
    assert client.heard() == ['REQUEST 1 "q/a"']


def test_queries_from_the_north_stay_out_of_the_north() -> None:
    """Checklist 97."""
    node = Mesh().node("p")
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    offer(two, "q")
    one.heard()
    one.say(Request(3, WireExpr(0, "q"), Query(), QOS_REQUEST))
    assert one.heard() == ["RESPONSE_FINAL 3"]
    assert asked(two) == [False]


def test_one_end_for_many_destinations() -> None:
    """Checklist 125, 126: all replies, unconsolidated, then one RESPONSE_FINAL."""
    node = Mesh().node("p")
    session = node.session()
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(one, "q")
    offer(two, "q")
    number = session.get("q")
    one.reply(1, "q", "a")
    two.reply(1, "q", "b")
    one.reply(1, "q", "c")
    one.done(1)
    assert session.heard() == [
        f'RESPONSE {number} "q" a',
        f'RESPONSE {number} "q" b',
        f'RESPONSE {number} "q" c',
    ]
    two.done(1)
    assert session.heard() == [f"RESPONSE_FINAL {number}"]


def test_what_comes_late_is_dropped() -> None:
    """Checklist 130."""
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT)
    offer(client, "q")
    session.get("q")
    client.done(1)
    session.heard()
    client.reply(1, "q", "late")
    client.done(1)
    assert session.heard() == []
    assert node.routing.stats.dropped() == {"reply_late": 2}


def test_a_silent_destination_costs_an_error() -> None:
    """5.7: ERR `Timeout`, empty key, the zid of who was silent; one for each."""
    mesh = Mesh()
    node = mesh.node("p")
    asking = node.neighbour(CLIENT, zid=b"asking")
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(one, "q")
    offer(two, "q")
    asking.say(Request(8, WireExpr(0, "q"), Query(), QOS_REQUEST, timeout_ms=500))
    mesh.wait(0.4)
    assert asking.heard() == []
    mesh.wait(0.2)
    errors = asking.got[:2]
    assert errors == [
        Response(8, WireExpr(0), Err(b"Timeout"), QOS_REQUEST, EntityRef(zid, 0))
        for zid in (b"1", b"2")
    ]
    assert asking.heard()[2:] == ["RESPONSE_FINAL 8"]
    one.reply(1, "q", "late")
    assert asking.heard() == []
    assert node.routing.stats.dropped() == {"query_timeout": 2, "reply_late": 1}
    assert node.routing.next_timer_ns() is None


def test_timeouts_have_a_default_and_a_bound() -> None:
    """T26: strangers do not keep queries open for longer than a minute."""
    mesh = Mesh()
    node = mesh.node("p")
    asking, silent = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(silent, "q")
    asking.say(Request(1, WireExpr(0, "q"), Query(), QOS_REQUEST))
    assert node.routing.next_timer_ns() == 10_000_000_000
    mesh.wait(10)
    assert asking.heard() == ["RESPONSE 1 ERR Timeout", "RESPONSE_FINAL 1"]
    asking.say(Request(2, WireExpr(0, "q"), Query(), QOS_REQUEST, timeout_ms=3_600_000))
    mesh.wait(59)
    assert asking.heard() == []
    mesh.wait(1)
    assert asking.heard() == ["RESPONSE 2 ERR Timeout", "RESPONSE_FINAL 2"]


def test_a_session_may_ask_for_as_long_as_it_likes_and_is_reminded() -> None:
    """A session ends its own queries at their deadline; routing only makes sure."""
    mesh = Mesh()
    node = mesh.node("p")
    session, silent = node.session(), node.neighbour(CLIENT)
    offer(silent, "q")
    number = session.get("q", timeout_ms=120_000)
    mesh.wait(120.9)
    assert session.heard() == []
    mesh.wait(0.1)
    assert session.heard() == [f"RESPONSE {number} ERR Timeout", f"RESPONSE_FINAL {number}"]


def test_a_session_gives_up_a_query() -> None:
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT)
    offer(client, "q")
    number = session.get("q")
    assert node.routing.cancel_query(session.face_id, number)
    assert not node.routing.cancel_query(session.face_id, number)
    assert not node.routing.cancel_query(77, number)
    client.reply(1, "q", "late")
    client.done(1)
    assert session.heard() == []
    assert node.routing.next_timer_ns() is None


def test_a_lost_destination_is_done_without_a_word() -> None:
    """5.7."""
    node = Mesh().node("p")
    session = node.session()
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(one, "q")
    offer(two, "q")
    number = session.get("q")
    one.reply(1, "q", "a")
    one.close()
    assert session.heard() == [f'RESPONSE {number} "q" a']
    two.close()
    assert session.heard() == [f"RESPONSE_FINAL {number}"]


def test_a_lost_asker_is_forgotten() -> None:
    node = Mesh().node("p")
    asking, client = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(client, "q")
    asking.get("q")
    asking.close()
    client.reply(1, "q", "late")
    client.done(1)
    assert node.routing.stats.dropped() == {"reply_late": 2}
    client.close()
    assert node.routing.is_empty()


def test_request_ids_are_of_each_hops_own() -> None:
    """Checklist 131."""
    node = Mesh().node("p")
    one, two = node.session(), node.session()
    client = node.neighbour(CLIENT)
    offer(client, "q")
    numbers = one.get("q"), two.get("q")
    assert client.heard() == ['REQUEST 1 "q"', 'REQUEST 2 "q"']
    client.reply(2, "q", "to two")
    client.reply(1, "q", "to one")
    assert one.heard() == [f'RESPONSE {numbers[0]} "q" to one']
    assert two.heard() == [f'RESPONSE {numbers[1]} "q" to two']


def test_a_request_id_in_use_is_refused() -> None:
    node = Mesh().node("p")
    asking, client = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(client, "q")
    for _ in range(2):
        asking.say(Request(4, WireExpr(0, "q"), Query(), QOS_REQUEST))
    assert client.heard() == ['REQUEST 1 "q"']
    client.done(1)
    assert asking.heard() == ["RESPONSE_FINAL 4"]
    assert node.routing.stats.dropped() == {"query_duplicate": 1}


def test_open_queries_of_one_face_are_bounded() -> None:
    node = Mesh(limits=Limits(queries_count=2)).node("p")
    asking, client = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    session = node.session()
    offer(client, "q")
    for number in range(1, 4):
        asking.say(Request(number, WireExpr(0, "q"), Query(), QOS_REQUEST))
        session.get("q")
    assert asking.heard() == ["RESPONSE 3 ERR Too many open queries", "RESPONSE_FINAL 3"]
    assert session.heard() == []
    assert node.routing.stats.dropped() == {"query_limit": 1}


@pytest.mark.parametrize(
    "limits", [Limits(query_replies_count=2), Limits(query_replies_len=len("onetwo"))]
)
def test_replies_to_one_query_are_bounded(limits: Limits) -> None:
    """T26; an application of this process may ask for as much as it can take."""
    node = Mesh(limits=limits).node("p")
    asking, session = node.neighbour(CLIENT, zid=b"0"), node.session()
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    offer(one, "q")
    offer(two, "q")
    asking.say(Request(9, WireExpr(0, "q"), Query(), QOS_REQUEST))
    session.get("q")
    for request_id in (1, 2):
        for text in ("one", "two", "three"):
            one.reply(request_id, "q", text)
        two.reply(request_id, "q", "four")
    assert asking.heard() == [
        'RESPONSE 9 "q" one',
        'RESPONSE 9 "q" two',
        "RESPONSE 9 ERR Too many replies",
        "RESPONSE_FINAL 9",
    ]
    assert len(session.heard()) == 4
    assert node.routing.stats.dropped() == {"reply_limit": 1, "reply_late": 1}


def test_errors_may_have_a_key_or_none_and_replies_must_have_one() -> None:
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT)
    offer(client, "q")
    number = session.get("q")
    client.say(Response(1, WireExpr(0), Err(b"no key")))
    client.say(Response(1, WireExpr(0, "q"), Err(b"key")))
    client.say(Response(1, WireExpr(0), Reply(Put(b"nowhere"))))
    client.say(Response(1, WireExpr(4), Err(b"nowhere")))
    assert [says(one) for one in session.got] == [
        f"RESPONSE {number} ERR no key",
        f"RESPONSE {number} ERR key",
    ]
    assert node.routing.stats.dropped() == {"invalid_key": 1, "unknown_scope": 1}


class _Refusing(Node):
    """A node whose output takes no requests."""

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        if isinstance(message, Request):
            return DROPPED
        return super().send(face_id, message, reliable)


def test_a_destination_that_takes_no_request_is_done() -> None:
    """Otherwise the asker would wait for the timeout of a question nobody heard."""
    mesh = Mesh()
    node = mesh.node("p", cls=_Refusing)
    session, client = node.session(), node.neighbour(CLIENT)
    offer(client, "q")
    number = session.get("q")
    assert session.heard() == [f"RESPONSE_FINAL {number}"]
    assert node.routing.stats.dropped() == {"query_congested": 1}


class _Eager(Node):
    """A node whose sessions answer from inside `send`."""

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        answer = super().send(face_id, message, reliable)
        if isinstance(message, Request) and face_id in self.sessions:
            self.sessions[face_id].reply(message.id, "q", "now")
            self.sessions[face_id].done(message.id)
        return answer


def test_answers_from_inside_send_do_not_end_a_query_early() -> None:
    node = Mesh().node("p", cls=_Eager)
    asking, one, two = node.session(), node.session(), node.session()
    offer(one, "q")
    offer(two, "q")
    number = asking.get("q")
    assert asking.heard() == [
        f'RESPONSE {number} "q" now',
        f'RESPONSE {number} "q" now',
        f"RESPONSE_FINAL {number}",
    ]


def test_the_unfinished_interest_of_a_querier_lets_queries_through() -> None:
    node = Mesh().node("c", "client")
    session, router = node.session(), node.neighbour(ROUTER)
    session.querier("q")
    router.heard()
    session.get("q", target=ALL_COMPLETE)
    assert router.heard() == ["REQUEST 1 (1)"]
    router.say(Declare(DeclareFinal(), 1))
    session.get("q", target=ALL_COMPLETE)
    assert router.heard() == []
    offer(router, "q")
    session.get("q", target=ALL_COMPLETE)
    assert router.heard() == []
    session.get("q")
    assert router.heard() == ["REQUEST 2 (1)"]


def test_the_best_match_is_one_that_a_neighbour_leads_to_for_certain() -> None:
    """While a tree is searched for, a neighbour that only might lead there is no best match."""
    node = Mesh().node("p")
    faces = [node.routing.tables.faces[node.neighbour(PEER).face_id] for _ in range(3)]
    near, far, other = (
        _Candidate(faces[0], True, False, 1.0, certain=False),
        _Candidate(faces[1], True, False, 9.0),
        _Candidate(faces[2], True, False, 2.0, certain=False),
    )
    assert _choose([near, far, other], BEST) == [far]
    assert _choose([near, other], BEST) == [near, other]
    assert _choose([near, far], ALL) == [near, far]
