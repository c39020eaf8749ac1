"""No question in SQL costs more than its asker: memory, time and disk are bounded from outside."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ports import free_port
from tests.scale import scaled
from tests.unit.cli.ends import eventually
from tests.unit.store.historian.rig import ALONE

import elea
from elea.store.sql import frames
from elea.store.sql.door import SqlDoor
from elea.store.sql.settings import SqlSettings

MIB = 2**20
WAIT_S = 300.0  # for what must happen; nothing is measured by it
STUBBORN = "select levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
BOMBS = {
    "damerau": "select damerau_levenshtein(repeat('a', 30000), repeat('b', 30000))",
    "range": "select len(range(300000000))",
    "lists": "select list_sort(list_transform(range(3000000), lambda x: repeat('z', 500)))[1]",
    "repeat": "select length(repeat(repeat('x', 1000000), 3000))",
    "format": "select length(format('{:>2000000000}', 'x'))",
    "printf": "select length(printf('%1000000000d', 1))",
    "rows": "select repeat('x', 30000000) from range(100)",
    "one": "select repeat('x', 300000000)",
    "aggregate": "select string_agg(repeat('x', 1000), '') from range(10000000)",
    "sort": "select * from (select random() as r, repeat('x', 200) from range(9000000)) order by r",
    "stubborn": STUBBORN,
}
_SOME = ["printf", "one", "aggregate", "sort"]  # `attack/` has the others


@pytest.fixture(scope="module")
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


@contextmanager
def opened(session: elea.Session, tables: Path, **more: int) -> Iterator[SqlDoor]:
    door = SqlDoor(session, SqlSettings.read({"tables": str(tables), **more}))
    try:
        yield door
    finally:
        door.stop()


def asked(session: elea.Session, sql: str) -> list[Any]:
    answers = [one.ok or one.err for one in session.get("@sql/lake", payload=sql, timeout=WAIT_S)]
    return [json.loads(one.payload.to_bytes()) for one in answers if one is not None]


def children() -> list[int]:
    text = "".join(one.read_text() for one in Path("/proc/self/task").glob("*/children"))
    return [int(one) for one in text.split()]


def workers() -> list[int]:
    """Children that run their own program: before `exec` a child counts our memory as its own."""
    own = Path("/proc/self/cmdline").read_bytes()
    return [one for one in children() if command_line(one) not in (own, b"")]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def rss_len(pid: int | str) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class Peak:
    """The most that this process, and one of its children, used meanwhile."""

    def __enter__(self) -> Peak:
        self.own = self.child = 0
        self._start = rss_len("self")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.01):
            self.own = max(self.own, rss_len("self") - self._start)
            self.child = max(self.child, *map(rss_len, workers()), 0)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("name", scaled(_SOME, list(BOMBS)))
def test_a_question_that_wants_too_much_costs_its_asker_an_error(
    session: elea.Session, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(session, tmp_path, memory_mb=64, seconds=3) as door:
        assert asked(session, "select 1 as one") == [[{"one": 1}]]
        base = max(map(rss_len, workers()))
        with Peak() as peak:
            [told] = asked(session, BOMBS[name])
        assert told["error"] == "invalid", told
        assert (
            "exceeds memory_mb (64 MiB" in told["detail"]
            or "exceeds seconds (3 s" in told["detail"]
        )
        assert peak.child <= base + frames.allowance(64 * MIB) + 32 * MIB
        assert peak.own <= 64 * MIB
        assert asked(session, "select 1 as one") == [[{"one": 1}]]
        assert door.counts.invalid == 1
    assert list(tmp_path.iterdir()) == [], "something was written to a disk"
    assert not Path("/.tmp").exists()


def test_others_are_answered_while_questions_do_not_look_up(
    session: elea.Session, tmp_path: Path
) -> None:
    with opened(session, tmp_path, seconds=1) as door:
        stubborn = [session.get("@sql/lake", payload=STUBBORN, timeout=WAIT_S) for _ in range(4)]
        assert asked(session, "select 1 as one") == [[{"one": 1}]]
        for one in stubborn:
            [reply] = list(one)
            assert reply.err is not None
            assert "exceeds seconds (1 s)" in reply.err.payload.to_string()
        assert door.counts.killed == 4


def test_a_stop_ends_questions_that_do_not_look_up(session: elea.Session, tmp_path: Path) -> None:
    before = set(children())
    with opened(session, tmp_path, seconds=100_000) as door:
        replies = session.get("@sql/lake", payload=STUBBORN, timeout=WAIT_S)
        assert eventually(lambda: door.counts.queries == 1)
    assert set(children()) <= before
    assert [one.ok for one in replies if one.ok] == []


def test_a_question_that_nobody_waits_for_is_ended(session: elea.Session, tmp_path: Path) -> None:
    with opened(session, tmp_path, seconds=100_000) as door:
        token = elea.CancellationToken()
        session.get("@sql/lake", payload=STUBBORN, timeout=WAIT_S, cancellation_token=token)
        assert eventually(lambda: door.counts.queries == 1)
        token.cancel()
        assert eventually(lambda: door.counts.abandoned == 1)


def test_a_large_table_is_read(session: elea.Session, tmp_path: Path) -> None:
    count = 1_000_000  # 108 MB, in one row group
    table = pa.table({"n": pa.array(range(count)), "text": pa.repeat("x" * 100, count)})
    write_deltalake(str(tmp_path / "big"), table)
    with opened(session, tmp_path, memory_mb=160):
        found = asked(session, "select count(*) as c, sum(n) as s, max(length(text)) as l from big")
    assert found == [[{"c": count, "s": count * (count - 1) // 2, "l": 100}]]


def test_processes_are_used_again(session: elea.Session, tmp_path: Path) -> None:
    with opened(session, tmp_path) as door:
        assert asked(session, "select 1 as one") == [[{"one": 1}]]
        pids = set(children())
        for _ in range(5):
            asked(session, "select 1 as one")
            asked(session, "not sql")
        assert set(children()) == pids
        assert door.counts.killed == 0


def test_a_process_that_is_killed_while_idle_costs_no_answer(
    session: elea.Session, tmp_path: Path
) -> None:
    with opened(session, tmp_path) as door:
        for _ in range(3):
            assert asked(session, "select 1 as one") == [[{"one": 1}]]
            assert eventually(lambda: len(door._workers._idle) == 1)
            os.kill(door._workers._idle[0].pid, signal.SIGKILL)  # as if memory were short
            assert eventually(lambda: not door._workers._idle[0].is_running)
        assert door.counts.killed == 0


def test_one_asker_does_not_take_the_places_of_others(tmp_path: Path) -> None:
    """Sixteen questions of one client made everybody's `busy`, for as long as they took."""
    near = {"endpoints": [f"tcp/127.0.0.1:{free_port()}"]}
    with elea.open({**ALONE, "mode": "peer", "listen": near}) as here:
        client = {**ALONE, "mode": "client", "connect": near}
        with (
            opened(here, tmp_path, seconds=20) as door,
            elea.open(client) as greedy,
            elea.open(client) as other,
        ):
            assert eventually(lambda: asked(other, "select 1 as one"))
            pending = [greedy.get("@sql/lake", payload=STUBBORN, timeout=WAIT_S) for _ in range(40)]
            assert eventually(lambda: door.counts.busy >= 24)
            for number in range(3):
                assert asked(other, f"select {number} as n") == [[{"n": number}]]
            assert door.counts.busy >= 25  # one of the greedy ones made room
            del pending
