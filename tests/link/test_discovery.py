"""Discovery on loopback: who is asked and answered, and what happens without a network."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from tests.link.loops import Loop
from tests.link.test_multicast import free_port

from elea.errors import ConfigError, LinkError
from elea.ids import WhatAmI
from elea.link.discovery import Discovery, OpenSockets
from elea.link.scouting_socket import ScoutingDatagram, ScoutingSockets
from elea.link.settings import ScoutingSettings
from elea.link.timers import Timers
from elea.node.ports import Teller, Told
from elea.wire.batches import decode_scouting, encode_scouting
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout

SECOND_NS = 1_000_000_000
LOCATORS = {True: ("tcp/127.0.0.1:1", "tcp/10.0.0.1:1"), False: ("tcp/10.0.0.1:1",)}


class Made:
    """Discoveries of several nodes in one group."""

    def __init__(self, loop: Loop, closing: ExitStack) -> None:
        self.loop = loop
        self.settings = ScoutingSettings(
            address=f"224.0.0.224:{free_port()}", interface="lo", what=0b111
        )
        self.found: list[Told] = []
        self.searching = True
        self.clock: Callable[[], int] = time.monotonic_ns
        self.open_sockets: OpenSockets = ScoutingSockets
        self._closing = closing

    def node(self, zid: bytes, role: WhatAmI = WhatAmI.PEER, **changes: object) -> Discovery:
        made = Discovery(
            replace(self.settings, **changes),  # type: ignore[arg-type]
            zid,
            role,
            self.loop.poller,
            Timers(self.loop.poller),
            lambda: self.clock(),
            locators=LOCATORS.__getitem__,
            found=self.found.append,
            searching=lambda: self.searching,
            open_sockets=lambda *args, **kwargs: self.open_sockets(*args, **kwargs),
        )
        self._closing.callback(made.abort)
        return made

    def sockets(self) -> ScoutingSockets:
        made = ScoutingSockets(self.settings.address, interface="lo")
        self._closing.callback(made.close)
        return made


@pytest.fixture
def made(loop: Loop) -> Iterator[Made]:
    with ExitStack() as closing:
        yield Made(loop, closing)


def test_nodes_find_each_other(made: Made) -> None:
    made.node(b"\x01", what=0).start()
    made.node(b"\x02", listen=False).start()
    made.loop.until(lambda: bool(made.found))
    expected = Told(b"\x01", 1, LOCATORS[True], Teller(loopback=True))
    assert made.found == [expected]


def answers(made: Made, *questions: bytes) -> list[Hello]:
    """What one asker hears."""
    asker = made.sockets()
    heard: list[Hello] = []

    def hear(datagram: ScoutingDatagram, now_ns: int) -> None:
        message = decode_scouting(datagram.data)
        if isinstance(message, Hello):
            heard.append(message)

    asker.start(made.loop.poller, hear)
    for question in questions:
        asker.ask(question)
    made.loop.until(lambda: bool(heard))
    return heard


def test_questions_for_others_and_nonsense_stay_unanswered(made: Made) -> None:
    node = made.node(b"\x01", what=0)
    node.start()
    nonsense = (b"\xff\xff", b"", encode_scouting(Scout(0b101)))
    [hello] = answers(made, *nonsense, encode_scouting(Scout(0b010)))
    assert hello == Hello(b"\x01", 1, LOCATORS[True])
    assert (node.stats.answered, node.stats.refused) == (1, 0)
    assert node.stats.unanswered >= 2  # an empty datagram may not be told


def test_a_flood_is_answered_ten_times(made: Made) -> None:
    start_ns = time.monotonic_ns()
    made.clock = lambda: start_ns
    node = made.node(b"\x01", what=0)
    node.start()
    scout = encode_scouting(Scout(0b010))
    heard = answers(made, *[scout] * 100)
    made.loop.until(lambda: node.stats.answered + node.stats.refused == 100)
    assert (node.stats.answered, node.stats.refused) == (10, 90)
    made.loop.until(lambda: len(heard) == 10)


def test_who_is_far_away_is_not_answered(made: Made) -> None:
    node = made.node(b"\x01", what=0)
    data = encode_scouting(Scout(0b010))
    node._heard(ScoutingDatagram(data, ("10.9.9.9", 1), True, False, False, False), 0)
    assert (node.stats.answered, node.stats.refused) == (0, 1)


def test_a_client_that_is_connected_does_not_ask(made: Made) -> None:
    made.searching = False
    node = made.node(b"\x01", WhatAmI.CLIENT)
    node.start()
    made.loop.run(lambda: None)
    assert node.stats.asked == 0
    made.searching = True
    node.ask_again()
    made.loop.until(lambda: node.stats.asked == 1)


def test_who_lost_somebody_asks_soon_but_not_for_each(made: Made) -> None:
    node = made.node(b"\x01")
    node.start()
    made.loop.until(lambda: node.stats.asked == 1)
    for _ in range(10):
        node.ask_again()
    made.loop.run(lambda: None)
    assert node.stats.asked == 1  # the next question is near
    assert node._timer is not None
    node._timer.cancel()
    node._timer = node._timers.call_at(time.monotonic_ns() + 60 * SECOND_NS, node._tick)
    for _ in range(10):
        node.ask_again()
    made.loop.until(lambda: node.stats.asked == 2)
    made.loop.run(lambda: None)
    assert node.stats.asked == 2


def test_without_a_network_it_is_tried_again(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    def none(*_args: object, **_kwargs: object) -> ScoutingSockets:
        raise LinkError("join udp/224.0.0.224: no such device")

    made.open_sockets = none
    with caplog.at_level(logging.WARNING, "elea.link"):
        node = made.node(b"\x01")
        node._tick()
    assert len(caplog.records) == 1  # said once
    assert "no router|peer|client was found within 3 s: could not ask: join" in node.nobody()
    made.open_sockets = ScoutingSockets
    node.start()
    made.loop.until(lambda: node.stats.asked == 1)
    assert f"asked {made.settings.address} on lo 127.0.0.1; start one" in node.nobody()


def test_addresses_that_have_changed_are_looked_at_anew(made: Made) -> None:
    class Gone(ScoutingSockets):
        def ask(self, data: bytes) -> int:
            return 0  # its addresses are none of this host any more

    made.open_sockets = Gone
    node = made.node(b"\x01")
    node._tick()
    assert "could not ask: nothing could be sent to 224.0.0.224:" in node.nobody()

    def vanished(*_args: object, **_kwargs: object) -> ScoutingSockets:
        raise ConfigError("scouting/multicast/interface", "no interface 'lo'")

    made.open_sockets = vanished
    node._tick()
    assert "could not ask: scouting/multicast/interface: no interface" in node.nobody()
    made.open_sockets = ScoutingSockets
    made.loop.until(lambda: node.stats.asked == 1)


def test_an_interface_that_does_not_exist_is_waited_for(
    made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "elea.link"):
        node = made.node(b"\x01", interface="nope0")
    assert "no interface 'nope0' with IPv4; there are" in caplog.text
    assert "no interface 'nope0' with IPv4; there are" in node.nobody()


def test_closing_is_final(made: Made) -> None:
    node = made.node(b"\x01")
    node.start()
    made.loop.until(lambda: node.stats.asked == 1)
    node.close()
    node.ask_again()
    node.start()
    made.loop.run(lambda: None)
    assert node.stats.asked == 1
    assert node._sockets is None
