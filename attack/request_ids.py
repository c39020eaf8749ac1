"""A neighbour agrees on request ids of eight bits and answers when it likes: ids never run over.

Everything is asked through it one after the other, and then more at once than there are ids: those
beyond are refused with a reason, and nobody else's queries are. At last it answers queries that
timed out while others are open: none of these is ended by that.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Raw, Target, until

import elea
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declare import Declare
from elea.wire.network.request import Request
from elea.wire.network.response_final import ResponseFinal

THREAT: Final = "ids that run over"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 600, "full": 20_000}  # queries, one after the other
_FEW_IDS: Final = 0x02  # sequence numbers as usual, request ids of eight bits
_IDS_COUNT: Final = 256
_KEY: Final = "request_ids/q"
_LATE: Final = 100  # queries that time out


class Answerer:
    """Reads requests, and ends them unless it is told to keep them."""

    def __init__(self, port: int) -> None:
        self.raw = Raw.connect(port, resolution=_FEW_IDS)
        self.raw.send([Declare(DeclareQueryable(1, WireExpr(0, _KEY)), qos=QOS_DECLARE)])
        self.ids: list[int] = []
        self.keeps = False
        self.left = 0  # of the next requests, how many it does not end before `end_late`
        self.late: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        kept: list[int] = []
        while not self._stop.is_set() and not self.raw.closed:
            asked = [one.id for one in self.raw.messages() if isinstance(one, Request)]
            self.ids += asked
            self.late += asked[: self.left]
            kept += asked[self.left :]
            self.left = max(0, self.left - len(asked))
            if kept and not self.keeps:
                self.raw.send([ResponseFinal(number) for number in kept], read=False)
                kept.clear()
            time.sleep(0.001)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self.raw.close()


def attack(target: Target, size: int) -> list[Check]:
    answerer = Answerer(target.port)
    errors: list[str] = []
    with target.session() as session:
        with session.declare_querier(_KEY) as querier:
            until(lambda: querier.matching_status.matching)
        for _ in range(size):
            errors += _errors(session.get(_KEY, timeout=PATIENCE_S))
        largest, asked = max(answerer.ids, default=-1), len(answerer.ids)
        answerer.keeps = True
        replies = [session.get(_KEY, timeout=PATIENCE_S) for _ in range(_IDS_COUNT + 44)]
        refused = [one for one in replies[_IDS_COUNT:] if _errors(one)]
        until(lambda: len(answerer.ids) >= asked + _IDS_COUNT)
        in_flight = answerer.ids[asked:]
        answerer.keeps = False
        for one in replies[:_IDS_COUNT]:
            errors += _errors(one)
        cut_short = _late(session, answerer)
        closed = answerer.raw.closed
    answerer.end()
    print({"largest": largest, "asked": asked, "errors": errors[:3]}, file=sys.stderr)
    return [
        Check("largest_id", largest, _IDS_COUNT - 1),
        Check("not_asked", size - asked, 0),
        Check("errors", len(errors), 0),
        Check("ids_twice_in_flight", len(in_flight) - len(set(in_flight)), 0),
        Check("not_refused", 44 - len(refused), 0),
        Check("ended_by_late_answers", cut_short, 0),
        Check("closed", float(closed), 0),
    ]


def _late(session: elea.Session, answerer: Answerer) -> int:
    """How many queries end although the neighbour has ended only others, which timed out."""
    answerer.left = _LATE
    for one in [session.get(_KEY, timeout=0.2) for _ in range(_LATE)]:
        list(one)
    for _ in range(_IDS_COUNT - _LATE):  # until the numbers begin anew
        list(session.get(_KEY, timeout=PATIENCE_S))
    count = len(answerer.ids)
    answerer.keeps = True
    ended: list[object] = []
    for _ in range(_LATE):
        session.get(_KEY, elea.handlers.Callback(ended.append, lambda: ended.append(None)))
    until(lambda: len(answerer.ids) >= count + _LATE)
    answerer.raw.send([ResponseFinal(number) for number in answerer.late], read=False)
    with session.declare_querier(_KEY) as querier:  # what is sent after them has arrived
        until(lambda: querier.matching_status.matching)
    list(session.get("@/*/router", timeout=PATIENCE_S))
    cut_short = len(ended)
    answerer.keeps = False
    until(lambda: len(ended) >= _LATE)
    return cut_short


def _errors(replies: elea.Handler[elea.Reply]) -> list[str]:
    return [one.err.payload.to_string() for one in replies if one.err is not None]
