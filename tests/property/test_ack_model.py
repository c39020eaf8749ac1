"""Acknowledged puts with a spool against a model: any schedule of recorders that come, go, crash,
lose answers or do not hear, and of clients that restart and crash."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.session.small_recorder import CONNECT, LISTEN, SmallRecorder, stored

import elea
from elea.errors import StoreError
from elea.session.session import Session
from elea.session.spool import Spool
from elea.session.spool_log import LogShelf
from elea.sim.world import World

KEYS = ("fleet/1", "fleet/2")
STEPS = (
    *("put", "put", "put", "put", "begin", "end", "crash recorder", "lose answers", "deafen"),
    *("refuse", "restart", "crash client", "part", "pass time", "a moment"),
)


class Play:
    """A client that puts, and a recorder, as a schedule has it."""

    def __init__(self, world: World, place: Path, *, live: bool, on_disk: bool) -> None:
        self.world = world
        self.place = place
        self.live = live
        self.on_disk = on_disk
        self.acknowledged: list[tuple[str, str]] = []
        self.attempted: list[tuple[str, str]] = []
        self.recorder: SmallRecorder | None = None
        self.node = self._open_node()
        self.session, self.spool = self._open_client()

    def _open_node(self) -> Session:
        with self.world.process("recorder"):
            return elea.open(LISTEN)

    def _open_client(self) -> tuple[Session, Spool]:
        with self.world.process("client"):
            session = elea.open(CONNECT)
        place = self.place / "spool" if self.on_disk else None
        return session, session.declare_spool(place, live=self.live)

    def step(self, name: str) -> None:
        getattr(self, name.replace(" ", "_"))()

    def put(self) -> None:
        count = len(self.attempted)
        key, payload = KEYS[count % 2], str(count)
        self.attempted.append((key, payload))
        try:
            self.session.put(key, payload, ack="stored", timeout=2)
        except StoreError:
            return
        self.acknowledged.append((key, payload))

    def begin(self) -> None:
        if self.recorder is None:
            if self.live:  # what is on its way to subscribers then may be stored first
                self.world.sleep(0.5)
            self.recorder = SmallRecorder(self.node, self.place / "log")
            if self.live:
                self.world.sleep(0.5)

    def end(self) -> None:
        if self.recorder is not None:
            self.recorder.close()
            self.recorder = None

    def crash_recorder(self) -> None:
        self.world.crash("recorder", silent=False)
        if self.recorder is not None:
            self.recorder.crash()
            self.recorder = None
        self.node = self._open_node()

    def lose_answers(self) -> None:
        if self.recorder is not None:
            self.recorder.lost_count = 3

    def deafen(self) -> None:
        if self.recorder is not None:
            self.recorder.is_deaf = not self.recorder.is_deaf

    def refuse(self) -> None:
        if self.recorder is not None:
            self.recorder.refusal, self.recorder.refusals_count = "full", 2

    def part(self) -> None:
        self.world.network.part("client", "recorder")
        self.put()
        self.world.network.heal()

    def restart(self) -> None:
        if self.on_disk:
            self.session.close()
            self.session, self.spool = self._open_client()

    def crash_client(self) -> None:
        if self.on_disk:
            shelf = self.spool._shelf
            assert isinstance(shelf, LogShelf)
            shelf._write_down = lambda first: None  # type: ignore[method-assign]
            shelf._log.close()  # the lock of a process goes with it
            self.world.crash("client")
            self.session, self.spool = self._open_client()

    def pass_time(self) -> None:
        self.world.sleep(40)

    def a_moment(self) -> None:
        self.world.sleep(0.05)

    def finish(self) -> list[tuple[str, str]]:
        self.begin()
        assert self.recorder is not None
        self.recorder.refusal, self.recorder.lost_count = None, 0
        self.put()
        assert self.spool.drain(600), self.spool.stats()
        self.session.close()
        self.recorder.close()
        return [(row.key, row.payload) for row in stored(self.place / "log")]


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("live", [False, True], ids=["strict", "live"])
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(schedule=st.lists(st.sampled_from(STEPS), max_size=25), seed=st.integers(0, 100))
def test_acknowledged_is_stored_once_and_in_order(
    live: bool, on_disk: bool, schedule: list[str], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as directory, World(seed) as world:
        play = Play(world, Path(directory), live=live, on_disk=on_disk)
        for name in schedule:
            play.step(name)
        found = play.finish()
        assert len(found) == len(set(found)), "twice"
        assert set(play.acknowledged) <= set(found), "lost"
        assert set(found) <= set(play.attempted)
        for key in KEYS:
            order = [int(payload) for one, payload in found if one == key]
            acknowledged = {int(payload) for one, payload in play.acknowledged if one == key}
            assert [n for n in order if n in acknowledged] == sorted(acknowledged)
