from __future__ import annotations

import pytest
from tests.unit.session.fake_node import World

from elea.session.handlers import Handler


@pytest.fixture
def world() -> World:
    return World()


def test_tokens_come_and_go(world: World) -> None:
    a, b = world.open(), world.open()
    before = a.liveliness().declare_token("t/0")
    late = b.liveliness().declare_subscriber("t/**")
    full = b.liveliness().declare_subscriber("t/**", history=True)
    token = a.liveliness().declare_token("t/1")
    twin = a.liveliness().declare_token("t/1")
    token.undeclare()
    assert seen(late) == ["PUT t/1"]
    assert seen(full) == ["PUT t/0", "PUT t/1"]
    twin.undeclare()
    before.undeclare()
    assert seen(late) == ["DELETE t/1", "DELETE t/0"]
    assert seen(full) == ["DELETE t/1", "DELETE t/0"]


def test_twins_are_one_in_the_history(world: World) -> None:
    a, b = world.open(), world.open()
    twins = [a.liveliness().declare_token("t/1") for _ in range(2)]
    subscriber = b.liveliness().declare_subscriber("t/*", history=True)
    assert seen(subscriber) == ["PUT t/1"]
    for twin in twins:
        twin.undeclare()
    assert seen(subscriber) == ["DELETE t/1"]
    again = a.liveliness().declare_token("t/1")
    assert seen(subscriber) == ["PUT t/1"]
    again.undeclare()


def test_own_tokens_are_seen_too(world: World) -> None:
    session = world.open()
    subscriber = session.liveliness().declare_subscriber("t/*", history=True)
    with session.liveliness().declare_token("t/1"):
        assert seen(subscriber) == ["PUT t/1"]
    assert seen(subscriber) == ["DELETE t/1"]


def test_asking_for_tokens(world: World) -> None:
    a, b = world.open(), world.open()
    tokens = [a.liveliness().declare_token(key) for key in ("t/1", "t/2", "t/2", "u")]
    replies = list(b.liveliness().get("t/*"))
    keys = sorted(str(reply.ok.key_expr) for reply in replies if reply.ok)
    assert keys == ["t/1", "t/2"]
    assert [reply.replier_id for reply in replies] == [None, None]
    del tokens
    assert list(b.liveliness().get("t/*")) == []


def test_a_session_that_is_gone_takes_its_tokens_along(world: World) -> None:
    a, b = world.open(), world.open()
    subscriber = b.liveliness().declare_subscriber("t/*")
    token = a.liveliness().declare_token("t/1")
    a.close()
    assert seen(subscriber) == ["PUT t/1", "DELETE t/1"]
    token.undeclare()


def seen(subscriber: object) -> list[str]:
    handler = subscriber.handler  # type: ignore[attr-defined]
    assert isinstance(handler, Handler)
    return [f"{sample.kind.name} {sample.key_expr}" for sample in handler.drain()]
