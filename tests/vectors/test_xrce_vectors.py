"""Every hex example of the XRCE specification, both ways, through both codecs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.meta.tree import ROOT
from tests.xrce_codecs import EXAMPLES, INTERPRETER, decode_all, octets, plain, stated

from elea.errors import ShortError
from elea.xrce.buffer import Reader, Record
from elea.xrce.decode import read_message
from elea.xrce.encode import encode

SPECIFICATION = (ROOT / "docs" / "spec" / "xrce.md").read_text(encoding="utf-8")
MESSAGES = SPECIFICATION[
    SPECIFICATION.index("## 7. Messages") : SPECIFICATION.index("## 8. Sessions")
]
IDS = [f"{example['section']}-{example['hex'][:24]}" for example in EXAMPLES]


def interpreted(data: bytes) -> list[Any]:
    found, at = [], 0
    while at < len(data):
        value, at = INTERPRETER.decode(data, at)
        found.append(value)
    return found


def test_no_example_of_the_specification_is_left_out() -> None:
    said = re.findall(r"^\* ((?:`(?:[0-9a-f]{2} ?)+`(?:, | conduit \d, )?)+)", MESSAGES, re.M)
    found = {one for line in said for one in re.findall(r"`([0-9a-f ]+)`", line)}
    assert len(found) > 35
    assert found <= {example["hex"] for example in EXAMPLES}


@pytest.mark.line("X-006")
@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_an_example_decodes_to_what_is_stated_and_encodes_to_the_same_octets(example: Any) -> None:
    data = octets(example)
    values = interpreted(data)
    assert [stated(value) for value in values] == example["messages"]
    assert b"".join(map(INTERPRETER.encode, values)) == data

    messages = decode_all(data)
    trees = [message.tree() for message in messages if isinstance(message, Record)]
    assert trees == [plain(value) for value in values]
    kinds = [type(message).__name__ for message in messages]
    assert kinds == [stated["kind"] for stated in example["messages"]]
    assert b"".join(map(encode, messages)) == data


@pytest.mark.line("X-008")
@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_an_example_cut_at_any_octet_is_short(example: Any) -> None:
    data = octets(example)
    reader = Reader(data)
    while not reader.at_end():
        start = reader.pos
        read_message(reader)
        for end in range(start, reader.pos):
            with pytest.raises(ShortError):
                read_message(Reader(data[start:end]))
            with pytest.raises(ShortError):
                INTERPRETER.decode(data[start:end])
