"""The captured conversations and worked examples beside this file, as typed records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
WORKED_EXAMPLES = "worked_examples.jsonl"
_OTHERS = {"keyexpr.jsonl", WORKED_EXAMPLES}


@dataclass(frozen=True)
class Record:
    """One captured batch; README.md says what the fields mean."""

    scenario: str
    conn: str
    dir: str
    seq: int
    framing: str
    octets: bytes
    decoded: dict[str, object]


@dataclass(frozen=True)
class WorkedExample:
    """One dump of the wire reference, section 11: octets, and what each of them is.

    `fields` lists offset and text of every line of the dump; a compressed batch has none.
    """

    name: str
    framing: str
    octets: bytes
    fields: tuple[tuple[int, str], ...]
    compressed: bool


def captures() -> list[str]:
    """The file names of all captured conversations."""
    found = [*FOLDER.glob("*.jsonl"), *FOLDER.glob("*.jsonl.gz")]
    return sorted(path.name for path in found if path.name not in _OTHERS)


def load(name: str) -> list[Record]:
    """All records of one capture, in the order they were sent."""
    return [
        Record(
            line["scenario"],
            line["conn"],
            line["dir"],
            line["seq"],
            line["framing"],
            bytes.fromhex(line["hex"]),
            line["decoded"],
        )
        for line in _lines(FOLDER / name)
    ]


def worked_examples() -> list[WorkedExample]:
    """All dumps of section 11."""
    examples = []
    for line in _lines(FOLDER / WORKED_EXAMPLES):
        octets = bytes.fromhex(line["hex"])
        if "fill" in line:  # the dump says: so many octets in all, the rest is this one
            octets = octets.ljust(line["fill"]["len"], bytes.fromhex(line["fill"]["octet"]))
        examples.append(
            WorkedExample(
                f"{line['name']} ({line['n']})",
                line["framing"],
                octets,
                tuple((at, text) for at, text in line.get("fields", ())),
                line.get("compressed", False),
            )
        )
    return examples


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    for line in text.splitlines():
        yield json.loads(line)
