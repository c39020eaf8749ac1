"""Remote writers that are gone: what only they wrote has no writer left (D-509)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dds.peers import bridge, next_domain, peer, session_pair, until

from elea.dds.port import ALIVE, NO_WRITERS

line = pytest.mark.line


@line("D-509", "D-604")
@pytest.mark.parametrize("type_", ["Keyed", "NamedKeyed", "NestedKeyed", "MutableKeyed"])
def test_instances_of_a_writer_that_is_gone_are_unregistered(type_: str) -> None:
    domain, other_domain = next_domain(), next_domain()
    member = KEY_MEMBERS[type_]
    with (
        session_pair() as (near, far),
        bridge(near, domain, deletes=False),  # only the tokens tell that a writer is gone
        bridge(far, other_domain) as made,
        peer(domain) as talker,
        peer(other_domain) as listener,
    ):
        listener.reader("r", "Gone", type_)
        for name in ("first", "second"):
            talker.writer(name, "Gone", type_, dispose=False)
        until(lambda: listener.matched("r") and talker.matched("first"))
        until(lambda: talker.matched("second"))
        [route] = until(lambda: list(made.routes.values()))
        until(lambda: len(route.sources) == 2, "tokens of both writers")
        own, shared, others = (sample_of(type_, one) for one in (1, 2, 3))
        talker.write("first", [own, shared])
        talker.write("second", [shared, others])
        heard = listener.taken("r", 4)
        assert all(one["valid"] for one in heard)
        talker.delete("first")
        [ended] = listener.taken("r", 1)
        assert (ended["valid"], ended["state"]) == (False, NO_WRITERS)
        # The others are alive: the writer that is left goes on with them.
        talker.write("second", [shared, others])
        again = listener.taken("r", 2)
        assert [(one["valid"], one["state"]) for one in again] == [(True, ALIVE)] * 2
        assert [one["value"][member] for one in again] == [shared[member], others[member]]
        talker.delete("second")
        ends = listener.taken("r", 2)
        assert [(one["valid"], one["state"]) for one in ends] == [(False, NO_WRITERS)] * 2
        assert listener.take("r") == []


KEY_MEMBERS = {"Keyed": "id", "NamedKeyed": "name", "NestedKeyed": "place", "MutableKeyed": "id"}


def sample_of(type_: str, number: int) -> dict[str, Any]:
    """A sample of the instance of a number."""
    key: Any = number
    if type_ == "NamedKeyed":
        key = f"robot{number}"
    elif type_ == "NestedKeyed":
        key = {"floor": number, "room": "x"}
    return {KEY_MEMBERS[type_]: key, "value": number}
