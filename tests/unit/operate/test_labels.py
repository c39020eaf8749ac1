"""Names of nodes: the best that is known, told apart, and found with bounded questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import ask, client_of, options, root_of, running

from elea.operate import labels as module
from elea.operate.admin_space import AdminSpace, Neighbour, Node, Sources
from elea.operate.labels import Labels


class Declared(AdminSpace):
    """An admin space that tells declarations, and counts who reads how many."""

    def __init__(self, declared: list[Sources]) -> None:
        self._declared = declared
        self.told = 0

    def sources(self, key_expr: str) -> Iterator[Sources]:
        assert key_expr == "**"
        for source in self._declared:
            self.told += 1
            yield source


def publishers(zid: str, *keys: str) -> list[Sources]:
    return [Sources("a1", "publisher", key, [zid]) for key in keys]


def session(zid: str, **stats: object) -> Neighbour:
    return Neighbour(zid, "client", [], stats=stats)


def gate(*sessions: Neighbour) -> Node:
    return Node("a1a1a1", "router", "gate", "", [], list(sessions))


def test_the_best_name_that_is_known() -> None:
    space = Declared(publishers("bbbbbb", "k/b/x", "k/b/y") + publishers("cccccc", "k/c"))
    labels = Labels(space)
    labels.learn([gate(session("bbbbbb"), session("cccccc", user="robot-7"), session("dddddd"))])
    assert labels.label("a1a1a1") == "'gate'"
    assert labels.label("bbbbbb") == "on k/b"
    assert labels.label("cccccc") == "robot-7"
    assert labels.label("dddddd") == "client dddd"
    assert labels.label("eeeeee") == "node eeee"


def test_equal_names_and_equal_digits_are_told_apart() -> None:
    labels = Labels(Declared([]))
    sessions = [session("bbbb1", user="r"), session("bbbb2", user="r"), session("cccc3")]
    labels.learn([gate(*sessions)])
    assert labels.label("bbbb1") == "r bbbb1"
    assert labels.label("bbbb2") == "r bbbb2"


@pytest.mark.parametrize("chosen", ["robot-7", "x', robot-7", "robot-7 bbbb"])
def test_a_chosen_name_or_key_is_never_that_of_an_identity(chosen: str) -> None:
    named = Node("bbbbbb", "client", chosen, "", [])
    labels = Labels(Declared(publishers("cccccc", chosen)))
    labels.learn([gate(session("dddddd", user="robot-7"), session("cccccc")), named])
    assert labels.label("dddddd") == "robot-7"
    assert labels.label("bbbbbb") == "'" + chosen.replace("'", '"') + "'"
    shown = labels.label("cccccc").removeprefix("on ")
    assert shown != labels.label("cccccc")
    assert "," not in shown or (shown[0] == shown[-1] == "'" and "'" not in shown[1:-1])


def test_departed_nodes_are_forgotten() -> None:
    labels = Labels(Declared([]))
    for index in range(1_000):
        labels.learn([gate(session(f"{index:06d}", user="r"))])
    assert len(labels) == 2
    assert labels.label("000999") == "r"
    labels.learn([gate()])
    assert labels.label("000999") == "node 0009"


def test_names_of_many_nodes_are_not_compared_one_by_one() -> None:
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    labels = Labels(Declared([]))
    zids = [f"{index:06d}" for index in range(300)]
    labels.learn([gate(*(session(zid, user=Name("r" + zid)) for zid in zids))])
    compared = 0
    assert [labels.name(zid) for zid in zids] == ["r" + zid for zid in zids]
    assert compared <= 4 * len(zids)


def test_declarations_are_asked_for_only_if_a_new_node_has_no_name() -> None:
    space = Declared(publishers("bbbbbb", "k"))
    labels = Labels(space)
    labels.learn([gate(session("cccccc", user="x"))])
    assert space.told == 0
    labels.learn([gate(session("bbbbbb"))])
    labels.learn([gate(session("bbbbbb"))])
    assert space.told == 1


def test_how_many_declarations_are_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECLARATIONS_COUNT_MAX", 10)
    space = Declared([one for i in range(1_000) for one in publishers("bbbbbb", f"k/{i}")])
    labels = Labels(space)
    labels.learn([gate(session("bbbbbb"))])
    assert space.told == 10
    assert labels.label("bbbbbb") == "on k"


def test_names_from_a_router() -> None:
    with running(options(id="a1")) as daemon, client_of(daemon) as client:
        kept = [client.declare_publisher(f"fleet/r5/{one}") for one in ("imu", "battery")]
        paths = f"{root_of(daemon)}/publisher/fleet/r5/*"
        assert eventually(lambda: len(ask(client, paths)) == len(kept))
        with client_of(daemon) as viewer:
            space = AdminSpace(viewer, 60)
            labels = Labels(space)
            labels.learn(space.nodes(stats=True))
        assert labels.label("a1") == "router a1"
        assert labels.label(str(client.zid())) == "on fleet/r5"
