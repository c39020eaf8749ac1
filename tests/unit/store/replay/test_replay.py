"""A replay on a session: what is published, and commands by calls and by keys."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.store.samples import CLOCK, EPOCH, log_of, row, rows_of

import elea
from elea.errors import ClosedError, EleaError, InvalidValueError, StoreError
from elea.qos import QoS
from elea.store.log.segment import DATA, stem_of
from elea.store.replay import Replay, ReplaySettings, State

ALONE = {"mode": "peer", "listen": {"endpoints": []}, "scouting": {"multicast": {"enabled": False}}}
FAST = ReplaySettings(speed=0)


@pytest.fixture(scope="module")
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


class Heard:
    """What a subscriber received while it was there."""

    def __init__(self, session: elea.Session, key: str = "**") -> None:
        self.samples: list[elea.Sample] = []
        self._subscriber = session.declare_subscriber(key, self.samples.append)

    def __enter__(self) -> list[elea.Sample]:
        return self.samples

    def __exit__(self, *_: object) -> None:
        self._subscriber.undeclare()


def replayed(session: elea.Session, path: Path, settings: ReplaySettings = FAST) -> list[Any]:
    """The samples of a replay that went to its end."""
    with Heard(session) as samples, Replay(session, path, settings) as replay:
        assert replay.wait(WAIT_S)
        assert eventually(lambda: len(samples) == replay.published_count)
    return samples


def minute(path: Path) -> Path:
    """A row each second of a minute."""
    return log_of(path, [row(f"k/{at % 3}", 1_000 * at, b"%d" % at) for at in range(60)])


def test_samples_are_what_they_were(session: elea.Session, tmp_path: Path) -> None:
    qos = QoS(elea.Priority.REAL_TIME, elea.CongestionControl.BLOCK, True).to_octet()
    log_of(
        tmp_path,
        [
            row("a", 1, b"one", encoding="application/json;x", attachment=b"\x00", qos=qos),
            row("a", 2, kind=1),
            row("a", 3, b"2", kind=2),  # a gap: nothing that was ever published
            row("b", 4, b"\xff", hlc=None, hlc_id=None, ts=None),
            row("b", 5, hlc_id=None),
        ],
    )
    first, gone, unstamped, anonymous = replayed(session, tmp_path)
    assert (str(first.key_expr), first.payload.to_bytes()) == ("a", b"one")
    assert str(first.encoding) == "application/json;x"
    assert first.attachment.to_bytes() == b"\x00"
    assert first.priority is elea.Priority.REAL_TIME
    assert (first.congestion_control, first.express) == (elea.CongestionControl.BLOCK, True)
    assert first.timestamp.get_time() == EPOCH + timedelta(milliseconds=1)
    assert str(first.timestamp.get_id()) == CLOCK
    assert gone.kind is elea.SampleKind.DELETE
    assert unstamped.timestamp is None
    assert anonymous.timestamp.get_id() == session.zid()
    assert [one.source_info for one in (first, gone, unstamped)] == [None] * 3


def test_timestamps_of_now(session: elea.Session, tmp_path: Path) -> None:
    log_of(tmp_path, [row("a", 1)])
    settings = ReplaySettings(speed=0, timestamps="now")
    with elea.open({**ALONE, "timestamping": {"enabled": True}}) as stamping:
        [sample] = replayed(stamping, tmp_path, settings)
        assert sample.timestamp.get_id() == stamping.zid()
        assert sample.timestamp.get_time() > EPOCH
    [sample] = replayed(session, tmp_path, settings)
    assert sample.timestamp is None


def test_several_logs_in_the_order_of_time(session: elea.Session, tmp_path: Path) -> None:
    log_of(tmp_path / "a", [row("a/x", at, b"%d" % at) for at in range(0, 100, 2)], shards_count=3)
    log_of(tmp_path / "b", [row("b/x", at, b"%d" % at) for at in range(1, 100, 2)])
    settings = ReplaySettings(["a/*", "b/x"], speed=0, rewrite=["a/{x}=sim/{x}"])
    with (
        Heard(session) as samples,
        Replay(session, [tmp_path / "a", tmp_path / "b"], settings) as replay,
    ):
        assert replay.wait(WAIT_S)
        assert eventually(lambda: len(samples) == 100)
    assert [one.payload.to_bytes() for one in samples] == [b"%d" % at for at in range(100)]
    assert {str(one.key_expr) for one in samples} == {"sim/x", "b/x"}


@given(
    seeks=st.lists(st.integers(-5, 65), max_size=4),
    start=st.integers(0, 30),
    end=st.integers(30, 59),
    keys=st.sampled_from(["**", "k/1", "k/*"]),
)
@settings(max_examples=25, deadline=None)
def test_after_a_seek_comes_what_a_model_says(
    seeks: list[int], start: int, end: int, keys: str
) -> None:
    """Paused and sent here and there: what is played then is the rest from the last place on."""
    chosen = ReplaySettings([keys], f"start+{start}s", f"end-{59 - end}s", speed=0)
    with tempfile.TemporaryDirectory() as root, elea.open(ALONE) as session:
        path = minute(Path(root))
        with Heard(session) as samples:
            replay = Replay(session, path, chosen)
            replay.pause()
            with replay:
                for at in seeks:
                    replay.seek(f"start{at:+}s" if at >= 0 else f"end{at - 60}s")
                assert replay.state is State.PAUSED
                assert replay.published_count == 0
                replay.resume()
                assert replay.wait(WAIT_S)
                assert eventually(lambda: len(samples) == replay.published_count)
    first = max(seeks[-1], 0) if seeks else start
    wanted = [at for at in range(first, end + 1) if keys != "k/1" or at % 3 == 1]
    assert [int(one.payload.to_bytes()) for one in samples] == wanted


def test_commands_by_keys(session: elea.Session, tmp_path: Path) -> None:
    replay = Replay(session, minute(tmp_path), ReplaySettings(speed=0.001), id="drive-1")
    prefix = "@elea/replay/drive-1"

    def ask(verb: str, value: str | None = None) -> Any:
        [reply] = session.get(f"{prefix}/{verb}", payload=value, timeout=WAIT_S)
        told: Any = reply.ok or reply.err
        return json.loads(told.payload.to_string())

    with Heard(session, "k/*") as samples, replay:
        [token] = session.liveliness().get("@elea/replay/*", timeout=WAIT_S)
        assert token.ok is not None
        assert str(token.ok.key_expr) == prefix
        assert eventually(lambda: replay.published_count == 1)
        assert ask("status")["state"] == "playing"
        assert ask("pause")["state"] == "paused"
        assert ask("speed", "0")["speed"] == 0
        assert ask("seek", "start+30s")["position"].startswith("2023-11-14T22:13:50.0")
        assert ask("speed", "fast")["error"] == "invalid"
        assert "legal are pause, resume, seek, speed, stop" in ask("jump")["detail"]
        assert "no UTF-8" in _refused(session, f"{prefix}/seek", b"\xff")
        assert "saw 300 octets" in _refused(session, f"{prefix}/seek", bytes(300))
        told = ask("*")
        assert (told["refused_commands"], told["published"]) == (4, 1)
        [reply] = session.get(f"{prefix}/seek?value=start%2B40s", timeout=WAIT_S)
        assert reply.err is not None  # parameters are not decoded
        session.put(f"{prefix}/seek", "nowhere")
        session.delete(f"{prefix}/stop")
        assert eventually(lambda: ask("status")["refused_commands"] == 6)
        session.put(f"{prefix}/seek", "start+50s")
        session.put(f"{prefix}/resume", "")
        assert replay.wait(WAIT_S)
        assert eventually(lambda: len(samples) == 11)
        assert ask("status")["state"] == "ended"
    assert [int(one.payload.to_bytes()) for one in samples] == [0, *range(50, 60)]
    assert not list(session.get(f"{prefix}/status", timeout=WAIT_S))


def _refused(session: elea.Session, key: str, payload: bytes) -> str:
    [reply] = session.get(key, payload=payload, timeout=WAIT_S)
    assert reply.err is not None
    return str(json.loads(reply.err.payload.to_string())["detail"])


def test_stop_is_answered_and_ends_it(session: elea.Session, tmp_path: Path) -> None:
    settings = ReplaySettings(speed=0.001, loop=True)
    with Replay(session, minute(tmp_path), settings, id="x") as replay:
        [reply] = session.get("@elea/replay/x/stop", timeout=WAIT_S)
        assert reply.ok is not None
        assert replay.wait(WAIT_S)
        with pytest.raises(ClosedError, match="started once"):
            replay.start()
    assert replay.state is State.ENDED


def test_it_loops_until_it_is_stopped(session: elea.Session, tmp_path: Path) -> None:
    log_of(tmp_path, [row("a", at, b"%d" % at) for at in range(5)])
    with Heard(session) as samples:
        with Replay(session, tmp_path, ReplaySettings(speed=0, loop=True)) as replay:
            assert eventually(lambda: replay.loops_count >= 3)
        assert replay.wait(WAIT_S)
        assert eventually(lambda: len(samples) >= 7)
    assert [one.payload.to_bytes() for one in samples[:7]] == [b"%d" % (at % 5) for at in range(7)]


def test_paused_beyond_the_end_it_waits(session: elea.Session, tmp_path: Path) -> None:
    replay = Replay(session, minute(tmp_path), FAST)
    replay.pause()
    with replay:
        replay.seek("end+1h")
        assert not replay.wait(0.2)
        assert replay.state is State.PAUSED
        replay.seek("end-1s")
        replay.resume()
        assert replay.wait(WAIT_S)
    assert replay.published_count == 2


def test_nothing_is_looped_over(session: elea.Session, tmp_path: Path) -> None:
    log_of(tmp_path, [row("a", 1)])
    with Replay(session, tmp_path, ReplaySettings(["other"], speed=0, loop=True)) as replay:
        assert replay.wait(WAIT_S)
    assert (replay.published_count, replay.loops_count) == (0, 0)


def test_rows_come_when_they_are_due(session: elea.Session, tmp_path: Path) -> None:
    """The clock stands still unless it is told: only what is due by it is published."""
    clock = {"ns": 0}
    replay = Replay(session, minute(tmp_path), now_ns=lambda: clock["ns"])
    with replay:
        for second in (0, 1, 5, 59):
            clock["ns"] = second * 10**9 + 1_000
            replay.resume()  # wakes it, and changes nothing
            assert eventually(lambda: replay.published_count == second + 1)  # noqa: B023
        assert replay.wait(WAIT_S)


def test_tokens_are_declared_while_they_were_there(session: elea.Session, tmp_path: Path) -> None:
    log_of(
        tmp_path,
        [
            row("alive/a", 0, kind=4),
            row("alive/a", 0, kind=4),
            row("alive/b", 1, kind=4),
            row("data", 2),
            row("alive/a", 3_600_000, kind=5),
            row("alive/c", 3_600_001, kind=5),
            row("data", 7_200_000),
        ],
    )

    def alive() -> list[str]:
        found = session.liveliness().get("alive/*", timeout=WAIT_S)
        return sorted(str(one.ok.key_expr) for one in found if one.ok is not None)

    with Heard(session) as samples:
        settings = ReplaySettings(kinds=["put", "token"])
        with Replay(session, tmp_path, settings) as replay:
            assert eventually(lambda: len(samples) == 1)
            assert alive() == ["alive/a", "alive/b"]
            assert replay.status()["tokens"] == 2
            replay.seek("start+3600s")
            assert eventually(lambda: replay.published_count == 6)
            assert alive() == ["alive/b"]
            replay.seek("start")
            assert eventually(lambda: replay.published_count == 10)
            assert alive() == ["alive/a", "alive/b"]
        assert alive() == []
    later = ReplaySettings(kinds=["token"], start="start+1800s", rewrite=["alive/{x}=sim/{x}"])
    replay = Replay(session, tmp_path, later)
    replay.pause()
    with replay:
        assert eventually(lambda: replay.status()["tokens"] == 2)
        found = session.liveliness().get("sim/*", timeout=WAIT_S)
        assert sorted(str(one.ok.key_expr) for one in found if one.ok) == ["sim/a", "sim/b"]


def test_damage_is_passed_and_counted(session: elea.Session, tmp_path: Path) -> None:
    log_of(tmp_path, *([row("k", at, b"%d" % at)] for at in range(3)))
    file = tmp_path / (stem_of(0, 0) + DATA)
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(octets)
    with Replay(session, tmp_path, FAST) as replay:
        assert replay.wait(WAIT_S)
    assert (replay.published_count, replay.status()["lost"]) == (2, 1)


def test_a_failure_is_raised_to_who_waits(session: elea.Session, tmp_path: Path) -> None:
    log_of(tmp_path, [row("a/b", 0), row("a//b", 1)])
    with Replay(session, tmp_path, FAST) as replay:
        with pytest.raises(EleaError):
            replay.wait(WAIT_S)
        assert replay.status()["state"] == "failed"
        assert replay.status()["error"]


def test_a_session_that_is_closed_ends_it(tmp_path: Path) -> None:
    with elea.open(ALONE) as session:
        replay = Replay(session, minute(tmp_path), ReplaySettings(speed=100, kinds=["put"]))
        replay.start()
    with pytest.raises(ClosedError):
        replay.wait(WAIT_S)
    replay.close()


def test_what_cannot_be_replayed(session: elea.Session, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no log there"):
        Replay(session, tmp_path / "none")
    with pytest.raises(InvalidValueError, match="it has no rows"):
        Replay(session, log_of(tmp_path / "empty"))
    with pytest.raises(InvalidValueError, match="saw no log"):
        Replay(session, [])
    path = minute(tmp_path / "log")
    with pytest.raises(InvalidValueError, match="is after"):
        Replay(session, path, ReplaySettings(start="end", end="start"))
    with pytest.raises(InvalidValueError, match="letters, digits"):
        Replay(session, path, id="a/b")
    with pytest.raises(InvalidValueError, match="legal are original, now"):
        ReplaySettings(timestamps="new")
    with pytest.raises(InvalidValueError, match="legal are put, delete, token"):
        ReplaySettings(kinds=["gap"])
    with pytest.raises(InvalidValueError, match="saw none"):
        ReplaySettings(kinds=[])
    unused = Replay(session, path)
    unused.close()
    assert unused.state is State.ENDED
    assert len(rows_of(path)) == 60
