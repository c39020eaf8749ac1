"""A program that puts values until it is killed, and says which of them must survive that."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.store.volumes import opened

from elea.store.backend import Stored
from elea.store.storage import Storage
from elea.store.testing import at

KEYS_COUNT = 20
BATCH_COUNT = 7


def payload_of(number: int) -> bytes:
    return b"%d " % number * (1 + number % 100)


def main(kind: str, root: str) -> None:
    storage = Storage(opened(kind, Path(root)))
    newest = storage.newest("**")
    number = 0 if newest is None else newest.time.as_secs() - at(0).time.as_secs() + 1
    while True:
        for _ in range(BATCH_COUNT):
            key = f"k/{number % KEYS_COUNT}"
            if number % 11 == 10:
                storage.delete(key, at(number))
            else:
                storage.put(key, Stored(payload_of(number), at(number)))
            number += 1
        storage.flush()
        sys.stdout.write(f"{number}\n")  # all below this are safe
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
