"""Rows of a sink that recorders acknowledge: sent one after the other, and many under way.

    sink                                              recorder of a log
       GET @elea/log/*/put/KEY?...;receipts=true;nonce=N  ->
                                                        once for each entity: from now on
       PUT KEY, from (zid, eid, sn)               ->    each sample of it is told
                                                  <-    PUT @elea/log/NAME/stored/ZID

A receipt counts only with its proof, as for every acknowledged put: it is of a recorder that was
asked, and of this very row. Anybody may send others; they are counted and ignored.

A row whose receipt does not come, as when a router died with it, is sent again, together with a
question of its own that the recorder answers when the row is on disk. It has the same source,
number and timestamp, so it is stored once. While no recorder answers, that goes on until nothing
was acknowledged for as long as the option `timeout` says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from elea.answers import QUEUED
from elea.errors import (
    AckTimeoutError,
    EleaError,
    LinkError,
    NotRecordedError,
    NotStoredError,
    StoreError,
)
from elea.provenance import SourceInfo
from elea.query import ConsolidationMode, QueryTarget
from elea.sample import Reply, Sample
from elea.session.ack import Entry, StoredAck, acks_of, entry_digest
from elea.session.handlers import Callback
from elea.session.promise import Promise
from elea.session.receipts import Receipt, proof_of, read_receipts
from elea.session.session import Session

UNDER_WAY_COUNT: Final = 8_192  # rows that are sent and not acknowledged; then sending waits
UNDER_WAY_LEN: Final = 32 << 20  # and their bytes
ASKED_COUNT: Final = 256  # of them that are asked about one by one
_PATIENCE_S: Final = 0.5  # a receipt that has not come by then is asked for
_PAUSE_S: Final = 0.05
_ASK_S: Final = 5.0  # one question; then the next

Place = tuple[int, int]  # entity and number


@dataclass(slots=True)
class _Sent:
    entry: Entry
    due_s: float  # when its receipt should be there
    asked: Promise[StoredAck] | None = None


class Acknowledged:
    """The rows of one partition, on their way to recorders. One thread sends.

    Args:
        zid: As which rows are published.
        timeout_s: How long nothing may be acknowledged.
        clock: Seconds, for tests.
    """

    def __init__(
        self,
        session: Session,
        zid: str,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._zid = session, zid
        self._timeout_s, self._clock = timeout_s, clock
        self._acks = acks_of(session._context)
        # That of the questions about single rows: a recorder that was restarted learns it by them.
        self._nonce = self._acks.receipts.nonce
        self._lock = threading.Condition()
        self._sent: dict[Place, _Sent] = {}  # the one sent first is the first
        self._sent_len = 0
        self._announced: set[int] = set()
        self._progress_s = clock()
        self._last_error: EleaError | None = None
        self.asked_count = 0
        self.forged_count = 0  # receipts without proof
        session.declare_subscriber(
            f"@elea/log/*/stored/{zid}", Callback(self._heard, indirect=False)
        )

    def put(self, entry: Entry, source: SourceInfo) -> None:
        """Send a row; wait while too many are under way.

        Raises:
            StoreError: a recorder refuses it, or nothing was acknowledged for too long.
        """
        eid = int(source.source_id.eid)
        place = (eid, source.source_sn)
        if eid not in self._announced:
            self._announced.add(eid)
            self._announce(entry.key, place)
        with self._lock:
            if not self._sent:
                self._progress_s = self._clock()
            self._sent[place] = _Sent(entry, self._clock() + _PATIENCE_S)
            self._sent_len += len(entry)
        self._publish(entry)
        self._drain(UNDER_WAY_COUNT, UNDER_WAY_LEN)

    def finish(self) -> None:
        """Wait until all rows are acknowledged.

        Raises:
            StoreError: a recorder refuses one, or nothing was acknowledged for too long.
        """
        self._drain(0, 0)

    def _drain(self, count: int, length: int) -> None:
        while True:
            with self._lock:
                if len(self._sent) <= count and self._sent_len <= max(length, 0):
                    return
                self._lock.wait(_PAUSE_S)
            self._look()

    def _look(self) -> None:
        """Take the answers that came, and ask about rows that have waited long enough."""
        now_s = self._clock()
        with self._lock:
            asked = [(place, one) for place, one in self._sent.items() if one.asked is not None]
        for place, one in asked:
            assert one.asked is not None
            if one.asked.done():
                self._answered(place, one)
        with self._lock:
            if self._sent and now_s - self._progress_s > self._timeout_s:
                raise self._late() from self._last_error
            under_way = sum(one.asked is not None for one in self._sent.values())
            due: list[_Sent] = []
            for one in self._sent.values():
                if one.due_s > now_s or under_way + len(due) >= ASKED_COUNT:
                    break
                if one.asked is None:
                    due.append(one)
        for one in due:
            self._ask(one)

    def _answered(self, place: Place, one: _Sent) -> None:
        promise, one.asked = one.asked, None
        assert promise is not None
        try:
            promise.result()
        except (NotRecordedError, AckTimeoutError) as error:
            self._last_error, one.due_s = error, self._clock() + _PATIENCE_S
        except NotStoredError as error:
            if error.reason != "busy":
                raise
            self._last_error, one.due_s = error, self._clock() + _PATIENCE_S
        else:
            self._done(place)

    def _late(self) -> StoreError:
        reason = "no recorder acknowledged a row"
        if self._last_error is not None:
            reason = str(self._last_error)
        return StoreError(
            f"{len(self._sent)} rows are not acknowledged: nothing was for {self._timeout_s:g} s:"
            f" {reason}"
        )

    def _ask(self, one: _Sent) -> None:
        """Send a row again, and ask for it: the router may have died with it."""
        self.asked_count += 1
        one.entry.published = False
        with suppress(LinkError):  # it is tried again
            one.asked, result = self._acks.put(one.entry, int(_ASK_S * 1e9))
            if result == QUEUED:
                self._session._context.wait_room()

    def _publish(self, entry: Entry) -> None:
        context = self._session._context
        if context.call(lambda: self._acks.publish(entry)) == QUEUED:
            context.wait_room()

    def _announce(self, key: str, place: Place) -> None:
        """Ask recorders to tell of all samples of an entity; who does not is asked later."""
        eid, sn = place

        def heard(reply: Reply) -> None:
            pass  # the receipt tells the same, and to whom it is lost asks

        self._session.get(
            f"@elea/log/*/put/{key}?zid={self._zid};eid={eid};sn={sn};wait=1;receipts=true"
            f";nonce={self._nonce.hex()}",
            Callback(heard, indirect=False),
            target=QueryTarget.ALL,
            consolidation=ConsolidationMode.NONE,
            timeout=_ASK_S,
        )

    def _heard(self, sample: Sample) -> None:
        for receipt in read_receipts(sample.payload.to_bytes()):
            place = (receipt.eid, receipt.sn)
            with self._lock:
                one = self._sent.get(place)
            if one is None or receipt.seq is None:  # who asks is told why it was refused
                continue
            if self._is_proven(receipt, one.entry):
                self._done(place)
            else:
                self.forged_count += 1

    def _is_proven(self, receipt: Receipt, entry: Entry) -> bool:
        """Whether a recorder that was asked says it, and of this very row."""
        if entry.body.timestamp is None:  # it is not sent yet, so that nobody can have it
            return False
        where = receipt.log, receipt.shard, receipt.seq
        proof = proof_of(self._nonce, entry_digest(entry), *where)
        return compare_digest(proof, receipt.proof)

    def _done(self, place: Place) -> None:
        with self._lock:
            one = self._sent.pop(place, None)
            if one is None:
                return
            self._sent_len -= len(one.entry)
            self._progress_s = self._clock()
            self._lock.notify()
