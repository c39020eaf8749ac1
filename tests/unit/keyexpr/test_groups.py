"""KeyGroups: several values under each key."""

from __future__ import annotations

import random

from elea.keyexpr.groups import KeyGroups
from elea.keyexpr.match import intersects

KEYS = ["a", "a/b", "a/c", "a/*", "a/**", "**", "*/b", "@a/b", "b$*/c"]


def test_values_of_all_intersecting_keys_are_found_and_of_no_other() -> None:
    order = random.Random(1)
    groups: KeyGroups[int] = KeyGroups()
    there: list[tuple[str, int]] = []
    for number in range(400):
        if there and order.random() < 0.5:
            key, value = there.pop(order.randrange(len(there)))
            assert groups.remove(key, value)
        else:
            there.append((order.choice(KEYS), number))
            groups.add(*there[-1])
        asked = order.choice(KEYS)
        expected = sorted(value for key, value in there if intersects(key, asked))
        assert sorted(groups.intersecting(asked)) == expected
        assert groups.meets(asked) == bool(expected)


def test_what_is_not_there_is_not_removed() -> None:
    groups: KeyGroups[int] = KeyGroups()
    groups.add("a/*", 1)
    assert not groups.remove("a/b", 1)
    assert not groups.remove("a/*", 2)
    assert groups.intersecting("a/b") == [1]
