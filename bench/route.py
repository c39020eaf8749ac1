"""Routing one sample whose route is known: the path every message takes.

    python bench/route.py            compiled and interpreted, as JSON lines
    python bench/route.py --quick    a tenth of the work

Each line is one measurement: `name`, `build`, `destinations`, `ns` per message, and `send_ns`, the
part of it that is the call of an output which does nothing, once per destination. The interpreted
lines come from this program run again with ELEA_PURE=1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from elea.routing.core import Routing
from elea.routing.face import FaceSpec, local_face
from elea.routing.regions import CLIENT
from elea.routing.roles.peer import PEER_ROLE
from elea.version import COMPILED
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push

KEY = "fleet/r17/imu/raw"
ROUNDS = 7


class Sink:
    """An output that takes everything and does nothing."""

    __slots__ = ()

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    quick = parser.parse_args().quick
    for destinations in (1, 10):
        for aliased in (False, True):
            measure(20_000 if quick else 200_000, destinations, aliased=aliased)
    if os.environ.get("ELEA_PURE") != "1" and COMPILED:
        command = [sys.executable, __file__, *(["--quick"] if quick else [])]
        subprocess.run(command, env={**os.environ, "ELEA_PURE": "1"}, check=True)
    return 0


def measure(count: int, destinations: int, *, aliased: bool) -> None:
    """Clients that subscribe, and one session that publishes."""
    sink = Sink()
    routing = Routing(b"bench", PEER_ROLE, sink)
    routing.open_face(0, local_face(b"bench", PEER_ROLE.whatami), 0)
    placement = PEER_ROLE.place(CLIENT)
    assert placement is not None
    for face_id in range(1, destinations + 1):
        spec = FaceSpec(zid=b"c%d" % face_id, whatami=CLIENT, region=placement.region)
        routing.open_face(face_id, spec, 0)
        if aliased:
            alias = Declare(DeclareKeyExpr(1, WireExpr(0, "fleet/r17")))
            routing.receive(face_id, alias, True, 0)
        subscriber = Declare(DeclareSubscriber(1, WireExpr(0, "fleet/**")))
        routing.receive(face_id, subscriber, True, 0)
    push = Push(WireExpr(0, KEY), Put(b"12345678"))
    route = routing.push
    best = min(
        timed(lambda: [route(0, KEY, push, True) for _ in range(count)]) for _ in "r" * ROUNDS
    )
    send = sink.send
    calls = min(timed(lambda: [send(1, push, True) for _ in range(count)]) for _ in "r" * ROUNDS)
    line = {
        "name": "route a sample",
        "build": "compiled" if COMPILED else "interpreted",
        "destinations": destinations,
        "aliased": aliased,
        "ns": round(best / count, 1),
        "send_ns": round(destinations * calls / count, 1),
    }
    print(json.dumps(line), flush=True)


def timed(work: object) -> int:
    assert callable(work)
    started = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - started


if __name__ == "__main__":
    sys.exit(main())
