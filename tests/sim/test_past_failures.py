"""Bugs that seeds have found: put back, they are found again; and the seeds pass without them."""

from __future__ import annotations

import pytest

from elea.node import neighbour as neighbour_module
from elea.node.backlog import Backlog
from elea.node.neighbour import Neighbour
from elea.node.neighbours import Neighbours
from elea.node.node import Node
from elea.routing.interests import interests
from elea.sim.campaign.plan import Options
from elea.sim.campaign.run import run
from elea.wire.codec import NetworkMessage
from elea.wire.transport.close import CloseReason

SEEDS_MAX = 300


def found_again(first: int, faults: str | None, law: str, node_type: type[Node] = Node) -> bool:
    """Whether a seed finds the bug: the one that did last, or another since worlds changed."""
    for seed in (first, *range(SEEDS_MAX)):
        result = run(seed, Options(faults=faults), node_type=node_type)
        if any(one.startswith(f"{law}:") for one in result.violations):
            return True
    return False


def test_declarations_on_a_lost_link_of_two_were_never_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give_up = Neighbours.give_up

    def keeps_the_others(
        neighbours: Neighbours,
        neighbour: Neighbour,
        reason: str,
        now_ns: int,
        why: CloseReason = CloseReason.GENERIC,
    ) -> None:
        if why is not CloseReason.GENERIC:
            give_up(neighbours, neighbour, reason, now_ns, why)

    monkeypatch.setattr(Neighbours, "give_up", keeps_the_others)
    assert found_again(17, "rough", "neighbours_agree")


def test_a_droppable_sample_overtook_one_that_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneLine(Backlog):
        __slots__ = ()

        def _lane(self, message: NetworkMessage) -> int:
            return 0

        def send(self, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
            if message.qos & 0x28:
                return super().send(message, reliable, now_ns)
            return self._transport.send(message, reliable, now_ns)

    with monkeypatch.context() as patch:
        patch.setattr(neighbour_module, "Backlog", OneLine)
        assert found_again(209, "calm", "order_is_kept")


def test_a_client_told_of_the_end_of_a_token_that_another_node_had_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It asked for the tokens of the future alone, as its session did.
    monkeypatch.setattr(interests, "OPTION_TOKENS", 0)
    assert found_again(81, "none", "no_false_ends")


SEEDS = [
    (9, "calm"),
    (209, "calm"),
    (17, "rough"),
    (49, "rough"),
    (50861, "rough"),
    (81, "none"),
    (11991, None),
]


@pytest.mark.parametrize(("seed", "faults"), SEEDS)
def test_their_seeds_pass(seed: int, faults: str | None) -> None:
    assert run(seed, Options(faults=faults)).violations == []
