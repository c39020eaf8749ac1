"""Batches of samples from anybody: a batch is stored in its order, or refused as a whole."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.recorder.test_recording import ALONE, asked, payloads, rows, settings

import elea
from elea.errors import InvalidValueError
from elea.limits import DEFAULT_LIMITS
from elea.session.spool_batch import read_batch
from elea.store.recorder.recording import Recording

GOOD: dict[str, Any] = {
    "kind": 0,
    "zid": "ab",
    "eid": 1,
    "sn": 1,
    "time": 5 << 32,
    "clock": "cd",
    "encoding": "zenoh/bytes",
    "payload": 1,
    "attachment": None,
}


def batch(*changes: dict[str, Any], data: bytes | None = None) -> bytes:
    made = [list({**GOOD, **change}.values()) for change in changes]
    return json.dumps(made).encode() + b"\0" + (b"x" * len(made) if data is None else data)


MALFORMED = {
    "nothing": b"",
    "only the end": b"\0",
    "no end": json.dumps([list(GOOD.values())]).encode(),
    "no samples": b"[]\0",
    "an object": b"{}\0",
    "null": b"null\0",
    "a text": b'"[]"\0',
    "no JSON": b"\xff\xfe\0",
    "a number that is none": b"[[NaN]]\0",
    "deep": b"[" * 100_000 + b"\0",
    "a long integer": b"[" + b"1" * 5_000 + b"]\0",
    "long rows": b"[" + b" " * 1_024 * 1_024 + b"]\0",
    "a row that is no array": b"[1]\0",
    "too few fields": b"[[0]]\0",
    "too many samples": batch(*[{}] * (DEFAULT_LIMITS.spool_batch_count + 1)),
    "kind": batch({"kind": 2}),
    "zid": batch({"zid": "0"}),
    "zid as number": batch({"zid": 5}),
    "eid": batch({"eid": 2**32}),
    "eid as truth": batch({"eid": True}),
    "sn below": batch({"sn": -1}),
    "sn as float": batch({"sn": 1.0}),
    "time": batch({"time": 2**64}),
    "clock": batch({"clock": []}),
    "encoding": batch({"encoding": None}),
    "encoding of surrogates": batch({"encoding": "\ud800"}),
    "long encoding": batch({"encoding": "x" * 10_000}),
    "payload too long": batch({"payload": 2}),
    "payload below": batch({"payload": -1}),
    "attachment too long": batch({"attachment": 1}),
    "bytes that are nobody's": batch({}, data=b"xyz"),
    "second row": batch({}, {"sn": None}),
}


@pytest.fixture(name="session")
def _session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


@pytest.mark.parametrize("octets", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_batch_is_an_error_of_ours(octets: bytes) -> None:
    with pytest.raises(InvalidValueError, match="batch of samples"):
        read_batch(octets)


def test_malformed_batches_are_refused_whole_and_take_no_room(
    session: elea.Session, tmp_path: Path
) -> None:
    recording = Recording(session, settings(tmp_path))
    try:
        for octets in MALFORMED.values():
            refusal, is_there = asked(session, "@elea/log/*/puts/k/a", payload=octets)
            assert (refusal["error"], is_there) == ("invalid", False)
        acks = recording._acks
        assert acks is not None
        assert (acks._waiting_count, acks._waiting_len) == (0, 0)
        told, is_there = asked(
            session, "@elea/log/*/puts/k/a", payload=batch({}, {"sn": 2}, {}, data=b"aba")
        )
        assert is_there
        assert told["stored"] == [[0, 0, False], [0, 1, False], [0, 0, True]]
        assert (acks._waiting_count, acks._waiting_len) == (0, 0)
    finally:
        recording.stop()
    assert payloads(tmp_path) == [b"a", b"b"]


def test_mutated_batches_are_a_batch_or_an_error_of_ours() -> None:
    rng = random.Random(1)
    good = batch({}, {"sn": 2, "attachment": 2}, data=b"xyzz")
    for _ in range(5_000):
        octets = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(octets) + 1)
            octets[place : place + rng.randrange(3)] = rng.choice(
                [b"", b"[", b"]", b",", b"9", b"-", b'"', b"\0", b"\xff", b"1e9", b"null"]
            )
        try:
            samples = read_batch(bytes(octets))
        except InvalidValueError:
            continue
        assert samples
        assert all(isinstance(one.payload, bytes) for one in samples)


def test_rows_of_a_batch_have_what_was_sent(session: elea.Session, tmp_path: Path) -> None:
    recording = Recording(session, settings(tmp_path))
    sent = batch({"encoding": "text/plain", "attachment": 2}, {"kind": 1, "payload": 0, "sn": 2})
    sent = sent.partition(b"\0")[0] + b"\0xyz"
    asked(session, "@elea/log/*/puts/k/a", payload=sent)
    recording.stop()
    first, second = rows(tmp_path)
    assert (first["payload"], first["attachment"], first["encoding"]) == (b"x", b"yz", "text/plain")
    assert (second["kind"], second["payload"], second["sn"]) == (1, b"", 2)
