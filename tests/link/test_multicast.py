"""Groups and scouting sockets, on the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.link.cases import HAS_IPV6
from tests.link.loops import Loop
from tests.link.rig import turns, wait

from elea.errors import ConfigError, LinkError
from elea.link.address import Address
from elea.link.multicast import GroupLink, GroupPump, group_sender, own_addresses
from elea.link.scouting_socket import ScoutingDatagram, ScoutingSockets
from elea.link.settings import LinkSettings
from elea.link.udp import Udp
from elea.locator import Endpoint, Locator

GROUP = "224.0.0.225"


def free_port() -> int:
    """Of a socket that keeps others out, so that parallel runs do not hear each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def join() -> Iterator[Callable[[int], GroupLink]]:
    with ExitStack() as closing:

        def make(port: int) -> GroupLink:
            group = GroupLink(Endpoint.parse(f"udp/{GROUP}:{port}#iface=lo"), LinkSettings())
            closing.callback(group.close)
            return group

        yield make


def heard(group: GroupLink) -> tuple[bytes, Locator]:
    for _ in turns():
        found = group.receive()
        if found is not None:
            return found
        wait([(group.fileno(), 1)])
    raise AssertionError("nothing was heard")


def test_all_hear_but_the_one_who_speaks(join: Callable[[int], GroupLink]) -> None:
    port = free_port()
    one, two, three = (join(port) for _ in range(3))
    assert one.write([b"first", b"second"]) == 11
    for other in (two, three):
        assert heard(other) == (b"first", one.info.local)
        assert heard(other) == (b"second", one.info.local)
    two.write([b"mine"])
    assert heard(one) == (b"mine", two.info.local)
    assert one.receive() is None
    assert one.info.local != two.info.local


def test_what_is_known_about_a_group(join: Callable[[int], GroupLink]) -> None:
    port = free_port()
    info = join(port).info
    assert info.group == info.remote == Locator(f"udp/{GROUP}:{port}")
    assert (info.stream, info.reliable) == (False, False)
    assert info.interfaces == ("lo",)
    assert info.batch_len_max > 8_192


def test_the_largest_batch_arrives(join: Callable[[int], GroupLink]) -> None:
    port = free_port()
    one, two = join(port), join(port)
    batch = bytes(one.info.batch_len_max)
    one.write([batch])
    assert heard(two)[0] == batch


def test_an_ipv6_group_can_be_joined() -> None:
    """That is all loopback allows: it has no route for IPv6 groups."""
    port = free_port()
    endpoint = Endpoint.parse(f"udp/[ff02::225]:{port}#iface=lo")
    if not HAS_IPV6:
        with pytest.raises(ConfigError, match="no interface 'lo' with IPv6"):
            GroupLink(endpoint, LinkSettings())
        return
    group = GroupLink(endpoint, LinkSettings())
    assert group.info.group == Locator(f"udp/[ff02::225]:{port}")
    assert group.info.local.host_port()[0] == "::1"
    assert group.receive() is None
    group.close()


def test_options_that_cannot_work() -> None:
    for option, said in (("iface=nope0", "no interface 'nope0'"), ("ttl=many", "ttl is a number")):
        with pytest.raises(ConfigError, match=said):
            GroupLink(Endpoint.parse(f"udp/{GROUP}:7000#{option}"), LinkSettings())


def test_a_group_is_no_node_and_a_node_is_no_group() -> None:
    group = Endpoint.parse(f"udp/{GROUP}:7000")
    address = Address.of_ip(GROUP, 7_000)
    with pytest.raises(LinkError, match="it is a multicast group"):
        Udp().connect(group, address, LinkSettings())
    with pytest.raises(LinkError, match="it is a multicast group"):
        Udp().listen(group, address, LinkSettings())
    with pytest.raises(LinkError, match="no multicast group"):
        GroupLink(Endpoint.parse("udp/127.0.0.1:7000"), LinkSettings())


def test_a_pump_gives_datagrams_with_their_source(
    loop: Loop, join: Callable[[int], GroupLink]
) -> None:
    port = free_port()
    one, two = join(port), join(port)
    seen: list[tuple[bytes, Locator]] = []
    closed: list[str] = []
    pump = GroupPump(
        two,
        loop.poller,
        on_datagram=lambda data, source, now_ns: seen.append((data, source)),
        on_closed=closed.append,
    )
    pump.start()
    sent = [b"%d" % number for number in range(200)]  # more than one turn reads
    for data in sent:
        one.write([data])
    loop.until(lambda: len(seen) == len(sent))
    assert seen == [(data, one.info.local) for data in sent]
    pump.send([b"back"])
    assert heard(one) == (b"back", two.info.local)
    pump.close("done")
    pump.close("again")
    loop.until(lambda: closed == ["done"])
    pump.send([b"late"])
    loop.run(lambda: None)
    assert closed == ["done"]
    assert one.receive() is None


def test_a_pump_whose_group_breaks_tells_it_once(
    loop: Loop, join: Callable[[int], GroupLink]
) -> None:
    group = join(free_port())
    closed: list[str] = []
    pump = GroupPump(group, loop.poller, on_datagram=lambda *_: None, on_closed=closed.append)
    pump.start()
    loop.run(lambda: None)
    for sender in group._senders:
        sender.close()
    pump.send([b"x"])
    pump.send([b"y"])
    loop.until(lambda: bool(closed))
    loop.run(lambda: None)
    assert len(closed) == 1
    assert "write to udp/224.0.0.225" in closed[0]


@pytest.fixture
def scouting() -> Iterator[Callable[..., ScoutingSockets]]:
    with ExitStack() as closing:

        def make(port: int, listen: bool = True) -> ScoutingSockets:
            made = ScoutingSockets(f"224.0.0.224:{port}", interface="lo", listen=listen)
            closing.callback(made.close)
            return made

        yield make


MakeScouting = Callable[..., ScoutingSockets]


def test_a_question_is_heard_and_answered(loop: Loop, scouting: MakeScouting) -> None:
    port = free_port()
    asker, responder, deaf = scouting(port), scouting(port), scouting(port, listen=False)
    questions: list[ScoutingDatagram] = []
    answers: list[ScoutingDatagram] = []
    overheard: list[ScoutingDatagram] = []

    def asked(datagram: ScoutingDatagram, now_ns: int) -> None:
        questions.append(datagram)
        assert responder.answer(datagram, b"here")

    responder.start(loop.poller, asked)
    asker.start(loop.poller, lambda datagram, now_ns: answers.append(datagram))
    deaf.start(loop.poller, lambda datagram, now_ns: overheard.append(datagram))
    assert asker.ask(b"who?") == 1
    loop.until(lambda: bool(answers))
    loop.run(lambda: None)
    [question] = questions
    [answer] = answers  # neither its own question nor anything else
    assert (question.data, question.to_group, question.loopback) == (b"who?", True, True)
    assert (answer.data, answer.to_group, answer.on_link) == (b"here", False, True)
    assert question.host == "127.0.0.1"
    assert overheard == []
    asker.close()
    asker.close()


def test_without_a_poller_one_can_ask_for_the_next_datagram(scouting: MakeScouting) -> None:
    port = free_port()
    asker, responder = scouting(port, listen=False), scouting(port)
    asker.ask(b"who?")
    for _ in turns():
        question = responder.receive()
        if question is not None:
            break
    assert question is not None
    assert responder.receive() is None
    responder.answer(question, b"here")
    for _ in turns():
        answer = asker.receive()
        if answer is not None:
            break
    assert answer is not None
    assert answer.data == b"here"


def test_what_the_system_sends_for_us_is_known_as_our_own() -> None:
    """A sender that is bound to no address: its datagrams come back with the host's addresses."""
    with group_sender(Address.of_ip(GROUP, 1), None, 1) as sender:
        own = own_addresses([sender])
        assert ("127.0.0.1", sender.getsockname()[1]) in own


def test_an_interface_that_does_not_exist() -> None:
    with pytest.raises(
        ConfigError, match=r"scouting/multicast/interface: no interface 'nope0'.*lo"
    ):
        ScoutingSockets(interface="nope0")
