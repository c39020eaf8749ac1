"""A recorder, a client and a query of Spark, each with its processes, for campaigns to kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from chaos.spark_ledger import ARCHIVE, Job, Ledger
from tests.ports import free_port

from elea import crash

LIMIT_S = 240.0  # for anything that is waited for, on a busy machine
POLL_S = 0.1  # to look at a table costs milliseconds
LOCAL = "local[2,4]"
OPTIONS = {"maxRowsPerTrigger": "20000"}


class NotReachedError(Exception):
    """What was waited for did not come."""


@dataclass(slots=True)
class Life:
    """One life of a driver and all its processes, which have its directory in their environment."""

    process: subprocess.Popen[bytes]
    holds: Path
    errors: Path
    started_s: float
    settings: tuple[str, Mapping[str, str]]  # the master, and more of Spark's

    def arm(self, point: str) -> None:
        """Let the first process that comes there stop."""
        (self.holds / point).touch()

    def held(self, point: str) -> int:
        """The process that stopped there, when it has."""
        found: list[Path] = []

        def is_there() -> bool:
            found.extend(self.holds.glob(f"{point}.*"))
            return bool(found)

        self.wait(is_there, point)
        found[0].unlink()
        return int(found[0].suffix[1:])

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until something is so, while the driver lives."""
        try:
            wait_for(condition, what, self.is_alive)
        except NotReachedError as error:
            state = "lives" if self.is_alive() else "ended"
            raise NotReachedError(f"{what}: the driver {state}: {self.told()[-500:]}") from error

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def told(self) -> str:
        """What it said last, of what is wrong."""
        return self.errors.read_text(errors="replace")[-20_000:]

    def pids(self) -> list[int]:
        """All its processes."""
        return marked(f"{crash.HOLD}={self.holds}")

    def kill(self, *, everything: bool = True) -> None:
        """The driver and Java; else their workers only notice that these are gone."""
        pids = self.pids()
        if not everything:
            pids = [pid for pid in pids if pid == self.process.pid or _name(pid) == "java"]
        for pid in pids:
            end(pid)
        self.process.wait()
        while everything and (pids := self.pids()):  # those that were being made
            for pid in pids:
                end(pid)
            time.sleep(POLL_S)


@dataclass(slots=True)
class Rig:
    """One log, one table and one checkpoint, over the lives of all who use them."""

    root: Path
    job: Job = ARCHIVE
    port: int = 0
    lives: list[Life] = field(default_factory=list)
    recorder: subprocess.Popen[bytes] | None = None
    feeder: subprocess.Popen[str] | None = None
    is_served: bool = False  # ranges are asked for over Zenoh, not read from files
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.root, self.job)

    def __enter__(self) -> Self:
        self.port = free_port()
        (self.root / "tmp").mkdir(parents=True)
        self.record()
        self.feeder = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "chaos.spark_feed",
                self.endpoint,
                str(self.ledger.acknowledged),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        self.feed()
        wait_for(
            lambda: self.ledger.acknowledged.exists() and bool(self.ledger.places()), "samples"
        )
        return self

    def __exit__(self, *_: object) -> None:
        for life in self.lives:
            life.kill()
        for process in (self.feeder, self.recorder):
            if process is not None:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()

    @property
    def endpoint(self) -> str:
        return f"tcp/127.0.0.1:{self.port}"

    def record(self) -> None:
        """Start the recorder; one that is there is killed."""
        if self.recorder is not None:
            self.recorder.kill()
            self.recorder.wait()
        told = self.root / "recorder.txt"
        command = [
            *(sys.executable, "-m", "elea.cli.main", "record", "k/**", "--name", "log"),
            *("--to", str(self.root / "log"), "--shards", "2", "--listen", self.endpoint),
            *("--cfg", "scouting/multicast/enabled:false"),
        ]
        with told.open("wb") as file:
            self.recorder = subprocess.Popen(command, stderr=file, env=environment())
        wait_for(lambda: "records k/**" in told.read_text(), f"the recorder: see {told}")

    def feed(self) -> None:
        """Let the client put."""
        self._ask("go")

    def pause(self) -> None:
        """Let the client put no more, and wait until all it has put is acknowledged."""
        self._ask("pause")
        assert self.feeder is not None
        assert self.feeder.stdout is not None
        if not self.feeder.stdout.readline().startswith("paused"):
            raise NotReachedError("the client is gone")

    def _ask(self, word: str) -> None:
        assert self.feeder is not None
        assert self.feeder.stdin is not None
        self.feeder.stdin.write(word + "\n")
        self.feeder.stdin.flush()

    def drive(
        self,
        master: str = LOCAL,
        config: Mapping[str, str] | None = None,
        *,
        armed: str | None = None,
    ) -> Life:
        """Start a driver; it is not running yet."""
        number = len(self.lives)
        holds = self.root / f"holds{number}"
        holds.mkdir()
        told = {
            "root": str(self.root),
            "job": self.job.name,
            "master": master,
            "config": dict(config or {}),
            "log": "zenoh:log" if self.is_served else str(self.root / "log"),
            "options": OPTIONS | ({"connect": self.endpoint} if self.is_served else {}),
        }
        errors = self.root / f"driver{number}.txt"
        made = environment() | {crash.HOLD: str(holds), "TMPDIR": str(self.root / "tmp")}
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "chaos.spark_driver", json.dumps(told)],
                stdout=file,
                stderr=file,
                env=made,
            )
        life = Life(process, holds, errors, time.time(), (master, config or {}))
        self.lives.append(life)
        if armed is not None:
            life.arm(armed)
        return life

    def again(self, life: Life) -> Life:
        """Start a driver like one that ended."""
        return self.drive(*life.settings)

    def settle(self, life: Life) -> list[str]:
        """Wait until the table has all that was acknowledged, and compare; the feed goes on."""
        self.pause()
        try:
            life.wait(self.ledger.has_all, "all samples in the table")
            return self.ledger.problems(whole=True)
        finally:
            self.feed()


def environment() -> dict[str, str]:
    """For all these programs: what is here is imported."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(["src", ".", *sys.path])}


def wait_for(
    condition: Callable[[], bool], what: str, is_possible: Callable[[], bool] = lambda: True
) -> None:
    """Poll until something is so."""
    until_s = time.monotonic() + LIMIT_S
    while not condition():
        if not is_possible() or time.monotonic() > until_s:
            raise NotReachedError(what)
        time.sleep(POLL_S)


def end(pid: int) -> None:
    """`kill -9`."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def marked(text: str) -> list[int]:
    """The processes with that in their environment."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                told = (directory / "environ").read_bytes()
            except OSError:  # gone, or of somebody else
                continue
            if text.encode() in told.split(b"\0"):
                found.append(int(directory.name))
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
