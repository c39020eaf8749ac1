"""unixsock-stream: what is particular about paths."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from elea.errors import LinkError
from elea.link.address import Address
from elea.link.settings import LinkSettings
from elea.link.unix import UnixListener, UnixStream
from elea.locator import Endpoint


def listen(path: Path) -> UnixListener:
    endpoint = Endpoint.parse(f"unixsock-stream/{path}")
    return UnixStream().listen(endpoint, Address(socket.AF_UNIX, str(path)), LinkSettings())


def test_the_path_goes_with_the_listener(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = listen(path)
    assert path.is_socket()
    listener.close()
    listener.close()
    assert not path.exists()


def test_a_path_left_by_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listen(path).close()


def test_a_path_in_use_is_not_taken_over(tmp_path: Path) -> None:
    listener = listen(tmp_path / "s")
    with pytest.raises(LinkError, match="EADDRINUSE"):
        listen(tmp_path / "s")
    listener.close()


def test_a_file_is_not_taken_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(LinkError, match="EADDRINUSE"):
        listen(path)
    assert path.read_text() == "data"


def test_somebody_elses_socket_at_the_path_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = listen(path)
    os.unlink(path)
    second = listen(path)
    first.close()
    assert path.is_socket()
    second.close()


def test_a_forked_child_leaves_the_path_to_its_parent(tmp_path: Path) -> None:
    listener = listen(tmp_path / "s")
    listener.abort()
    assert (tmp_path / "s").is_socket()


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="no such path"):
        listen(tmp_path / "nowhere" / "s")


def test_a_listener_whose_queue_is_full_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s"
    endpoint = Endpoint.parse(f"unixsock-stream/{path}")
    scheme = UnixStream()
    made = []
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with pytest.raises(LinkError, match=r"EAGAIN.*queue is full"):  # noqa: PT012
            for _ in range(10):
                [address] = scheme.resolve(endpoint, listening=False)
                made.append(scheme.connect(endpoint, address, LinkSettings()))
    for pending in made:
        pending.close()
