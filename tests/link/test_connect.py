"""Connector: all addresses at once, the first that works, and honest reasons when none does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from tests.link.cases import TLS
from tests.link.loops import Loop

from elea.errors import LinkError
from elea.limits import Limits
from elea.link.address import Address
from elea.link.base import Listener, PendingLink
from elea.link.connect import Attempt, Connected, Connector
from elea.link.registry import Registry
from elea.link.settings import LinkSettings
from elea.link.tcp import Tcp, dial
from elea.link.timers import Timers
from elea.locator import Endpoint
from elea.node.ports import Teller

SECOND_NS = 1_000_000_000


@dataclass
class Names(Tcp):
    """tcp with a name service of its own, which can be made to hang."""

    table: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    release: threading.Event = field(default_factory=threading.Event)
    asked_in: list[str] = field(default_factory=list)
    dialled: list[Address] = field(default_factory=list)

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        host, _ = endpoint.host_port()
        self.asked_in.append(threading.current_thread().name)
        if host == "hang":
            self.release.wait()
        if host == "broken":
            raise ZeroDivisionError("a scheme with a bug")
        if host in self.table:
            return [Address.of_ip(*place) for place in self.table[host]]
        return super().resolve(endpoint, listening=listening)

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        self.dialled.append(address)
        return super().connect(endpoint, address, settings)


@dataclass
class World:
    """A connector and listeners to reach, or not."""

    loop: Loop
    names: Names
    connector: Connector
    outcomes: list[Connected | LinkError] = field(default_factory=list)
    closing: ExitStack = field(default_factory=ExitStack)

    def listen(self, scheme: Tcp | None = None) -> Listener:
        made = (scheme or Tcp()).listen(
            Endpoint.parse("tcp/127.0.0.1:0"), Address.of_ip("127.0.0.1", 0), LinkSettings()
        )
        self.closing.callback(made.close)
        return made

    def silent(self) -> int:
        """The port of a listener whose queue is full: connections to it hang."""
        sock = socket.socket()
        self.closing.callback(sock.close)
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        port: int = sock.getsockname()[1]
        for _ in range(3):
            filler = socket.socket()
            self.closing.callback(filler.close)
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        return port

    def closed_port(self) -> int:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
            return port

    def connect(
        self, *texts: str, timeout_ns: int = 20 * SECOND_NS, teller: Teller | None = None
    ) -> Attempt:
        return self.connector.connect(
            [Endpoint.parse(text) for text in texts],
            timeout_ns=timeout_ns,
            on_done=self.outcomes.append,
            teller=teller,
        )

    def outcome(self) -> Connected | LinkError:
        self.loop.until(lambda: bool(self.outcomes))
        self.loop.run(lambda: None)
        [one] = self.outcomes
        if isinstance(one, Connected):
            self.closing.callback(one.link.close)
        return one

    def connected(self) -> Connected:
        one = self.outcome()
        assert isinstance(one, Connected), one
        return one

    def failure(self) -> str:
        one = self.outcome()
        assert isinstance(one, LinkError), one
        return str(one)


@pytest.fixture
def world(loop: Loop) -> Iterator[World]:
    names = Names()
    registry = Registry(entries=())
    registry.add("tcp", names)
    connector = Connector(loop.poller, Timers(loop.poller), LinkSettings(), registry)
    made = World(loop, names, connector)
    with made.closing:
        yield made
        names.release.set()


def test_a_literal_address_needs_no_thread(world: World) -> None:
    port = world.listen().locator.host_port()[1]
    world.connect(f"tcp/127.0.0.1:{port}")
    done = world.connected()
    assert str(done.link.info.remote) == f"tcp/127.0.0.1:{port}"
    assert done.address == Address.of_ip("127.0.0.1", port)
    assert "elea-resolve" not in world.names.asked_in


def test_names_are_looked_up_outside_the_loop(world: World) -> None:
    port = world.listen().locator.host_port()[1]
    world.names.table["robot"] = [("127.0.0.1", port)]
    world.connect(f"tcp/robot:{port}")
    world.connected()
    assert world.names.asked_in == ["elea-resolve"]


def test_the_first_address_that_works_wins(world: World) -> None:
    port = world.listen().locator.host_port()[1]
    world.names.table["robot"] = [
        ("127.0.0.1", world.silent()),
        ("127.0.0.1", world.closed_port()),
        ("127.0.0.1", port),
    ]
    world.connect("tcp/robot:1")
    assert world.connected().address.port == port
    assert len(world.names.dialled) == 3


def test_all_endpoints_are_tried_at_once(world: World) -> None:
    port = world.listen().locator.host_port()[1]
    world.connect(f"tcp/127.0.0.1:{world.silent()}", "tcp/hang:1", f"tcp/127.0.0.1:{port}")
    assert str(world.connected().endpoint) == f"tcp/127.0.0.1:{port}"


def test_every_reason_is_told_when_none_works(world: World) -> None:
    world.names.table["robot"] = [("127.0.0.1", world.closed_port())] * 2
    world.connect("tcp/robot:1", "pigeon/coop", "tcp/broken:1", "tcp/nowhere.invalid:1")
    said = world.failure()
    assert said.count("nothing listens there") == 1  # the same address is dialled once
    assert "no scheme 'pigeon'; there are memory, serial, tcp" in said
    assert "tcp/broken:1: a scheme with a bug" in said
    assert "'nowhere.invalid' leads nowhere" in said


def test_no_endpoint_at_all(world: World) -> None:
    world.connect()
    assert "no endpoint" in world.failure()


@pytest.mark.parametrize("hang", ["connection", "name", "handshake"])
def test_the_time_is_for_all_of_it(hang: str, world: World) -> None:
    text = "tcp/hang:1"
    if hang == "connection":
        text = f"tcp/127.0.0.1:{world.silent()}"
    if hang == "handshake":  # TCP is accepted by the kernel, TLS by nobody
        world.connector.settings = TLS.settings
        text = str(world.listen().locator).replace("tcp/", "tls/")
    world.connect(text, timeout_ns=30_000_000)
    said = world.failure()
    assert "no answer within 0.03 s from" in said
    assert (text if hang != "name" else "the name service") in said


def test_a_cancelled_attempt_tells_nothing_and_leaves_nothing(world: World) -> None:
    listener = world.listen()
    attempt = world.connect(str(listener.locator), f"tcp/127.0.0.1:{world.silent()}", "tcp/hang:1")
    attempt.cancel()
    attempt.cancel()
    world.loop.run(lambda: None)
    world.names.release.set()
    world.loop.run(lambda: None)
    world.loop.run(lambda: None)
    assert world.outcomes == []
    assert world.loop.errors == []


def test_an_attempt_cancelled_while_it_connects(world: World) -> None:
    attempt = world.connect(f"tcp/127.0.0.1:{world.silent()}")
    world.loop.until(lambda: bool(world.names.dialled))
    attempt.cancel()
    world.loop.run(lambda: None)
    assert world.outcomes == []


def test_what_was_learned_is_not_dialled_where_it_must_not_be(world: World) -> None:
    port = world.listen().locator.host_port()[1]
    world.names.table["innocent"] = [("127.0.0.1", port), ("169.254.169.254", 80)]
    world.connect("tcp/innocent:1", teller=Teller.at("10.0.0.7"))
    said = world.failure()
    assert "loopback, told by someone who is not on it" in said
    assert "a metadata service" in said
    assert world.names.dialled == []
    world.outcomes.clear()
    world.connect("tcp/innocent:1", teller=Teller.at("127.0.0.1"))
    assert world.connected().address.port == port
    assert world.names.dialled == [Address.of_ip("127.0.0.1", port)]


def test_a_node_with_a_hundred_addresses_is_not_dialled_a_hundred_times(world: World) -> None:
    closed = world.closed_port()
    world.names.table["many"] = [(f"127.0.0.{number}", closed) for number in range(1, 101)]
    world.connect("tcp/many:1")
    assert "there are too many addresses" in world.failure()
    assert len(world.names.dialled) == Limits().link_addresses_count


def test_protocols_that_may_not_be_used_are_not(world: World) -> None:
    world.connector.settings = LinkSettings(protocols=frozenset({"tls", "udp"}))
    world.connect(str(world.listen().locator))
    assert "tcp is not among transport/link/protocols, which are tls, udp" in world.failure()


def test_options_of_an_endpoint_that_cannot_work(world: World) -> None:
    port = world.listen().locator.host_port()[1]
    world.connect(f"tcp/127.0.0.1:{port}#dscp=64")
    assert "dscp is 0 to 63" in world.failure()


def test_options_that_a_neighbour_tells_ended_no_attempt(world: World) -> None:
    """The loop logged a traceback, and the socket was kept until the attempt timed out."""
    port = world.listen().locator.host_port()[1]
    world.connect(f"tcp/127.0.0.1:{port}?prio=1-9")
    assert "priorities are 0 to 7" in world.failure()


def test_more_names_than_threads_are_all_looked_up(world: World) -> None:
    port = world.listen().locator.host_port()[1]
    for number in range(20):
        world.names.table[f"robot-{number}"] = [("127.0.0.1", port)]
        world.connect(f"tcp/robot-{number}:1")
    world.loop.until(lambda: len(world.outcomes) == 20)
    for one in world.outcomes:
        assert isinstance(one, Connected)
        one.link.close()


def test_bind_says_where_a_connection_comes_from(world: World) -> None:
    listener = world.listen()
    world.connect(f"{listener.locator}#bind=127.0.0.3:0")
    assert world.connected().link.info.local.host_port()[0] == "127.0.0.3"


def test_dialling_reports_what_the_system_refuses_at_once() -> None:
    endpoint = Endpoint.parse("tcp/127.0.0.1:1#iface=nope0")
    with pytest.raises(LinkError, match=r"connect to tcp/127.0.0.1:1: .*interface"):
        dial(endpoint, Address.of_ip("127.0.0.1", 1), LinkSettings(), _never)


def _never(sock: socket.socket) -> PendingLink:
    raise AssertionError("it never connects")
