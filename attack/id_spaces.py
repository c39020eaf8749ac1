"""Numbers of entities, interests and requests run over: nothing that is open is confused.

The counters of live nodes are set close to the end of their 32 bits, which takes years to reach.
Then everything is declared, asked and taken back until they have begun anew, beside what was
declared before and stays: at a client of the router, and at a peer with neighbours of its own.
"""

from __future__ import annotations

import sys
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target, until
from tests.ports import free_port

import elea
from elea.routing.id_space import ID_MAX, IdSpace

THREAT: Final = "ids that run over"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 12, "full": 400}  # entities of each kind, one after the other
_BEFORE: Final = 5  # the numbers that are left


def attack(target: Target, size: int) -> list[Check]:
    """A client of the router, then a peer that has the other session as its neighbour."""
    port = free_port()
    alone = {"multicast": {"enabled": False}}
    peer = {"mode": "peer", "listen": {"endpoints": [f"tcp/127.0.0.1:{port}"]}, "scouting": alone}
    near = {"endpoints": [f"tcp/127.0.0.1:{port}"]}
    wrong: list[str] = []
    with target.session() as session, target.session() as other:
        wrong += exercise(session, other, size, "client")
    with (
        elea.open(peer) as session,
        elea.open({"mode": "client", "connect": near, "scouting": alone}) as other,
    ):
        wrong += exercise(session, other, size, "peer")
    for one in wrong[:5]:
        print(one, file=sys.stderr)
    return [Check("confused", len(wrong), 0)]


def exercise(session: elea.Session, other: elea.Session, size: int, name: str) -> list[str]:
    """What went wrong with entities of a session whose numbers run over."""
    root = f"id_spaces/{name}"
    kept: list[str] = []
    session.declare_subscriber(f"{root}/kept", lambda one: kept.append(str(one.payload)))
    session.declare_queryable(f"{root}/answer", lambda one: one.reply(one.key_expr, "yes"))
    publisher = other.declare_publisher(f"{root}/kept", congestion_control=_BLOCK)
    wrong = [] if until(lambda: publisher.matching_status.matching) else [f"{name}: not declared"]
    spaces = _spaces(session)
    for space in spaces:
        space._last = ID_MAX - _BEFORE
    for number in range(size):
        wrong += one_of_each(session, other, f"{root}/{number}")
    publisher.put("last")
    if not until(lambda: kept == ["last"]):
        wrong.append(f"{name}: what was declared before got {kept}")
    if not answers(other, f"{root}/answer"):
        wrong.append(f"{name}: what was declared before does not answer")
    if not any(0 < space._last < ID_MAX // 2 for space in spaces):
        wrong.append(f"{name}: no numbers began anew: {[space._last for space in spaces]}")
    return wrong


def one_of_each(session: elea.Session, other: elea.Session, key: str) -> list[str]:
    """Declare, use and take back one entity of each kind."""
    wrong = []
    got: list[object] = []
    subscriber = session.declare_subscriber(f"{key}/s", got.append)
    queryable = session.declare_queryable(f"{key}/q", lambda one: one.reply(one.key_expr, "yes"))
    token = session.liveliness().declare_token(f"{key}/t")
    publisher = session.declare_publisher(f"{key}/p")
    with other.declare_publisher(f"{key}/s", congestion_control=_BLOCK) as sender:
        until(lambda: sender.matching_status.matching)
        sender.put("x")
        if not until(lambda: got):
            wrong.append(f"{key}: a subscriber got nothing")
    if not until(lambda: answers(other, f"{key}/q")):
        wrong.append(f"{key}: a queryable did not answer")
    alive = other.liveliness().get(f"{key}/t", timeout=PATIENCE_S)
    if len([one for one in alive if one.ok is not None]) != 1:
        wrong.append(f"{key}: a token was not seen")
    with other.declare_subscriber(f"{key}/p"):
        if not until(lambda: publisher.matching_status.matching):
            wrong.append(f"{key}: a publisher knows of no subscriber")
    for one in (subscriber, queryable, token, publisher):
        one.undeclare()
    return wrong


def answers(session: elea.Session, key: str) -> bool:
    return any(one.ok is not None for one in session.get(key, timeout=PATIENCE_S))


def _spaces(session: elea.Session) -> list[IdSpace]:
    """Whatever counts in a session and in the faces of its node."""
    context = session._context
    with context.driver.lock:
        faces = list(context.driver.node.routing.tables.faces.values())  # type: ignore[attr-defined]
        spaces = [context.core.face._ids]
        for face in faces:
            spaces += [face.ids, face.request_ids]
    return [one for one in spaces if one._largest == ID_MAX]


_BLOCK: Final = elea.CongestionControl.BLOCK
