"""AcceptLoop and admission: the silent, the slow and the many do not keep others out (T09)."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from tests.link.cases import INIT_SYN, TCP, TLS
from tests.link.loops import Loop
from tests.link.rig import Case, Rig

from elea.errors import LinkError
from elea.limits import Limits
from elea.link.accept import AcceptLoop
from elea.link.address import Address
from elea.link.admission import Admission, Ticket
from elea.link.base import READ, WRITE, Link, Listener, PendingLink
from elea.link.failure import link_error
from elea.link.settings import LinkSettings
from elea.link.stream import PlainListener
from elea.link.timers import Timers
from elea.link.udp import Udp, UdpListener, UdpSourceLink
from elea.locator import Endpoint, Locator
from elea.node.stats import Refusal


@dataclass
class Door:
    """An accept loop and what it told."""

    loop: Loop
    listener: Listener
    limits: Limits
    closing: ExitStack
    admission: Admission = field(init=False)
    links: list[tuple[Link, Ticket]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.admission = Admission(self.limits)
        self.accepting = AcceptLoop(
            self.listener,
            self.loop.poller,
            Timers(self.loop.poller),
            self.admission,
            on_link=self._on_link,
            on_failure=lambda who, error: self.failures.append((who, str(error))),
            limits=self.limits,
        )
        self.accepting.start()
        self.closing.callback(lambda: self.loop.run(self.accepting.close))

    @property
    def place(self) -> tuple[str, int]:
        return self.listener.locator.host_port()

    def knock(self, source: str = "127.0.0.1") -> socket.socket:
        """A TCP connection from one of loopback's many addresses."""
        sock = socket.create_connection(self.place, source_address=(source, 0), timeout=20)
        self.closing.callback(sock.close)
        return sock

    def _on_link(self, link: Link, ticket: Ticket) -> None:
        self.links.append((link, ticket))
        self.closing.callback(link.close)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def door(loop: Loop, closing: ExitStack, case: Case = TCP, **limits: int) -> Door:
    endpoint = Endpoint.parse(f"{case.name.split()[0]}/127.0.0.1:0")
    listener = case.scheme.listen(endpoint, Address.of_ip("127.0.0.1", 0), case.settings)
    return Door(loop, listener, Limits(**limits), closing)


def gone(sock: socket.socket) -> bool:
    """Whether the other side hung up."""
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_newcomer_becomes_a_link_with_a_ticket(loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing)
    client = made.knock("127.0.0.9")
    loop.until(lambda: bool(made.links))
    [(link, ticket)] = made.links
    assert str(link.info.remote) == f"tcp/127.0.0.9:{client.getsockname()[1]}"
    assert ticket.source == "127.0.0.9"
    assert ticket.pending
    ticket.settle()
    ticket.settle()
    assert len(made.admission) == 0


def test_silent_connections_push_out_their_own_kind_first(loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing, accept_pending_per_address_count=8, accept_pending_count=20)
    honest = made.knock("127.0.0.2")
    loop.until(lambda: len(made.links) == 1)
    silent = [made.knock("127.0.0.1") for _ in range(100)]
    loop.until(lambda: len(made.links) == 101)
    assert len(made.admission) == 9
    assert not gone(honest)
    loop.until(lambda: all(gone(sock) for sock in silent[:92]))
    assert not any(gone(sock) for sock in silent[92:])
    late = made.knock("127.0.0.1")  # from the very address: let in, the oldest goes
    loop.until(lambda: len(made.links) == 102)
    loop.until(lambda: gone(silent[92]))
    assert not gone(late)


def test_many_addresses_push_out_the_oldest_of_all(loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing, accept_pending_per_address_count=8, accept_pending_count=20)
    crowd = [made.knock(f"127.0.1.{number}") for number in range(1, 31)]
    loop.until(lambda: len(made.links) == 30)
    assert len(made.admission) == 20
    assert made.admission.stats.refusals[Refusal.HANDSHAKE] == 10
    loop.until(lambda: all(gone(sock) for sock in crowd[:10]))
    assert not any(gone(sock) for sock in crowd[10:])


def test_who_is_through_does_not_count_and_cannot_be_pushed_out(
    loop: Loop, closing: ExitStack
) -> None:
    made = door(loop, closing, accept_pending_per_address_count=2)
    for _ in range(10):
        made.knock()
        loop.until(lambda: len(made.admission) == 1)
        made.links[-1][1].settle()
    assert len(made.links) == 10
    assert made.admission.stats.refusals[Refusal.HANDSHAKE] == 0


@pytest.mark.parametrize("case", [TCP, TLS], ids=str)
def test_a_handshake_has_its_time_in_all(case: Case, loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing, case, accept_handshake_ns=20_000_000)
    client = made.knock()
    loop.until(lambda: gone(client))
    assert len(made.admission) == 0
    if case is TLS:  # it never became a link
        loop.until(lambda: bool(made.failures))
        [(who, why)] = made.failures
        assert who == "127.0.0.1"
        assert "longer than 0.02 s" in why


def test_a_dribbling_tls_client_does_not_hold_up_another(loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing, TLS)
    slow = [made.knock() for _ in range(5)]
    for sock in slow:
        sock.send(b"\x16")
    rig = Rig(TLS, None)  # type: ignore[arg-type]  # its listener is not used
    closing.callback(rig.close)
    dialled = rig.dial(made.listener)
    near: list[Link] = []

    def step() -> bool:
        link = dialled.step() if not near else near[0]
        if link is not None:
            near[:] = [link]
        return bool(near) and bool(made.links)

    loop.until(step)
    rig.closing.append(near[0])
    assert len(made.links) == 1
    assert len(made.admission) == 6


def test_a_failed_handshake_is_told_and_settled(loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing, TLS)
    made.knock().send(b"GET / HTTP/1.1\r\n\r\n")
    loop.until(lambda: bool(made.failures))
    assert "HTTP" in made.failures[0][1]
    assert len(made.admission) == 0


class Exhausted(PlainListener):
    """A listener in a process that has no descriptors left, for a while."""

    def __init__(self) -> None:
        self.locator = Locator("tcp/127.0.0.1:1")
        self.asked = 0
        self.near, self.far = socket.socketpair()
        self.far.send(b"x")

    def fileno(self) -> int:
        return self.near.fileno()

    def accept(self) -> PendingLink | None:
        self.asked += 1
        if self.asked < 3:
            error = OSError(errno.EMFILE, "Too many open files")
            raise link_error("accept on tcp/127.0.0.1:1", error) from error
        self.near.recv(1)
        return None

    def close(self) -> None:
        self.near.close()
        self.far.close()

    def abort(self) -> None:
        self.close()


def test_without_descriptors_the_loop_rests_and_looks_again(
    loop: Loop, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elea.link.accept._RECOVERY_NS", 1_000_000)
    listener = Exhausted()
    made = Door(loop, listener, Limits(), closing)
    loop.until(lambda: listener.asked >= 3)
    assert [why.split(": ")[-1] for _, why in made.failures] == [
        "this process has too many open; raise `ulimit -n`"
    ] * 2


def test_closing_ends_the_handshakes_but_not_the_links(loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing, TLS)
    half = made.knock()
    loop.until(lambda: len(made.admission) == 1)
    plain = door(loop, closing)
    whole = plain.knock()
    loop.until(lambda: bool(plain.links))
    for one in (made, plain):
        loop.run(one.accepting.close)
        loop.run(one.accepting.close)
    loop.until(lambda: gone(half))
    assert not gone(whole)
    assert "listener was closed" in made.failures[0][1]
    with pytest.raises(ConnectionRefusedError):
        plain.knock()


def test_a_child_process_gives_the_listener_up_in_silence(loop: Loop, closing: ExitStack) -> None:
    made = door(loop, closing, TLS)
    made.knock()
    loop.until(lambda: len(made.admission) == 1)
    loop.run(made.accepting.abort)
    assert made.listener.fileno() == -1
    assert made.failures == []


# UDP: one socket for all.


def udp_door(loop: Loop, closing: ExitStack, **limits: int) -> tuple[Door, UdpListener]:
    settings = LinkSettings(limits=Limits(**limits))
    listener = Udp().listen(
        Endpoint.parse("udp/127.0.0.1:0"), Address.of_ip("127.0.0.1", 0), settings
    )
    return Door(loop, listener, settings.limits, closing), listener


def speak(made: Door, closing: ExitStack, *datagrams: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    closing.callback(sock.close)
    for data in datagrams:
        sock.sendto(data, made.place)
    return sock


def test_strangers_that_begin_nothing_leave_nothing(loop: Loop, closing: ExitStack) -> None:
    made, listener = udp_door(loop, closing)
    nonsense = [b"", b"x", b"\x01", INIT_SYN[:3], b"\x04" + INIT_SYN[1:], b"\x21" + INIT_SYN[1:]]
    speak(made, closing, *nonsense)
    loop.until(lambda: listener.refused_count == len(nonsense))
    assert made.links == []
    speak(made, closing, b"junk", INIT_SYN, b"then anything")
    loop.until(lambda: len(made.links) == 1)
    link = made.links[0][0]
    got: list[bytes] = []

    def heard() -> bool:
        data = link.read(1)
        got.extend([data] if data else [])
        return len(got) == 2

    loop.until(heard)
    assert got == [INIT_SYN, b"then anything"]


def test_the_table_of_sources_is_bounded(loop: Loop, closing: ExitStack) -> None:
    made, listener = udp_door(loop, closing, udp_sources_count=3)
    for _ in range(5):
        speak(made, closing, INIT_SYN)
    loop.until(lambda: listener.refused_count == 2)
    assert len(made.links) == 3
    loop.run(made.links[0][0].close)
    speak(made, closing, INIT_SYN)  # room again
    loop.until(lambda: len(made.links) == 4)


def test_an_inbox_that_nobody_reads_is_bounded(loop: Loop, closing: ExitStack) -> None:
    made, _ = udp_door(loop, closing, udp_inbox_len=2_000)
    sender = speak(made, closing, INIT_SYN)
    loop.until(lambda: bool(made.links))
    link = made.links[0][0]
    assert isinstance(link, UdpSourceLink)
    for _ in range(10):
        sender.sendto(bytes(900), made.place)
    loop.until(lambda: link.dropped_count == 8)
    assert [len(link.read(1) or b"") for _ in range(4)] == [len(INIT_SYN), 900, 900, 0]


def test_the_links_of_a_listener_end_with_it(loop: Loop, closing: ExitStack) -> None:
    made, _ = udp_door(loop, closing)
    speak(made, closing, INIT_SYN)
    loop.until(lambda: bool(made.links))
    link = made.links[0][0]
    loop.run(made.accepting.close)
    assert link.read(1) == INIT_SYN
    assert link.read(1) == b""
    with pytest.raises(LinkError, match="closed"):
        link.write([b"x"])


def test_a_full_socket_is_watched_until_it_can_be_written(loop: Loop, closing: ExitStack) -> None:
    made, listener = udp_door(loop, closing)
    speak(made, closing, INIT_SYN)
    loop.until(lambda: bool(made.links))
    link = made.links[0][0]
    assert isinstance(link, UdpSourceLink)
    writable: list[bool] = []
    link.attach(lambda: None, lambda: writable.append(True))
    real = listener._socket

    class Full:
        """The kernel's buffer has no room, once."""

        def sendto(self, data: bytes, address: object) -> int:
            listener._socket = real
            raise BlockingIOError

    listener._socket = Full()  # type: ignore[assignment]
    seen: list[tuple[int, int]] = []
    # On the loop: a thread of its own would see to it before it is looked at.
    loop.run(lambda: seen.append((link.write([b"x"]), listener.wants())))
    assert seen == [(0, READ | WRITE)]
    loop.until(lambda: writable == [True])
    assert listener.wants() == READ
