"""Round trips of every message kind: values, octets, both dialects, traced and not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire_kinds import KINDS, Kind, decode, decorated, encode, notes, wrap

from elea.wire.batches import describe_batch, describe_scouting
from elea.wire.dialect import Dialect
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
@given(data=st.data())
def test_round_trip(kind: Kind, dialect: Dialect, data: st.DataObject) -> None:
    part = data.draw(decorated(kind, dialect))
    octets = encode(part, dialect)
    again = decode(octets, part, dialect)
    assert again == part
    assert encode(again, dialect) == octets

    # A traced decoder takes other paths: it must see the same, and every octet exactly once.
    traced, found = notes(octets, part, dialect)
    assert traced == part
    position = 0
    for note in found:
        assert note.start == position, f"gap or overlap before {note}"
        position = note.stop
    assert position == len(octets)

    # Whatever decodes can be described.
    if isinstance(part, (Scout, Hello)):
        assert describe_scouting(part)["msg"] == kind.name
    else:
        [tree] = describe_batch([wrap(part)])
        assert kind.name in (tree["msg"], _body_name(tree))


def _body_name(tree: dict[str, object]) -> object:
    body = tree.get("body")
    return body["msg"] if isinstance(body, dict) else None
