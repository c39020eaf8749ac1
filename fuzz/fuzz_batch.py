"""Fuzz the batch decoder: any octets give messages or a DecodeError.

The first octet chooses whether network messages may stand outside a FRAME and which dialect is
spoken. The first messages that decode are written, decoded and written again: the octets must not
change any more, and the message must still be described as before. Not all of them: thousands of
KEEP_ALIVEs teach nothing new.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from elea.errors import DecodeError
from elea.limits import DEFAULT_LIMITS
from elea.wire.batches import describe_batch
from elea.wire.codec import BatchDecoder, Message, encode_one
from elea.wire.dialect import Dialect

_HEX = (Path(__file__).parent / "seeds" / "batch.hex").read_text(encoding="ascii").split()
REWRITTEN_MAX = 16
SEEDS = [bytes((index % 4,)) + bytes.fromhex(line) for index, line in enumerate(_HEX)]


def one_input(data: bytes) -> None:
    mode = data[0] if data else 0
    dialect = Dialect.SPECIFICATION if mode & 2 else Dialect.ECLIPSE
    decoder = BatchDecoder(data[1:], DEFAULT_LIMITS, dialect, None, bool(mode & 1))
    # One message at a time, as a node decodes: a batch is never held as a list.
    for number in itertools.count():
        try:
            message = decoder.next()
        except DecodeError:
            return
        if message is None:
            return
        if number < REWRITTEN_MAX:
            check_stable(message, dialect)


def check_stable(message: Message, dialect: Dialect) -> None:
    written = encode_one(message, dialect)
    again = BatchDecoder(written, DEFAULT_LIMITS, dialect, None, True).next()
    assert again is not None
    assert encode_one(again, dialect) == written
    # Repeated extensions and the like are gone from `again`; what it says must be the same.
    assert again == message or describe_batch([again]) == describe_batch([message])
