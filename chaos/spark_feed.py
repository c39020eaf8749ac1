"""The client of the campaigns with Spark: puts samples, and writes down which are acknowledged.

Each sample has an identity; one that was not acknowledged is put again until it is. The file has a
line `NUMBER SHARD SEQ` for each that was. `pause` on the standard input is answered by `paused
COUNT` once nothing is unanswered; `go` goes on.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from pathlib import Path
from typing import TextIO

import elea
from elea.errors import EleaError

ZID = "c0ffee"
NOISE = "noise"
KEYS_COUNT = 20
AT_ONCE = 48  # puts that wait for an acknowledgement
NOISE_COUNT = 40  # samples nobody waits for, with each group of those
PACE_S = 0.05  # between groups: Spark is to be killed at work, not while it waits for a core
ANSWER_S = 5.0
AGAIN_S = 0.2


class Feeder:
    """Puts in groups, until its standard input ends."""

    def __init__(self, endpoint: str, file: TextIO) -> None:
        self._endpoint = endpoint
        self._file = file
        self._next_number = 0
        self._acknowledged_count = 0
        self._unanswered: deque[int] = deque()
        self._is_wanted = threading.Event()
        self._is_paused = threading.Event()  # and said so
        self._is_paused.set()
        self._is_over = threading.Event()

    def run(self) -> None:
        threading.Thread(target=self._obey, daemon=True).start()
        while not self._is_over.is_set():
            try:
                with elea.open(client_of(self._endpoint)) as session:
                    self._feed(session)
            except EleaError:  # nobody is there; soon somebody will be
                self._is_over.wait(AGAIN_S)

    def _obey(self) -> None:
        for line in sys.stdin:
            if line.strip() == "go":
                self._is_wanted.set()
            else:
                self._is_wanted.clear()
                self._is_paused.clear()
        self._is_over.set()

    def _feed(self, session: elea.Session) -> None:
        failed_count = 0
        while not self._is_over.is_set() and failed_count < AT_ONCE:
            numbers = self._take()
            if not numbers:
                if not (self._is_wanted.is_set() or self._is_paused.is_set()):
                    self._is_paused.set()
                    print(f"paused {self._acknowledged_count}", flush=True)
                self._is_over.wait(0.01)
                continue
            failed_count = self._put(session, numbers)
            for one in range(NOISE_COUNT):
                session.put(f"k/{one % KEYS_COUNT}/{NOISE}", bytes(100))
            self._is_over.wait(PACE_S)

    def _take(self) -> list[int]:
        """The samples to put now: those that were not answered first."""
        numbers = [self._unanswered.popleft() for _ in range(min(AT_ONCE, len(self._unanswered)))]
        if self._is_wanted.is_set():
            new_count = AT_ONCE - len(numbers)
            numbers += range(self._next_number, self._next_number + new_count)
            self._next_number += new_count
        return numbers

    def _put(self, session: elea.Session, numbers: list[int]) -> int:
        """Put them all at once; how many were not acknowledged."""
        questions = []
        for number in numbers:
            identity = f"zid={ZID};eid=1;sn={number};publish=false"
            selector = f"@elea/log/log/put/k/{number % KEYS_COUNT}?{identity}"
            payload = json.dumps({"n": number}).encode()
            questions.append(session.get(selector, payload=payload, timeout=ANSWER_S))
        failed_count = 0
        for number, replies in zip(numbers, questions, strict=True):
            told = [reply.ok for reply in replies if reply.ok is not None]
            if told:
                place = json.loads(told[0].payload.to_string())
                print(number, place["shard"], place["seq"], file=self._file)
                self._acknowledged_count += 1
            else:
                self._unanswered.append(number)
                failed_count += 1
        self._file.flush()
        return failed_count


def client_of(endpoint: str) -> dict[str, object]:
    """The configuration of a client of a recorder."""
    return {"mode": "client", "connect": {"endpoints": [endpoint], "timeout_ms": 2_000}}


if __name__ == "__main__":
    with Path(sys.argv[2]).open("w") as opened:
        Feeder(sys.argv[1], opened).run()
