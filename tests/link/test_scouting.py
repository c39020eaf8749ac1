"""elea.scout, sessions that find each other, and groups, on loopback: Elea alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.link.test_multicast import free_port

import elea
from elea import aio
from elea.errors import ClosedError, ConfigError, LinkError
from elea.link.scouting import Search, start_scouting
from elea.link.start import open_driver
from elea.sample import Hello

WAIT_S = 20


def eventually(condition: Callable[[], object]) -> bool:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(0.005)
    return True


class Net:
    """Sessions in one scouting group."""

    def __init__(self, closing: ExitStack) -> None:
        self.closing = closing
        self.scouting: dict[str, Any] = {
            "delay": 200,
            "timeout": 1_000 * WAIT_S,  # of clients: the machine may be busy
            "multicast": {
                "enabled": True,
                "interface": "lo",
                "address": f"224.0.0.224:{free_port()}",
            },
        }

    def config(self, **settings: object) -> elea.Config:
        values = {
            "listen": {"endpoints": ["tcp/127.0.0.1:0"]},
            "scouting": self.scouting,
            **settings,
        }
        return elea.Config.from_mapping(values)

    def open(self, **settings: object) -> elea.Session:
        return self.closing.enter_context(elea.open(self.config(**settings)))

    def open_when_found(self) -> elea.Session:
        """Open a session that waits until it is connected, however slow the machine is."""
        return self.open(scouting={**self.scouting, "delay": 1_000 * WAIT_S})


@pytest.fixture
def net() -> Iterator[Net]:
    with ExitStack() as closing:
        yield Net(closing)


def neighbours(session: elea.Session) -> set[elea.ZenohId]:
    return {*session.info.peers_zid(), *session.info.routers_zid()}


def test_the_forms_of_a_scout(net: Net) -> None:
    session = net.open()
    heard: list[Hello] = []
    with (
        elea.scout(config=net.config()) as channel,
        elea.scout(heard.append, what="peer", config=net.config()) as callback,
        elea.scout(elea.handlers.RingChannel(1), "peer|client", net.config()) as ring,
    ):
        hello = next(iter(channel))
        assert (hello.whatami, hello.zid) == (elea.WhatAmI.PEER, session.zid())
        assert ring.recv(timeout=WAIT_S) == hello
        assert eventually(lambda: heard == [hello])
        assert callback.handler is None
    with pytest.raises(ClosedError):
        channel.recv()
    with pytest.raises(ClosedError):
        callback.stop()


def test_a_scout_nobody_refers_to_ends(net: Net) -> None:
    def threads() -> int:
        return sum(thread.name == "elea-scout" for thread in threading.enumerate())

    before = threads()
    kept = elea.scout(config=net.config())
    assert eventually(lambda: threads() == before + 1)
    del kept
    gc.collect()
    assert eventually(lambda: threads() == before)


def test_nobody_is_told_of_after_the_end(net: Net) -> None:
    net.open()
    searches: list[Search] = []
    heard: list[Hello] = []

    def found(hello: Hello) -> None:
        heard.append(hello)
        searches[0].stop()  # where it is told

    searches.append(start_scouting(elea.WhatAmIMatcher("peer"), net.config(), found))
    assert eventually(lambda: heard)
    searches[0].stop()
    assert len(heard) == 1


def test_a_forked_child_has_no_search(net: Net) -> None:
    search = elea.scout(config=net.config())
    child = os.fork()
    if child == 0:
        os._exit(sum(thread.name == "elea-scout" for thread in threading.enumerate()))
    assert os.waitpid(child, 0)[1] == 0
    net.open()
    assert search.recv(timeout=WAIT_S)
    search.stop()


def test_a_forked_child_scouts_for_itself(net: Net) -> None:
    session = net.open()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            # The parent is another node for it.
            os._exit(0 if eventually(lambda: len(neighbours(session)) == 1) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert eventually(lambda: not neighbours(session))
    other = net.open()
    assert eventually(lambda: neighbours(session) == {other.zid()})


def test_a_scout_that_cannot_be() -> None:
    config = elea.Config()
    config.insert_json5("scouting/multicast/interface", '"nope0"')
    with pytest.raises(ConfigError, match="no interface 'nope0' with IPv4; there are"):
        elea.scout(config=config)


def test_sessions_find_each_other_and_wait_for_it(net: Net) -> None:
    first = net.open()
    got: list[str] = []
    first.declare_subscriber("a", lambda sample: got.append(sample.payload.to_string()))
    second = net.open_when_found()
    assert neighbours(second) == {first.zid()}  # when `open` returns
    second.put("a", "x")
    assert eventually(lambda: got == ["x"])
    third = net.open()
    assert eventually(lambda: neighbours(first) == {second.zid(), third.zid()})
    assert eventually(lambda: neighbours(second) == {first.zid(), third.zid()})
    assert eventually(lambda: len(first.info.links()) == 2)


def test_a_client_without_endpoints(net: Net) -> None:
    peer = net.open()
    client = net.open(mode="client", listen={"endpoints": []})
    assert neighbours(client) == {peer.zid()}


def test_a_client_that_finds_nobody(net: Net) -> None:
    net.scouting["timeout"] = 100
    address = net.scouting["multicast"]["address"]
    with pytest.raises(LinkError) as caught:
        net.open(mode="client", listen={"endpoints": []})
    assert str(caught.value) == (
        f"no router|peer was found within 0.1 s: asked {address} on lo 127.0.0.1; start one in"
        " this network, choose another scouting/multicast/interface, or give connect/endpoints"
    )


def test_a_client_that_may_not_look() -> None:
    config = {"mode": "client", "scouting": {"multicast": {"enabled": False}}}
    with pytest.raises(LinkError, match="has to be given connect/endpoints"):
        elea.open(config)


def test_sessions_on_an_event_loop_find_each_other(net: Net) -> None:
    async def main() -> None:
        async with await aio.open(net.config()) as one, await aio.open(net.config()) as two:
            assert two.info.peers_zid() == [one.zid()]
            async with await aio.open(net.config(mode="client", listen={"endpoints": []})) as three:
                assert len(three.info.peers_zid()) == 1

    asyncio.run(main())


def test_the_environment_can_silence_a_process(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    del net.scouting["multicast"]["enabled"]
    monkeypatch.setenv("ELEA_NO_SCOUTING", "1")
    net.open()
    with elea.scout(config=net.config()) as search, pytest.raises(TimeoutError):
        search.recv(timeout=0.1)
    monkeypatch.setenv("ELEA_NO_SCOUTING", "0")
    heard = net.open()
    with elea.scout(config=net.config()) as search:
        assert search.recv(timeout=WAIT_S).zid == heard.zid()


def group_of(net: Net) -> dict[str, object]:
    endpoint = f"udp/224.0.0.225:{free_port()}#iface=lo"
    net.scouting["multicast"]["enabled"] = False
    return {"listen": {"endpoints": [endpoint]}}


def test_a_group_of_sessions(net: Net) -> None:
    group = group_of(net)
    first, second, third = (net.open(**group) for _ in range(3))
    got: list[tuple[str, str]] = []
    for name, session in (("second", second), ("third", third)):

        def note(sample: elea.Sample, name: str = name) -> None:
            got.append((name, sample.payload.to_string()))

        session.declare_subscriber("a", note)
    assert eventually(lambda: len(first.info.transports()) == len(third.info.transports()) == 2)

    def heard_by_both() -> bool:
        first.put("a", "x")
        return len(set(got)) == 2

    assert eventually(heard_by_both)
    assert set(got) == {("second", "x"), ("third", "x")}
    assert neighbours(first) == set()
    with first.info.declare_transport_events_listener(history=False) as events:
        second.close()
        event = events.recv(timeout=WAIT_S)
    assert (event.kind, event.transport.zid) == (elea.SampleKind.DELETE, second.zid())
    assert event.transport.is_multicast


def test_a_group_of_which_a_client_cannot_be(net: Net) -> None:
    with pytest.raises(ConfigError, match="a client takes no part in groups; use mode peer"):
        net.open(mode="client", **group_of(net))


def test_a_group_is_joined_again_when_its_interface_comes_back(net: Net) -> None:
    group = group_of(net)
    second = net.open(**group)
    first = open_driver(net.config(**group))
    net.closing.callback(first.close, 0)

    def members() -> list[bytes]:
        with first.lock:
            return [one.zid for one in first.node.neighbours()]

    assert eventually(lambda: members() == [second.zid().to_bytes()])
    [pump] = first.pumps.by_id.values()
    pump.close("the interface went down")
    assert eventually(lambda: not members())
    assert eventually(lambda: members() == [second.zid().to_bytes()])
