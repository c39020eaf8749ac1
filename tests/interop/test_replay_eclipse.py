"""What Elea replays, received and controlled by Eclipse Zenoh."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zenoh
from tests.interop.ends import ECLIPSE, ELEA, Taken, _replies, alive, eventually, pair, word
from tests.unit.store.samples import CLOCK, EPOCH, log_of, row

from elea.qos import CongestionControl, Priority, QoS
from elea.store.replay import Replay, ReplaySettings

line = pytest.mark.line
ID = "drive"


class Heard(Taken):
    """What a subscriber receives, but for what was only put to see whether it does."""

    PROBE = b"probe"

    def __init__(self) -> None:
        super().__init__()
        self.listens = False

    def __call__(self, item: Any) -> None:
        if bytes(item.payload) == self.PROBE:
            self.listens = True
        else:
            super().__call__(item)


def heard(ours: Any, theirs: Any, key: str) -> Heard:
    """What an Eclipse subscriber receives, once it is known to receive something."""
    got = Heard()
    theirs.declare_subscriber(key, got)

    def probe() -> bool:
        ours.put(key.replace("**", "probe"), Heard.PROBE)
        return eventually(lambda: got.listens, 0.1)

    assert eventually(probe)
    return got


@line("R280")
@pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
def test_samples_come_as_they_were_recorded(listener: str, tmp_path: Path) -> None:
    qos = QoS(Priority.REAL_TIME, CongestionControl.BLOCK, express=True).to_octet()
    first = row("fleet/1", 0, b"{}", encoding="application/json", attachment=b"more", qos=qos)
    many = [row(f"fleet/{at % 9}", at, b"%d" % at) for at in range(1, 3_000)]
    log_of(tmp_path, [first], many, [row("fleet/1", 3_000, kind=1)], shards_count=3)
    with pair(listener) as (ours, theirs):
        got = heard(ours, theirs, "sim/**")
        rules = ReplaySettings(speed=0, rewrite=["fleet/{x}=sim/{x}"])
        with Replay(ours, tmp_path, rules) as replay:
            assert replay.wait(60)
        assert got.reach(3_001)
    samples = got.items
    assert [bytes(one.payload) for one in samples[1:-1]] == [b"%d" % at for at in range(1, 3_000)]
    assert (str(samples[0].key_expr), str(samples[0].encoding)) == ("sim/1", "application/json")
    assert bytes(samples[0].attachment) == b"more"
    assert word(samples[0].priority) == "REAL_TIME"
    assert samples[0].express
    assert word(samples[-1].kind) == "DELETE"
    for number in (0, 1, 2_999, 3_000):
        stamp = samples[number].timestamp
        assert stamp.get_time() == EPOCH + timedelta(milliseconds=number)
        assert str(stamp.get_id()) == CLOCK


def asked(theirs: Any, verb: str, value: str | None = None) -> dict[str, Any]:
    """What a replay answers; asked again if an Eclipse query ends before its answer."""
    found: list[dict[str, Any]] = []

    def ask() -> bool:
        key = f"@elea/replay/{ID}/{verb}"
        for reply in _replies(theirs, key if value is None else f"{key}?value={value}"):
            told = reply.ok if reply.ok is not None else reply.err
            found.append(json.loads(told.payload.to_bytes()))
        return bool(found)

    assert eventually(ask)
    return found[-1]


@line("R281")
def test_a_replay_is_controlled_by_an_eclipse_client(tmp_path: Path) -> None:
    log_of(tmp_path, [row("k", at * 1_000, b"%d" % at) for at in range(60)])
    with pair(ELEA, mode="client") as (ours, theirs):
        got = heard(ours, theirs, "k")
        with Replay(ours, tmp_path, ReplaySettings(speed=0.001), id=ID) as replay:
            assert alive(theirs, "@elea/replay/*", [f"@elea/replay/{ID}"])
            assert got.reach(1)
            assert asked(theirs, "status")["state"] == "playing"
            assert asked(theirs, "pause")["state"] == "paused"
            assert asked(theirs, "speed", "none")["error"] == "invalid"
            assert asked(theirs, "seek", "end-9s")["position"].startswith("2023-11-14T22:14:10")
            _until(theirs, "speed", "0", lambda: replay.status()["speed"] == 0)
            _until(theirs, "resume", "", lambda: replay.wait(0))
            assert got.reach(11)
    assert [int(bytes(one.payload)) for one in got.items] == [0, *range(50, 60)]


def _until(theirs: Any, verb: str, value: str, done: Callable[[], object]) -> None:
    """Put a command, as a client does that wants no answer, until it was taken."""
    publisher = theirs.declare_publisher(f"@elea/replay/{ID}/{verb}")

    def put() -> bool:
        publisher.put(value)
        return eventually(done, 0.5)

    assert eventually(put)
    assert isinstance(publisher, zenoh.Publisher)
