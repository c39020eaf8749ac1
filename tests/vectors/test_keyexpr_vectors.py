"""Every recorded answer of Eclipse Zenoh 1.10.2, through the command that programs use."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import pytest

from elea.cli import keyexpr

VECTORS = Path(__file__).with_name("keyexpr.jsonl")
QUESTION = {"kind", "a", "b", "s"}


def test_every_recorded_answer(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    recorded = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    assert Counter(record["kind"] for record in recorded) == {
        "pair": 3600,
        "string": 900,
        "join": 297,
        "concat": 300,
    }
    asked = tmp_path / "asked.jsonl"
    with asked.open("w", encoding="utf-8") as file:
        for record in recorded:
            question = {name: record[name] for name in record if name in QUESTION}
            file.write(json.dumps(question, ensure_ascii=False) + "\n")

    parser = argparse.ArgumentParser()
    keyexpr.configure(parser)
    assert keyexpr.run(parser.parse_args(["--json", str(asked)])) == 0

    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [json.loads(line) for line in lines] == recorded
    # The same bytes as well: the order of the keys and unescaped text are part of the format.
    assert lines == VECTORS.read_text(encoding="utf-8").splitlines()
