"""Which writers keep which instances alive, and how instances are told apart."""

from __future__ import annotations

import pytest

from elea.dds.port import Tier, TopicType
from elea.dds.schema import Schema
from elea.dds.sources import SourceInstances, identity_of
from elea.decode.layout import Structure, parse_layout
from elea.decode.layout_writer import write_cdr

line = pytest.mark.line
FIRST, SECOND = b"1" * 16, b"2" * 16


@line("D-509")
def test_an_instance_lives_with_its_last_writer() -> None:
    kept = SourceInstances(10)
    for source, name in ((FIRST, b"a"), (FIRST, b"b"), (SECOND, b"b"), (b"", b"c"), (FIRST, b"c")):
        assert kept.wrote(source, name, lambda name=name: b"key " + name) is None  # type: ignore[misc]
    assert kept.gone(FIRST) == [b"key a"]
    assert kept.gone(FIRST) == []
    assert kept.gone(SECOND) == [b"key b"]
    # A sample of a writer that is gone may come late: nothing is left of it.
    assert kept.wrote(FIRST, b"d", lambda: b"key d") == b"key d"
    assert kept.wrote(FIRST, b"c", lambda: b"key c") is None  # another one keeps it
    kept.came_back(FIRST)
    assert kept.wrote(FIRST, b"d", lambda: b"key d") is None
    assert kept.gone(FIRST) == [b"key d"]


def test_instances_and_writers_without_end_are_forgotten() -> None:
    kept = SourceInstances(10)
    for number in range(2_000):
        name = number.to_bytes(16, "little")
        assert kept.wrote(name, name, lambda: b"key") is None
    assert len(kept._instances) == len(kept._by_source) == 10
    for number in range(2_000):
        kept.gone(number.to_bytes(16, "little"))
    assert len(kept._gone) == 1_024
    assert not kept._instances
    assert kept.wrote(FIRST, b"x", lambda: None) is None  # no key can be read: not remembered
    assert not kept._instances


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("text", "keys", "is_sliced"),
    [
        ("{id: i32, value: f64}", [("id",)], True),
        ("appendable {id: u8, name: string, far: i64, value: f64}", [("name",), ("id",)], True),
        ("{id: u8, far: i64, value: string}", [("id",), ("far",)], True),
        ("{mode: enum {on, off}, value: string}", [("mode",)], True),
        ("{value: string, id: i32}", [("id",)], False),
        ("{place: {floor: i32, room: string}, value: i32}", [("place", "floor")], False),
        ("mutable {id@0: i32, value@7: string}", [("id",)], False),
    ],
)
def test_samples_of_one_instance_have_one_identity(
    text: str, keys: list[tuple[str, ...]], is_sliced: bool, version: int
) -> None:
    layout = parse_layout(text)
    assert isinstance(layout, Structure)
    type_ = TopicType("t", Tier.EXACT, has_key=True)
    schema = Schema("t", type_, layout, tuple(keys), layout, "")
    identify = identity_of(schema)
    assert (identify.__name__ == "leading") is is_sliced
    first, again, other = (
        identify(write_cdr(layout, _value(layout, key, more), version))
        for key, more in ((1, 10), (1, 20), (2, 10))
    )
    assert first == again
    assert first != other


def _value(layout: Structure, key: int, more: int) -> dict[str, object]:
    """A value whose members called `value` differ, and whose others are those of an instance."""
    found: dict[str, object] = {}
    for name, member in layout.members:
        number = more if name == "value" else key
        if isinstance(member, Structure):
            found[name] = _value(member, key, more)
        elif getattr(member, "name", "") == "string":
            found[name] = "x" * number
        elif name == "mode":
            found[name] = "on" if key == 1 else "off"
        else:
            found[name] = number
    return found
