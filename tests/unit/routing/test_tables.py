"""Entries, and what a face may know of them."""

from __future__ import annotations

import pytest

from elea.limits import DEFAULT_LIMITS
from elea.routing.face import Face, FaceSpec, local_face
from elea.routing.regions import CLIENT, CLIENTS, NORTH_PEERS, PEER, Region
from elea.routing.resources import Aliases
from elea.routing.roles.peer import PEER_ROLE
from elea.routing.tables import (
    ABSENT,
    PRESENT,
    Kind,
    Tables,
    distance_of,
    is_complete,
    merge_info,
    pack_info,
)


def face(number: int, region: Region | None = None) -> Face:
    spec = local_face(b"z", PEER)
    if region is not None:
        spec = FaceSpec(zid=bytes([number]), whatami=CLIENT, region=region)
    return Face(number, spec, Aliases(10))


@pytest.mark.parametrize(
    ("a", "b", "merged"),
    [
        (ABSENT, ABSENT, ABSENT),
        (ABSENT, PRESENT, PRESENT),
        (pack_info(complete=False, distance=3), ABSENT, pack_info(complete=False, distance=3)),
        (
            pack_info(complete=False, distance=0),
            pack_info(complete=True, distance=9),
            pack_info(complete=True, distance=9),
        ),
        (
            pack_info(complete=True, distance=4),
            pack_info(complete=True, distance=2),
            pack_info(complete=True, distance=2),
        ),
    ],
)
def test_merging(a: int, b: int, merged: int) -> None:
    assert merge_info(a, b) == merge_info(b, a) == merged


def test_info_is_packed_and_unpacked() -> None:
    info = pack_info(complete=True, distance=65_535)
    assert is_complete(info)
    assert distance_of(info) == 65_535
    assert distance_of(pack_info(complete=False, distance=1 << 20)) == 65_535


def test_a_change_is_reported_once() -> None:
    tables = Tables(PEER_ROLE.regions, DEFAULT_LIMITS)
    one = face(1)
    first = tables.add(Kind.QUERYABLE, one, 1, "q", pack_info(complete=False, distance=2))
    assert first is not None
    assert (first.was_owner, first.is_owner) == (False, True)
    assert tables.add(Kind.QUERYABLE, one, 2, "q", pack_info(complete=False, distance=5)) is None
    better = tables.add(Kind.QUERYABLE, one, 3, "q", pack_info(complete=True, distance=5))
    assert better is not None
    assert (better.was_owner, better.is_owner) == (True, True)
    assert tables.remove(Kind.QUERYABLE, one, 2) is None
    worse = tables.remove(Kind.QUERYABLE, one, 3)
    assert worse is not None
    assert worse.is_owner
    last = tables.remove(Kind.QUERYABLE, one, 1)
    assert last is not None
    assert not last.is_owner
    tables.prune(last.entry)
    assert tables.count() == one.declared_count == 0


@pytest.mark.parametrize("kind", list(Kind))
def test_who_may_know(kind: Kind) -> None:
    """Everything of other regions; in a star also of its other faces; of itself only tokens."""
    tables = Tables(PEER_ROLE.regions, DEFAULT_LIMITS)
    session, other = face(1), face(2)
    peer, other_peer = face(3, NORTH_PEERS), face(4, NORTH_PEERS)
    client = face(5, CLIENTS)
    own = ABSENT if kind is not Kind.TOKEN else PRESENT
    for owner, expected in (
        (session, [own, PRESENT, PRESENT, PRESENT, PRESENT]),
        (peer, [PRESENT, PRESENT, ABSENT, ABSENT, PRESENT]),
        (client, [PRESENT, PRESENT, PRESENT, PRESENT, own]),
    ):
        change = tables.add(kind, owner, 1, "k", PRESENT)
        assert change is not None
        faces = [session, other, peer, other_peer, client]
        assert [tables.view(change.entry, one) for one in faces] == expected
        for one, info in zip(faces, expected, strict=True):
            assert tables.can_see(kind, one, owner) == (info == PRESENT)
            assert not tables.is_visible(change.entry, one, owner)
        gone = tables.remove(kind, owner, 1)
        assert gone is not None
        tables.prune(gone.entry)
