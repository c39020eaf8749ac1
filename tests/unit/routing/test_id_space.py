"""Ids of requests, entities and interests begin anew at the end of their space."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import Mesh, Node, S, Session

from elea.limits import Limits
from elea.routing.face import Face, FaceSpec
from elea.routing.id_space import ID_MAX, IdSpace
from elea.routing.regions import CLIENT, PEER
from elea.wire.buffer import Writer
from elea.wire.codec import decode_one, encode
from elea.wire.data.query import Query
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declare import Declare
from elea.wire.network.interest import InterestMode
from elea.wire.network.request import Request


def test_numbers_in_use_are_skipped_and_all_in_use_is_told() -> None:
    in_use: set[int] = set()
    ids = IdSpace(lambda: in_use, first=0, largest=7, last=0)
    for _ in range(8):
        number = ids.take()
        assert number is not None
        in_use.add(number)
    assert in_use == set(range(8))
    assert ids.take() is None
    in_use.remove(5)
    assert ids.take() == 5
    in_use.add(5)
    assert ids.take() is None
    in_use.clear()
    assert [ids.take() for _ in range(9)] == [0, 1, 2, 3, 4, 5, 6, 7, 0]


def answering(node: Node, request_id_max: int) -> Session:
    """A neighbour with a queryable that answers nothing by itself."""
    peer = node._scripted()
    placement = node.role.place(PEER)
    assert placement is not None
    spec = FaceSpec(
        zid=b"few", whatami=PEER, region=placement.region, request_id_max=request_id_max
    )
    node.routing.open_face(peer.face_id, spec, node.mesh.now_ns)
    peer.say(Declare(DeclareQueryable(1, WireExpr(0, "q"))))
    peer.heard()
    return peer


def requests(peer: Session) -> list[int]:
    return [int(word.split()[1]) for word in peer.heard() if word.startswith("REQUEST ")]


def test_request_ids_stay_within_the_agreed_resolution() -> None:
    node = Mesh().node("p")
    session, peer = node.session(), answering(node, 0xFF)
    session.get("q")
    [kept] = requests(peer)  # in flight while the numbers begin anew, more than once
    seen = []
    for _ in range(1_000):
        number = session.get("q")
        [asked] = requests(peer)
        seen.append(asked)
        peer.done(asked)
        assert session.heard() == [f"RESPONSE_FINAL {number}"]
    assert set(seen) == set(range(256)) - {kept}


def test_a_query_beyond_the_ids_of_a_neighbour_is_refused_with_a_reason() -> None:
    node = Mesh(limits=Limits(queries_count=1_000)).node("p")
    session, peer = node.session(), answering(node, 0xFF)
    for _ in range(256):
        session.get("q")
    assert sorted(requests(peer)) == list(range(256))
    number = session.get("q")
    [error, final] = session.heard()
    assert error.startswith(f"RESPONSE {number} ERR Too many requests in flight")
    assert final == f"RESPONSE_FINAL {number}"
    assert node.routing.stats.dropped() == {"request_ids": 1}
    peer.done(77)
    session.heard()
    session.get("q")
    assert requests(peer) == [77]


def test_a_late_end_of_a_request_ends_no_other_with_the_same_id() -> None:
    node = Mesh().node("p")
    session, peer = node.session(), answering(node, 0xFF)
    late = []
    for is_cancelled in (False, True):
        number = session.get("q")
        late += requests(peer)
        if is_cancelled:
            assert node.routing.queries.cancel(_face(node, session), number)
        else:
            node.mesh.wait(60.0)
            assert session.heard()[-1] == f"RESPONSE_FINAL {number}"
    asked = []
    for _ in range(254):  # all ids that are free
        session.get("q")
        asked += requests(peer)
    assert set(asked) == set(range(256)) - set(late)
    for number in asked[1:]:
        peer.done(number)
    session.heard()
    session.get("q")
    [last] = requests(peer)
    assert last not in late
    for number in late:
        peer.done(number)
    assert session.heard() == [], "another query was ended"
    peer.done(last)
    for _ in range(2):
        session.get("q")
        peer.done(*requests(peer))
    assert node.routing.queries.request_ids(peer.face_id) == {asked[0]}


def test_a_neighbour_that_ends_no_request_is_asked_on() -> None:
    node = Mesh().node("p")
    session, peer = node.session(), answering(node, 0xFF)
    for _ in range(3 * 256):
        number = session.get("q")
        assert len(requests(peer)) == 1
        assert node.routing.queries.cancel(_face(node, session), number)
    assert node.routing.stats.dropped() == {}


def _face(node: Node, session: Session) -> Face:
    return node.routing.tables.faces[session.face_id]


def test_another_neighbour_answers_what_one_without_ids_cannot() -> None:
    node = Mesh(limits=Limits(queries_count=1_000)).node("p")
    session, peer = node.session(), answering(node, 0xFF)
    other = node.neighbour(CLIENT)
    for _ in range(256):
        session.get("q")
    other.say(Declare(DeclareQueryable(1, WireExpr(0, "q"))))
    session.heard()
    number = session.get("q", target=1)
    [asked] = requests(other)
    other.reply(asked, "q", "yes")
    other.done(asked)
    error, reply, final = session.heard()
    assert "ERR" in error
    assert reply == f'RESPONSE {number} "q" yes'
    assert final == f"RESPONSE_FINAL {number}"
    assert len(requests(peer)) == 256


def test_after_two_to_the_32_queries_a_request_can_still_be_read() -> None:
    node = Mesh().node("p")
    session, peer = node.session(), answering(node, ID_MAX)
    node.routing.tables.faces[peer.face_id].request_ids._last = ID_MAX - 1
    numbers = []
    for _ in range(3):
        session.get("q")
        numbers += requests(peer)
    assert numbers == [ID_MAX, 0, 1]
    for number in numbers:
        writer = Writer()
        encode(writer, Request(number, WireExpr(0, "q"), Query()))
        message = decode_one(writer.to_bytes())
        assert isinstance(message, Request)
        assert message.id == number


@pytest.mark.parametrize("kind", ["subscriber", "queryable", "token"])
def test_entity_ids_begin_anew_and_skip_those_that_are_declared(kind: str) -> None:
    node = Mesh().node("p")
    session, peer = node.session(), node.neighbour(PEER)
    declare = getattr(session, kind)
    declare("long/lived")
    [first] = [word for word in peer.heard() if " id " in word]
    face = node.routing.tables.faces[peer.face_id]
    face.ids._last = ID_MAX - 1
    declare("last")
    declare("wrapped")
    said = [word for word in peer.heard() if " id " in word]
    ids = [int(word.split(" id ")[1].split()[0]) for word in said]
    kept = int(first.split(" id ")[1].split()[0])
    assert ids[0] == ID_MAX
    assert 0 < ids[1] < 10
    assert ids[1] != kept


def test_interest_ids_begin_anew_and_skip_those_that_are_open() -> None:
    node = Mesh().node("c")
    session = node.session()
    gateway = node.neighbour(0)
    session.interest(InterestMode.CURRENT_FUTURE, S, "a")
    kept = {int(word.split()[1]) for word in gateway.heard() if word.startswith("INTEREST")}
    node.routing.tables.faces[gateway.face_id].ids._last = ID_MAX
    for number in range(4):
        session.interest(InterestMode.CURRENT_FUTURE, S, f"b/{number}")
    later = [int(word.split()[1]) for word in gateway.heard() if word.startswith("INTEREST")]
    assert len(set(later)) == 4
    assert max(later) < 20
    assert not kept & set(later)
