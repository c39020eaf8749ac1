"""State: what a runner tells of itself, for other processes; and that they may ask it to stop.

Below the storage are `_elea/lock`, which the runner holds as long as it lives; `_elea/state.json`,
what it said last; and `_elea/stop`, which is there if somebody asks it to stop.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Self

from elea.atomic_file import replace_text
from elea.errors import StoreError

_STATE: Final = "state.json"
_LOCK: Final = "lock"
_STOP: Final = "stop"
_EVENTS_COUNT: Final = 50


@dataclass(slots=True)
class TableStatus:
    """How a table does.

    Args:
        kind: What it is.
        rows: That it has.
        added: Rows that this run added.
        rate: Rows in a second, of late.
        lag: Rows of the log that it does not have yet; None: not known, or not made of the log,
        lag_s: and seconds since the first of those was recorded.
        late: Rows that came too late for what they belong to; they are in a table `NAME_late`.
        ahead: Rows whose timestamps were further ahead of their reception than `drift`,
            or this of the time of day.
        forgotten: Groups, devices or publishers that exceeded their bound, in this run.
        batch: The number of the last batch or change.
        batch_s: How long that took.
        restarts: How often it was begun again.
        state: `waiting`, `running`, `failing`, `failed` or `done`.
        error: What went wrong last.
    """

    kind: str
    rows: int = 0
    added: int = 0
    rate: float = 0.0
    lag: int | None = None
    lag_s: float | None = None
    late: int = 0
    ahead: int = 0
    forgotten: int = 0
    batch: int | None = None
    batch_s: float | None = None
    restarts: int = 0
    state: str = "waiting"
    error: str | None = None


@dataclass(slots=True)
class Status:
    """How a pipeline does.

    Args:
        is_alive: Whether its runner lives.
        state: `starting`, `running`, `stopping`, `stopped` or `failed`.
        since_s: When it was started, in seconds since 1970,
        at_s: and when this was said.
        events: What was remarkable, the last ones: drift, failures.
        lag_error: Why the lag of tables is not known; None: the log could be asked.
    """

    pipeline: str
    state: str
    pid: int
    host: str
    since_s: float
    at_s: float
    is_alive: bool = True
    tables: dict[str, TableStatus] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    lag_error: str | None = None

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """As `asdict` made it."""
        tables = {name: TableStatus(**one) for name, one in told["tables"].items()}
        return cls(**{**told, "tables": tables})


class Board:
    """The status of a running pipeline, which several threads write."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._lock = threading.Lock()
        self._changes: dict[str, int] = {}
        self.news = threading.Event()  # some table has new rows

    def table(self, name: str, kind: str = "", **values: Any) -> None:
        """Note something of a table."""
        with self._lock:
            one = self._status.tables.setdefault(name, TableStatus(kind))
            for field_name, value in values.items():
                setattr(one, field_name, value)

    def grown(self, name: str, added: int, rows: int | None = None) -> None:
        """A table has changed.

        Args:
            added: Rows that are new in it.
            rows: All of them, if that is known.
        """
        with self._lock:
            one = self._status.tables.setdefault(name, TableStatus(name.rpartition("_")[2]))
            one.added += added
            if one.state == "waiting":
                one.state = "running"
            one.rows = one.rows + added if rows is None else rows
            self._changes[name] = self._changes.get(name, 0) + 1
        self.news.set()

    def lag(self, told: Status) -> None:
        """Note how far tables are behind the log, as another status says."""
        with self._lock:
            self._status.lag_error = told.lag_error
            for name, one in told.tables.items():
                self._status.tables[name].lag = one.lag
                self._status.tables[name].lag_s = one.lag_s

    def done(self) -> None:
        """What ran is done."""
        with self._lock:
            for one in self._status.tables.values():
                if one.state in ("waiting", "running"):
                    one.state = "done"

    def changes(self, names: Iterable[str]) -> tuple[int, ...]:
        """How often tables have changed in this run."""
        with self._lock:
            return tuple(self._changes.get(name, 0) for name in names)

    def event(self, text: str) -> None:
        """Something remarkable."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self._lock:
            self._status.events = [*self._status.events, f"{stamp} {text}"][-_EVENTS_COUNT:]

    def state(self, state: str | None = None) -> str:
        """What the pipeline does now; changed, if a word is given."""
        with self._lock:
            if state is not None:
                self._status.state = state
            return self._status.state

    def status(self) -> Status:
        """A copy, as it is now."""
        with self._lock:
            self._status.at_s = time.time()
            return Status.from_json(asdict(self._status))


class Lease:
    """The right to run a pipeline: one process has it at a time.

    Raises:
        StoreError: another one has it.
    """

    def __init__(self, own: Path) -> None:
        own.mkdir(parents=True, exist_ok=True)
        self._own = own
        self._lock: IO[str] = (own / _LOCK).open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            reason = "runs already; `elea pipeline stop` ends it"
            raise StoreError(f"the pipeline of {own.parent} {reason}") from error
        (own / _STOP).unlink(missing_ok=True)

    def tell(self, status: Status) -> None:
        """Write what others may read."""
        replace_text(self._own / _STATE, json.dumps(asdict(status)), durable=False)

    def is_asked_to_stop(self) -> bool:
        """Whether somebody asked."""
        return (self._own / _STOP).exists()

    def release(self) -> None:
        """Let another one run it."""
        (self._own / _STOP).unlink(missing_ok=True)
        self._lock.close()


def read(own: Path) -> Status | None:
    """What a runner said last; None: there never was one.

    Raises:
        StoreError: the file is damaged.
    """
    file = own / _STATE
    try:
        found = Status.from_json(json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{file} is damaged: {error}") from error
    found.is_alive = is_held(own)
    if not found.is_alive and found.state not in ("stopped", "failed"):
        found.state = "dead"
    return found


def is_held(own: Path) -> bool:
    """Whether a runner lives."""
    try:
        with (own / _LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def ask_to_stop(own: Path) -> None:
    """Ask the runner, which looks for it several times in a second."""
    (own / _STOP).touch()


def now_status(pipeline: str) -> Status:
    """The first word of a runner."""
    now_s = time.time()
    host = ""
    with suppress(OSError):
        host = socket.gethostname()
    return Status(pipeline, "starting", os.getpid(), host, now_s, now_s)
