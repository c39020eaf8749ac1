"""T10: first messages of datagram handshakes from addresses that never answer."""

from __future__ import annotations

import os
import socket
from typing import Final

from attack.harness import MIB, Check, Target, until

import elea
from elea.transport.handshake import Opener
from elea.transport.negotiation import Offer

THREAT: Final = "T10"
SCHEME: Final = "udp"
RSS_GROWTH: Final = 8 * MIB
SIZES: Final = {"small": 2_000, "full": 200_000}  # datagrams, of 250 addresses
_CLIENT: Final = 2
_OUT_OF_NOWHERE: Final = 250


def attack(target: Target, size: int) -> list[Check]:
    sockets = []
    for number in range(_OUT_OF_NOWHERE):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((f"127.0.9.{1 + number}", 0))
        sockets.append(sock)
    for number in range(size):
        [syn] = Opener(Offer(zid=os.urandom(8), whatami=_CLIENT), 0).outgoing()
        sockets[number % len(sockets)].sendto(syn, ("127.0.0.1", target.port))
    answered = sum(_answered(sock) for sock in sockets)
    pushed_out = target.counter("elea_links_refused", reason="handshake")
    served = _served(target)
    for sock in sockets:
        sock.close()
    return [
        Check("unanswered", float(answered == 0), 0),
        Check("handshakes_pushed_out", pushed_out, 0),  # which they would be if these were kept
        Check("not_served", float(not served), 0),
    ]


def _answered(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return bool(sock.recv(65_535))
    except BlockingIOError:
        return False


def _served(target: Target) -> bool:
    with target.session() as session:
        subscriber = session.declare_subscriber("forged/inits")

        def arrived() -> object:
            session.put("forged/inits", "x", allowed_destination=elea.Locality.ANY)
            return subscriber.try_recv()

        return until(arrived)
