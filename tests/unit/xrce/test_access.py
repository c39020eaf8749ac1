"""What devices may do: declarations are refused, data is dropped and counted (19.3)."""

from __future__ import annotations

import pytest
from tests.xrce_world import World, device_settings

from elea.keyexpr.keyexpr import KeyExpr
from elea.xrce.client import Client
from elea.xrce.declarations import Action
from elea.xrce.gateway.device import Counters
from elea.xrce.gateway.effects import Ask
from elea.xrce.properties import EMPTY_IS_DELETE
from elea.xrce.status import Status

ALLOWED = {
    Action.DECLARE: ("own/**", "news/**", "@xrce/**"),
    Action.WRITE: ("own/**",),
    Action.DELETE: ("own/gone/**",),
    Action.READ: ("own/**", "news/**"),
    Action.ASK: ("own/**",),
}


def allows(pid: bytes, action: Action, key_exprs: tuple[str, ...]) -> bool:
    if pid[-1]:
        return True  # other devices may do anything
    allowed = [KeyExpr(one) for one in ALLOWED[action]]
    return all(any(one.includes(KeyExpr(wanted)) for one in allowed) for wanted in key_exprs)


def guarded() -> tuple[World, Client]:
    world = World(allows=allows)
    return world, world.device(device_settings(0))


def counters(world: World) -> Counters:
    return world.gateway.devices[bytes((0xDE, 0))].counters


@pytest.mark.parametrize(
    ("name", "action", "status"),
    [
        ("/own/t", "publisher", Status.SUCCESS),
        ("/own/**", "subscriber", Status.SUCCESS),
        ("/news/*", "subscriber", Status.SUCCESS),
        ("/news/a", "publisher", Status.INVALID),  # to read only
        ("/other", "", Status.INVALID),
        ("/**", "subscriber", Status.INVALID),  # more than what is allowed
    ],
)
def test_what_is_forbidden_is_refused_as_a_whole(name: str, action: str, status: Status) -> None:
    world, client = guarded()
    fine = client.resource("/own/fine")
    rid = client.resource(name)
    if action:
        getattr(client, action)(rid)
    settled = world.committed(client)
    assert settled.status is status
    table = world.gateway.devices[bytes((0xDE, 0))].table
    assert (fine in table.names) is (status is Status.SUCCESS)
    assert (settled.id == rid) is (status is Status.INVALID)


def test_a_name_that_an_id_gets_later_is_held_against_the_list_too() -> None:
    world, client = guarded()
    client.resource("/news/a", rid=2)
    world.committed(client)
    client.publisher(2)
    assert world.committed(client).status is Status.INVALID
    world, client = guarded()
    client.subscriber(4)  # an id without a name is a resource of its own
    assert world.committed(client).status is Status.INVALID


def test_data_is_dropped_and_counted() -> None:
    world, client = guarded()
    rid = client.resource("/news/a")
    world.committed(client)
    assert client.write(rid, b"1", world.now_ns)
    assert client.write_to("/elsewhere", b"2", world.now_ns)
    assert client.write_to("/own/t", b"3", world.now_ns)
    world.run(1)
    assert [(one.key, one.payload) for one in world.puts()] == [("own/t", b"3")]
    assert counters(world).forbidden == 2
    assert client.is_open


def test_who_may_write_and_not_delete_puts_and_deletes_nothing() -> None:
    world = World(allows=allows)
    client = world.device(device_settings(0, capabilities=EMPTY_IS_DELETE))
    for name in ("/own/t", "/own/gone/t"):
        assert client.write_to(name, b"1", world.now_ns)
        assert client.write_to(name, b"", world.now_ns)
    world.run(1)
    assert [(one.key, one.deleted) for one in world.puts()] == [
        ("own/t", False),
        ("own/gone/t", False),
        ("own/gone/t", True),
    ]
    assert counters(world).forbidden == 1


def test_who_may_subscribe_and_not_ask_is_sent_nothing_of_other_storages() -> None:
    world = World(allows=allows, asks=True)
    client = world.device(device_settings(0))
    world.rest = [world.sample("news/a", b"old"), world.sample("own/a", b"old")]
    for name in ("/news/a#transient", "/own/a#transient"):
        client.subscriber(client.resource(name))
        assert world.committed(client).status is Status.SUCCESS
    world.run(3)
    assert [one.key_exprs for one in world.effects if isinstance(one, Ask)] == [("own/a",)]


def test_what_is_at_rest_is_not_read_by_who_may_not() -> None:
    world, client = guarded()
    ALLOWED[Action.DECLARE] += ("secret",)
    try:
        rid = client.resource("/secret")
        assert world.committed(client).status is Status.SUCCESS
        client.pull(rid, world.now_ns)
        world.run(1)
    finally:
        ALLOWED[Action.DECLARE] = ALLOWED[Action.DECLARE][:-1]
    assert counters(world).forbidden == 1
