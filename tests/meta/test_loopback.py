"""What keeps multicast of tests on this host does so."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from tests import loopback

import elea

GROUP = socket.inet_aton("224.0.0.225")
FAR = socket.inet_aton("192.0.2.2")


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        yield made
    loopback.LEAKS.clear()  # which were meant


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (socket.IP_ADD_MEMBERSHIP, GROUP + bytes(4)),
        (socket.IP_ADD_MEMBERSHIP, GROUP + FAR),
        (socket.IP_ADD_MEMBERSHIP, GROUP + bytes(4) + struct.pack("@i", 99)),
        (socket.IP_MULTICAST_IF, FAR),
        (socket.IP_MULTICAST_IF, bytes(4) + FAR + struct.pack("@i", 0)),
    ],
)
def test_no_other_interface_can_be_chosen(option: int, value: bytes, sock: socket.socket) -> None:
    with pytest.raises(loopback.LeakError):
        sock.setsockopt(socket.IPPROTO_IP, option, value)
    assert len(loopback.LEAKS) == 1


def test_nothing_is_sent_where_the_system_chooses(sock: socket.socket) -> None:
    with pytest.raises(loopback.LeakError):
        sock.sendto(b"x", ("224.0.0.225", 7446))


def test_sessions_of_tests_look_for_nobody() -> None:
    with elea.open({"listen": {"endpoints": []}}) as session:
        assert session.info.transports() == []
