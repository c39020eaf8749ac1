"""Connector, AcceptLoop and LinkPump together, for every scheme, on both pollers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.link.cases import EVERY, INIT_SYN, RELIABLE, UDP
from tests.link.line import Line
from tests.link.loops import Loop
from tests.link.rig import Case

from elea.errors import LinkError
from elea.link.accept import AcceptLoop
from elea.link.admission import Admission, Ticket
from elea.link.base import Link
from elea.link.connect import Connected, Connector
from elea.link.pump import PEER_CLOSED, LinkPump
from elea.link.registry import Registry
from elea.link.timers import Timers
from elea.locator import Endpoint

TIMEOUT_NS = 20_000_000_000


class Meeting:
    """A client and a server of one scheme; what each of them heard."""

    def __init__(self, case: Case, loop: Loop, folder: Path) -> None:
        self.loop = loop
        self.heard: dict[str, list[bytes]] = {"client": [], "server": []}
        self.closed: dict[str, list[str]] = {"client": [], "server": []}
        self.pumps: dict[str, LinkPump] = {}
        self.echo = False
        timers = Timers(loop.poller)
        self.line = Line() if case.line else None
        near, far = (self.line.near, self.line.far) if self.line else ("", "")
        endpoint = Endpoint.parse(case.listen(folder).format(far))
        [address, *_] = case.scheme.resolve(endpoint, listening=True)
        listener = case.scheme.listen(endpoint, address, case.settings)
        self.accepting = AcceptLoop(
            listener,
            loop.poller,
            timers,
            Admission(),
            on_link=self._accepted,
            on_failure=lambda who, error: loop.errors.append(error),
        )
        self.accepting.start()
        Connector(loop.poller, timers, case.settings, Registry(entries=())).connect(
            [Endpoint.parse(case.connect(str(listener.locator)).format(near))],
            timeout_ns=TIMEOUT_NS,
            on_done=self._dialled,
        )
        loop.until(lambda: "client" in self.pumps)
        if case is UDP:
            self.send("client", INIT_SYN)
        loop.until(lambda: "server" in self.pumps)
        if case is UDP:
            loop.until(lambda: self.heard["server"] == [INIT_SYN])
            self.heard["server"].clear()

    def send(self, who: str, *batches: bytes) -> int:
        return self.pumps[who].send(batches)

    def received(self, who: str) -> bytes:
        return b"".join(self.heard[who])

    def close(self) -> None:
        for pump in self.pumps.values():
            pump.close()
        self.loop.until(lambda: all(self.closed.values()) or len(self.pumps) < 2)
        self.loop.run(self.accepting.close)
        if self.line is not None:
            self.line.close()

    def _dialled(self, outcome: Connected | LinkError) -> None:
        assert isinstance(outcome, Connected), outcome
        self._start("client", outcome.link)

    def _accepted(self, link: Link, ticket: Ticket) -> None:
        ticket.settle()
        self._start("server", link)

    def _start(self, who: str, link: Link) -> None:
        def on_data(data: bytes, now_ns: int) -> None:
            self.heard[who].append(data)
            if self.echo and who == "server":
                pump.send([data])

        pump = LinkPump(link, self.loop.poller, on_data=on_data, on_closed=self.closed[who].append)
        self.pumps[who] = pump
        pump.start()


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def meeting(case: Case, loop: Loop, tmp_path: Path, closing: ExitStack) -> Meeting:
    made = Meeting(case, loop, tmp_path)
    closing.callback(made.close)
    return made


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_questions_and_answers(case: Case, meeting: Meeting) -> None:
    meeting.echo = True
    for number in range(50):
        question = b"%06d" % number
        assert meeting.send("client", question) == 0
        meeting.loop.until(lambda: len(meeting.received("client")) == 6)
        assert meeting.received("client") == question
        meeting.heard["client"].clear()
    assert meeting.loop.errors == []


@pytest.mark.parametrize("case", RELIABLE, ids=str)
def test_a_flood_in_both_directions_arrives_whole_and_in_order(
    case: Case, meeting: Meeting
) -> None:
    batches = [bytes([number % 251]) * 20_000 for number in range(150)]
    for batch in batches:
        meeting.send("client", batch[:10_000], batch[10_000:])
        meeting.send("server", batch)
    expected = b"".join(batches)
    meeting.loop.until(
        lambda: all(len(meeting.received(who)) == len(expected) for who in meeting.heard)
    )
    assert meeting.received("server") == expected
    assert meeting.received("client") == expected
    meeting.loop.until(lambda: all(not pump.queued_len for pump in meeting.pumps.values()))
    assert meeting.loop.errors == []


@pytest.mark.parametrize("case", RELIABLE, ids=str)
def test_a_paused_reader_and_what_waits_inside_the_link(case: Case, meeting: Meeting) -> None:
    """Octets that a TLS or WebSocket machine holds are told of by no descriptor."""
    for size in (1, 3, 40_000):
        meeting.pumps["server"].pause_reading()
        meeting.loop.run(lambda: None)
        meeting.send("client", *[bytes([number]) * size for number in range(1, 20)])
        meeting.loop.run(lambda: None)
        assert meeting.heard["server"] == []
        meeting.pumps["server"].resume_reading()
        meeting.loop.until(lambda size=size: len(meeting.received("server")) == 19 * size)  # type: ignore[misc]
        meeting.heard["server"].clear()


@pytest.mark.parametrize("case", RELIABLE, ids=str)
def test_draining_delivers_everything_before_the_end(case: Case, meeting: Meeting) -> None:
    data = bytes(range(256)) * 200
    meeting.pumps["server"].pause_reading()
    sent = 0
    while not meeting.send("client", data):
        sent += len(data)
    sent += len(data)
    meeting.pumps["client"].close(drain=True)
    meeting.pumps["server"].resume_reading()
    meeting.loop.until(lambda: bool(meeting.closed["server"]))
    assert meeting.closed["server"] == [PEER_CLOSED]
    assert len(meeting.received("server")) == sent
