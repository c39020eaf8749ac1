"""PutBatch: samples that came with one question, and the answer when all of them are judged."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import partial

from elea.session.spool_batch import BatchSample
from elea.store.log.schema import RowKind
from elea.store.recorder.flight import Outcome, Place, Put
from elea.store.recorder.rows import Row
from elea.store.recorder.windows import Identity


class PutBatch:
    """The outcomes of a batch.

    Args:
        done: Called once, with the outcomes as JSON, in the order of the samples.
    """

    def __init__(
        self, key: str, samples: Sequence[BatchSample], done: Callable[[str], None]
    ) -> None:
        self._key = key
        self._samples = samples
        self._done = done
        self._outcomes: list[object] = [None] * len(samples)
        self._left_count = len(samples)
        self._lock = threading.Lock()

    def puts(self, received_us: int) -> list[Put]:
        """The samples, to be stored in this order."""
        found = []
        for index, sample in enumerate(self._samples):
            row = Row(
                self._key,
                RowKind.DELETE if sample.is_delete else RowKind.PUT,
                sample.payload,
                received_us,
                sample.attachment,
                sample.encoding,
                sample.timestamp,
                Identity(sample.zid, sample.eid, sample.sn),
            )
            found.append(Put(row, partial(self._answer, index)))
        return found

    def _answer(self, index: int, outcome: Outcome) -> None:
        """By whoever wrote the row, in any thread."""
        told: list[object] = (
            [outcome.shard, outcome.seq, outcome.duplicate]
            if isinstance(outcome, Place)
            else [outcome.error, outcome.detail]
        )
        with self._lock:
            self._outcomes[index] = told
            self._left_count -= 1
            is_last = self._left_count == 0
        if is_last:
            self._done(json.dumps(self._outcomes))
