"""The generated codec and the interpreter of the schema agree, on messages and on rubbish."""

from __future__ import annotations

import os
import random

import pytest
from tests.xrce_codecs import EXAMPLES, INTERPRETER, generated_outcome, interpreted_outcome, octets
from tests.xrce_random import MessageMaker, mutate

from elea.xrce.schema.load import schema

# `bench/xrce.py --agree` and the nightly profile do all 100 000 of each.
COUNT = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 3_000


@pytest.mark.line("X-007", "X-010")
def test_codecs_agree_on_random_messages() -> None:
    maker = MessageMaker(schema(), seed=1)
    for _ in range(COUNT):
        data = INTERPRETER.encode(maker.message())
        kind, _, written = outcome = generated_outcome(data)
        assert outcome == interpreted_outcome(data), data.hex(" ")
        assert (kind, written) == ("message", data)


@pytest.mark.line("X-007")
def test_codecs_agree_on_mutated_messages() -> None:
    maker = MessageMaker(schema(), seed=2)
    rng = random.Random(3)
    seeds = [octets(example) for example in EXAMPLES]
    outcomes = set()
    for number in range(COUNT):
        data = seeds[number % len(seeds)] if number % 2 else INTERPRETER.encode(maker.message())
        mutated = mutate(data, rng)
        outcome = generated_outcome(mutated)
        assert outcome == interpreted_outcome(mutated), mutated.hex(" ")
        outcomes.add(outcome[0])
    assert outcomes == {"message", "ShortError", "DecodeError"}


@pytest.mark.line("X-007")
def test_what_was_written_is_canonical() -> None:
    """Decoding what was encoded and encoding it again changes nothing more."""
    maker = MessageMaker(schema(), seed=4)
    rng = random.Random(5)
    for _ in range(COUNT // 3):
        mutated = mutate(INTERPRETER.encode(maker.message()), rng)
        kind, _, written = generated_outcome(mutated)
        if kind == "message":
            assert isinstance(written, bytes)
            assert generated_outcome(written)[2] == written
