"""Newcomers at a TCP listener are told apart by their first two octets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from elea.errors import LinkError
from elea.link.base import READ
from elea.link.guests import GuestError, Sorting, is_guest
from elea.link.settings import LinkSettings
from elea.link.stream import StreamLink
from elea.link.tcp import Tcp
from elea.locator import Endpoint


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    one.setblocking(False)
    with one, other:
        yield one, other


@pytest.mark.parametrize(
    ("first", "guest"),
    [
        (b"\x1a\x00", False),  # a batch of 26 octets
        (b"\xff\x00", False),
        (b"\x02\x01", True),  # a frame of 2 octets with a Scout
        (b"\x08\x03", True),  # an Open
        (b"\x90\x03", True),  # a frame of 400 octets
        (b"\x00\x03", True),  # messages without lengths
        (b"\x00\x00", True),
    ],
)
def test_two_octets_decide(first: bytes, guest: bool) -> None:
    assert is_guest(first) is guest


def test_nothing_is_taken_from_the_stream(ends: tuple[socket.socket, socket.socket]) -> None:
    sock, other = ends
    taken: list[str] = []
    sorting = Sorting(sock, "here", lambda _sock, source: taken.append(source), lambda: None)  # type: ignore[arg-type, return-value]
    assert sorting.wants() == READ
    assert sorting.fileno() == sock.fileno()
    assert sorting.step() is None
    other.send(b"\x02")
    assert sorting.step() is None
    other.send(b"\x01")
    with pytest.raises(GuestError, match="here does not speak Zenoh") as guest:
        sorting.step()
    guest.value.take()
    assert taken == ["here"]
    assert sock.recv(10) == b"\x02\x01"


def test_who_says_nothing_and_goes(ends: tuple[socket.socket, socket.socket]) -> None:
    sock, other = ends
    sorting = Sorting(sock, "here", lambda _sock, _source: None, lambda: None)  # type: ignore[arg-type, return-value]
    other.close()
    with pytest.raises(LinkError, match="went before it said anything"):
        sorting.step()
    sorting.close()
    assert sock.fileno() == -1


@pytest.mark.parametrize("shared", [False, True])
def test_a_listener_without_guests_waits_for_nobody(shared: bool) -> None:
    endpoint = Endpoint.parse("tcp/127.0.0.1:0")
    [address] = Tcp().resolve(endpoint, listening=True)
    listener = Tcp().listen(endpoint, address, LinkSettings())
    if shared:
        listener.guests.take = lambda sock, _source: sock.close()
    port = listener.locator.host_port()[1]
    with socket.create_connection(("127.0.0.1", port)) as client:
        pending = None
        while pending is None:
            pending = listener.accept()
        link = pending.step()
        assert (link is None) is shared
        client.send(b"\x05\x00")
        while link is None:
            link = pending.step()
        assert isinstance(link, StreamLink)
        link.close()
    listener.close()
