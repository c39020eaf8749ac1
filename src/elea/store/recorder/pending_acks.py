"""Who waits for samples: questions that wait for one, publishers that are told of all of theirs.

Nobody is trusted: whoever asks for the receipts of another publisher gets them beside it, not in
its place, and whoever asks for many displaces the oldest, who then ask again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from elea.limits import Limits
from elea.store.recorder.flight import Answer, Given, Outcome, Receipt
from elea.store.recorder.marks import Mark, Question
from elea.store.recorder.windows import Identity, SourceId

_NONCES_COUNT: Final = 4  # of one publisher


class PendingAck(NamedTuple):
    """A question that waits for its sample."""

    question: Question
    answer: Answer
    deadline_ns: int


class PendingAcks:
    """The questions of a log that wait. Under the book's lock."""

    def __init__(self) -> None:
        self._asks: dict[Identity, list[PendingAck]] = {}

    def __len__(self) -> int:
        return len(self._asks)

    def add(self, ask: PendingAck) -> None:
        """One more."""
        self._asks.setdefault(ask.question.identity, []).append(ask)

    def oldest(self) -> PendingAck | None:
        """The one that has waited longest, or about."""
        return next(iter(self._asks.values()), [None])[0]

    def take(self, mark: Mark) -> list[PendingAck]:
        """Those who wait for a sample; they do so no more."""
        asks = self._asks.get(mark.identity)
        if asks is None:
            return []
        found = [one for one in asks if one.question.fits(mark)]
        for one in found:
            self.remove(one)
        return found

    def is_waiting(self, ask: PendingAck) -> bool:
        """Whether one still waits."""
        return any(one is ask for one in self._asks.get(ask.question.identity, []))

    def taken_from(self, lookups: deque[PendingAck], count: int) -> Iterator[PendingAck]:
        """So many of a queue, without those that wait no more: nobody would hear of these."""
        for _ in range(min(len(lookups), count)):
            ask = lookups.popleft()
            if self.is_waiting(ask):
                yield ask

    def remove(self, ask: PendingAck) -> bool:
        """One waits no more; whether it did."""
        asks = self._asks.get(ask.question.identity, [])
        if not self.is_waiting(ask):
            return False
        left = [one for one in asks if one is not ask]
        if left:
            self._asks[ask.question.identity] = left
        else:
            del self._asks[ask.question.identity]
        return True

    def expire(self, now_ns: int | None) -> list[PendingAck]:
        """Those whose time is over; None: all of them."""
        over = [
            one
            for asks in self._asks.values()
            for one in asks
            if now_ns is None or one.deadline_ns <= now_ns
        ]
        for one in over:
            self.remove(one)
        return over


class Receivers:
    """The publishers of a log that are told of their samples, or asked about some lately."""

    def __init__(self, limits: Limits) -> None:
        self._count_max = limits.record_receipts_count
        self._receipts: dict[SourceId, dict[bytes, Receipt]] = {}  # by nonce
        self._asked: dict[SourceId, None] = {}

    def register(self, source: SourceId, nonce: bytes, receipt: Receipt) -> bool:
        """Have a publisher told of each of its samples; whether that is new."""
        known = self._receipts.setdefault(source, {})
        is_new = nonce not in known
        known.pop(nonce, None)
        known[nonce] = receipt
        if len(known) > _NONCES_COUNT:
            del known[next(iter(known))]
        if len(self._receipts) > self._count_max:
            del self._receipts[next(iter(self._receipts))]
        return is_new

    def answers(self, mark: Mark, outcome: Outcome) -> list[Given]:
        """What those are told of a sample who are told of all of its publisher."""
        told = self._receipts.get(mark.identity.source, {}).values()
        return [(partial(receipt, mark), outcome) for receipt in told]

    def eids(self) -> set[int]:
        """The numbers of the entities that are told."""
        return {eid for _, eid in self._receipts}

    def note_asked(self, source: SourceId) -> None:
        """A sample of this publisher was asked about: others may be soon."""
        self._asked.pop(source, None)
        self._asked[source] = None
        if len(self._asked) > self._count_max:
            del self._asked[next(iter(self._asked))]

    def are_interested(self, source: SourceId) -> bool:
        """Whether places of samples of a publisher are to be known."""
        return source in self._receipts or source in self._asked
