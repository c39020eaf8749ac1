"""A storage on a session: its line, its order, its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.unit.cli.ends import WAIT_S, eventually

import elea
from elea.limits import Limits
from elea.store.backend import Backend, StorageConfig, Stored
from elea.store.backends.memory import MemoryBackend
from elea.store.service import StorageService
from elea.store.storage import Storage
from elea.store.testing import at, value
from elea.timestamp import NTP64, Timestamp

CONFIG = StorageConfig("demo", "demo/**", "memory")
ALONE = {
    "mode": "router",
    "listen": {"endpoints": []},
    "scouting": {"multicast": {"enabled": False}},
}


@pytest.fixture
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


@contextmanager
def service(
    session: elea.Session,
    backend: Backend,
    *,
    config: StorageConfig = CONFIG,
    limits: Limits | None = None,
) -> Iterator[StorageService]:
    made = StorageService(session, config, Storage(backend), limits=limits or Limits())
    try:
        yield made
    finally:
        made.stop()


def texts(session: elea.Session, selector: str = "demo/**") -> dict[str, str]:
    found = [one.ok for one in session.get(selector, timeout=WAIT_S)]
    return {str(one.key_expr): one.payload.to_string() for one in found if one is not None}


class Slow(MemoryBackend):
    """A backend that waits for a word before each put."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.is_busy = threading.Event()
        self.is_closed = False

    def put(self, key: str, value: Stored) -> None:
        self.is_busy.set()
        assert self.goes_on.wait(WAIT_S)
        super().put(key, value)

    def close(self) -> None:
        self.is_closed = True


def test_samples_of_the_own_session_are_kept_with_a_timestamp(session: elea.Session) -> None:
    with service(session, MemoryBackend()) as made:
        session.put("demo/a", "1")
        [reply] = session.get("demo/a", timeout=WAIT_S)
        assert reply.ok is not None
        assert reply.ok.timestamp is not None
        assert reply.ok.timestamp.get_id() == session.zid()
        assert made.counts.puts == 1


def test_a_query_sees_what_was_put_before_it(session: elea.Session) -> None:
    with service(session, MemoryBackend()):
        for number in range(200):
            session.put("demo/a", str(number))
            assert texts(session) == {"demo/a": str(number)}


def test_a_deletion_without_timestamp_is_between_what_came_before_and_after(
    session: elea.Session,
) -> None:
    with service(session, MemoryBackend()):
        for number in range(200):
            session.put("demo/a", str(number))
            session.delete("demo/a" if number % 2 else "demo/*")
            if number % 3:
                session.put("demo/a", "again")
            assert texts(session) == ({"demo/a": "again"} if number % 3 else {})


def test_a_deletion_takes_what_is_a_little_ahead(session: elea.Session) -> None:
    """A neighbour's clock may be ahead, by less than what is not believed."""
    ahead = session.new_timestamp().time.value + (1 << 30)  # a quarter of a second
    with service(session, MemoryBackend()):
        session.put("demo/a", "1", timestamp=Timestamp(NTP64.from_value(ahead), session.zid()))
        session.delete("demo/a")
        assert texts(session) == {}


def test_what_does_not_fit_the_line_is_refused_and_counted(session: elea.Session) -> None:
    backend = Slow()
    limits = Limits(storage_queue_len=5 * (512 + 1_000))  # five samples; then not even a query
    with service(session, backend, limits=limits) as made:
        session.put("demo/first", bytes(1_000))
        assert backend.is_busy.wait(WAIT_S)
        for number in range(100):
            session.put(f"demo/{number}", bytes(1_000))
        assert made.counts.dropped == 95
        [reply] = session.get("demo/0", timeout=WAIT_S)
        assert reply.err is not None
        assert reply.err.payload.to_string() == "storage demo is behind, ask again later"
        backend.goes_on.set()
        assert eventually(lambda: "demo/0" in texts(session))
        session.put("demo/more", "1")
        assert texts(session, "demo/more") == {"demo/more": "1"}


def test_what_has_come_is_kept_at_the_end(session: elea.Session) -> None:
    backend = Slow()
    with service(session, backend):
        for number in range(50):
            session.put(f"demo/{number}", "1")
        threading.Timer(0.05, backend.goes_on.set).start()
    assert backend.is_closed
    assert len(list(backend.entries())) == 50
    assert texts(session) == {}  # nobody answers any more


def test_marks_are_collected(session: elea.Session) -> None:
    config = replace(CONFIG, gc_period_ns=1, gc_lifespan_ns=0)
    with service(session, MemoryBackend(), config=config) as made:
        session.delete("demo/a", timestamp=at(1))
        assert eventually(lambda: made.counts.deletes == 1 and made.status()["marks"] == 0)


def test_what_cannot_be_synchronised_is_told_and_read_again(
    session: elea.Session, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(MemoryBackend):
        def flush(self) -> None:
            self._values.clear()
            raise OSError("no space")

    with service(session, Forgetful()) as made:
        session.put("demo/a", "1")
        assert texts(session) == {}
        status = made.status()
        assert status["keys"] == 0
        assert status["last_error"] is not None
    assert "synchronise: no space" in caplog.text


def test_it_ends_although_the_session_went_first() -> None:
    backend = MemoryBackend()
    backend.put("demo/a", value("1", 1))
    with elea.open(ALONE) as session:
        made = StorageService(session, CONFIG, Storage(backend))
    made.stop()
