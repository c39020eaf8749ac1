"""QosReader: C QoS objects with the same policies share one value."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from elea.dds import cyclone_qos
from elea.dds.cyclone import _Library
from elea.dds.qos import Durability, Qos, Reliability

VALUES = [
    Qos(reliability=reliability, durability=durability, depth=depth, partitions=partitions)
    for reliability in (Reliability.BEST_EFFORT, Reliability.RELIABLE)
    for durability in (Durability.VOLATILE, Durability.TRANSIENT_LOCAL)
    for depth in (1, 7)
    for partitions in ((), ("a",), ("a", "b"))
] + [Qos(user_data=b"one"), Qos(user_data=b"two")]


@pytest.fixture
def objects() -> Iterator[tuple[_Library, list[int]]]:
    library = _Library()
    made = [cyclone_qos.to_c(library.c, value, is_writer=True) for value in VALUES]
    yield library, made
    for pointer in made:
        library.c.dds_delete_qos(pointer)


def test_values_are_those_that_are_read_anew(objects: tuple[_Library, list[int]]) -> None:
    library, pointers = objects
    expected = [cyclone_qos.from_c(library.c, pointer) for pointer in pointers]
    assert len(set(expected)) == len(VALUES)
    order = random.Random(1)
    reader = cyclone_qos.QosReader(library.c)
    for _ in range(300):
        place = order.randrange(len(pointers))
        assert reader.read(pointers[place]) == expected[place]
    reader.close()
    assert reader.read(pointers[0]) == expected[0]
    reader.close()


def test_equal_policies_are_read_once(
    objects: tuple[_Library, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, pointers = objects
    reads: list[int] = []
    read_now = cyclone_qos.from_c

    def counted(c: object, pointer: int) -> Qos:
        reads.append(pointer)
        return read_now(library.c, pointer)

    monkeypatch.setattr(cyclone_qos, "from_c", counted)
    twin = cyclone_qos.to_c(library.c, VALUES[0], is_writer=True)
    reader = cyclone_qos.QosReader(library.c)
    first = reader.read(pointers[0])
    reader.read(pointers[1])
    assert reader.read(twin) is first
    assert len(reads) == 2
    reader.close()
    library.c.dds_delete_qos(twin)
