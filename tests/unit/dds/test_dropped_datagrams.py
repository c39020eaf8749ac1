"""Datagrams that found no room in a socket are counted."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from elea.dds.dropped_datagrams import dropped_datagrams, own_sockets

line = pytest.mark.line


@line("D-832")
def test_datagrams_beyond_the_buffer_of_a_socket_are_counted() -> None:
    before = own_sockets()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as full,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        full.bind(("127.0.0.1", 0))
        mine = own_sockets() - before
        assert len(mine) == 2
        assert dropped_datagrams(mine) == 0
        for _ in range(100):
            sender.sendto(bytes(1_000), full.getsockname())
        full.setblocking(False)
        kept = 0
        with suppress(BlockingIOError):
            while full.recv(2_000):
                kept += 1
        assert kept + dropped_datagrams(mine) == 100
