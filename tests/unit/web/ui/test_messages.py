"""Messages and frames of the live protocol: legal ones are read, others refused."""

from __future__ import annotations

import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.limits import DEFAULT_LIMITS
from elea.web.ui.frames import encode
from elea.web.ui.messages import Drop, Hello, Kind, MessageError, Next, Want, parse


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hello": 1, "ticket": "t"}', Hello("t")),
        ('{"drop": 7}', Drop(7)),
        ('{"next": 1, "seen": 41}', Next()),
        ('{"want": {"id": 7, "kind": "status"}}', Want(7, Kind.STATUS)),
        (
            '{"want": {"id": 1, "kind": "tree", "keys": ["a"], "words": "w", "offset": 2,'
            ' "limit": 3}}',
            Want(1, Kind.TREE, ("a",), "w", 2, 3),
        ),
    ],
)
def test_legal_messages(text: str, message: object) -> None:
    assert parse(text, DEFAULT_LIMITS) == message


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", "{}", "[" * 5_000, '{"hello": 2}', '{"hello": 1, "ticket": 3}'),
        *('{"drop": -1}', '{"drop": true}', '{"next": 2}', '{"want": []}', '{"want": {"id": 1}}'),
        *('{"want": {"id": 1, "kind": "sql"}}', '{"want": {"id": "1", "kind": "rows"}}'),
        *('{"want": {"id": 1, "kind": "rows", "keys": "a"}}',),
        *('{"want": {"id": 1, "kind": "rows", "keys": [1]}}',),
        json.dumps({"want": {"id": 1, "kind": "rows", "keys": ["a"] * 201}}),
        json.dumps({"want": {"id": 1, "kind": "value", "keys": ["a", "b"]}}),
        json.dumps({"want": {"id": 1, "kind": "tree", "limit": 501}}),
        json.dumps({"hello": 1, "ticket": "x" * 20_000}),
    ],
)
def test_other_messages_are_refused(text: str) -> None:
    with pytest.raises(MessageError):
        parse(text, DEFAULT_LIMITS)


@given(st.text())
def test_any_text_is_a_message_or_refused(text: str) -> None:
    with contextlib.suppress(MessageError):
        parse(text, DEFAULT_LIMITS)


@given(st.text(max_size=200))
def test_a_frame_has_its_length_first_and_ends_at_a_multiple_of_eight(text: str) -> None:
    frame = encode(3, 1.5, [{"w": 1, "text": text}])
    [length] = struct.unpack_from("<I", frame)
    assert len(frame) == 4 + length
    assert len(frame) % 8 == 0
    assert json.loads(frame[4:]) == {"s": 3, "t": 1.5, "p": [{"w": 1, "text": text}]}
