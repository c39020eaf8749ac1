"""memory: listeners by name, within one process."""

from __future__ import annotations

import pytest

from elea.errors import LinkError
from elea.link import memory
from elea.link.base import PendingLink
from elea.link.memory import Memory, MemoryListener
from elea.link.settings import LinkSettings
from elea.locator import Endpoint


def connect(name: str) -> PendingLink:
    endpoint = Endpoint.parse(f"memory/{name}")
    [address] = Memory().resolve(endpoint, listening=False)
    return Memory().connect(endpoint, address, LinkSettings())


def test_a_name_is_taken_once_and_free_again_after() -> None:
    first = MemoryListener("name")
    with pytest.raises(LinkError, match="the name is taken"):
        MemoryListener("name")
    first.close()
    first.close()
    MemoryListener("name").close()


def test_nobody_of_that_name() -> None:
    with pytest.raises(LinkError, match="no listener of that name in this process"):
        connect("nobody")


def test_the_queue_of_a_listener_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_WAITING_COUNT_MAX", 2)
    listener = MemoryListener("busy")
    waiting = [connect("busy") for _ in range(2)]
    with pytest.raises(LinkError, match="it takes no more"):
        connect("busy")
    listener.close()
    for pending in waiting:  # those that nobody took see the end
        link = pending.step()
        assert link is not None
        assert link.read(1) == b""
        link.close()
