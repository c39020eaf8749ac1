"""Stack: a router with its recorder, and a pipeline beside it; what `elea demo` and `elea up` run.

The router is in this process, in which little else happens. The pipeline is a process of its own:
when Java or Python fall there, samples are recorded all the same, and it goes on where it was.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elea.daemon.daemon import Daemon
from elea.daemon.effective import Options
from elea.daemon.services import Paged
from elea.demo.supervisor import State, Supervisor
from elea.devices.service import XrceService
from elea.errors import EleaError
from elea.json5 import Json
from elea.spark.pipelines.reading import load
from elea.spark.pipelines.served import PipelineServer
from elea.spark.pipelines.state import read

OUTPUT: Final = "pipeline.log"
LOCAL: Final = "local[2,4]"  # two cores; a task may fail three times
_STOP_S: Final = 120.0  # a batch and a round of gold tables, on a busy machine
_RECORDER: Final = "recorder"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the recorders of a router have done: sums over all logs."""

    logs: int = 0
    rows: int = 0
    acknowledged: int = 0
    filled: int = 0
    gaps: int = 0
    dropped: int = 0
    lag_ms: int = 0
    problem: str | None = None  # why a recording does not run


def pipeline_command(file: Path, master: str = LOCAL) -> list[str]:
    """How a pipeline is started, by this Python; it ends with whoever started it.

    Args:
        master: Where Spark runs.
    """
    command = [sys.executable, "-m", "elea.cli.main", "pipeline", "run", str(file)]
    return [*command, "--master", master, "--until-eof"]


class Stack:
    """The parts, started in their order and stopped in the opposite one.

    Args:
        options: Of the router.
    """

    def __init__(self, options: Options) -> None:
        self.router = Daemon(options)
        self.pipeline: Supervisor | None = None
        self._serving: threading.Thread | None = None
        self._served: PipelineServer | None = None

    @property
    def page(self) -> Paged | None:
        """The page of the router, if it was asked for."""
        return self.router.page

    def start_router(self) -> str:
        """Listen and record; returns where it can be reached from this host.

        Raises:
            LinkError: it cannot listen.
            ConfigError: the configuration asks for something that cannot be.
            EleaError: it listens nowhere.
        """
        self.router.start()
        self._serving = threading.Thread(target=self.router.run, name="router")
        self._serving.start()
        locators = self.router.locators()
        if not locators:
            raise EleaError("the router listens nowhere: set listen/endpoints")
        return locators[0]

    def gateway(self) -> str:
        """Where tiny devices are served.

        Raises:
            EleaError: they are not.
        """
        for running in self.router.services:
            if isinstance(running.service, XrceService) and running.service.locators:
                return running.service.locators[0]
        raise EleaError("the router serves no devices: set plugins/xrce/listen")

    def start_pipeline(
        self,
        command: Sequence[str],
        output: Path,
        *,
        file: Path | None = None,
        restarts_max: int | None = None,
    ) -> None:
        """Run the pipeline beside it, and again when it falls.

        Args:
            file: Its definition: the router tells of it, also while it is down.
        """
        self.pipeline = Supervisor(command, output, restarts_max=restarts_max)
        if file is not None:
            self._served = _served(self.router, file)

    def recorded(self) -> Recorded:
        """What has been recorded since the start."""
        for running in self.router.services:
            if running.name == _RECORDER:
                return _recorded(running.service.status())
        return Recorded()

    def pipeline_problem(self) -> str | None:
        """Why the pipeline does not run, if it does not."""
        if self.pipeline is None or self.pipeline.tend() is State.RUNNING:
            return None
        words = self.pipeline.last_words()
        return f"{self.pipeline.state.value}: {words}" if words else self.pipeline.state.value

    def stop_pipeline(self, timeout_s: float) -> bool:
        """Have the pipeline finish what it is at; whether it did so in time."""
        return self.pipeline is None or self.pipeline.stop(timeout_s)

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """First who reads the log, then who writes it."""
        self.stop_pipeline(timeout_s)
        if self._served is not None:
            self._served.stop()
            self._served = None
        if self._serving is not None:
            self.router.stop()
            self._serving.join()
            self._serving = None
            self.router.close()


def _served(router: Daemon, file: Path) -> PipelineServer | None:
    """Tell of a pipeline; None: its file is wrong, which its own output says."""
    try:
        definition = load(file)
    except EleaError:
        return None
    return PipelineServer(router.session, definition, lambda: read(definition.own))


def _recorded(status: Mapping[str, Json]) -> Recorded:
    books: list[Mapping[str, Json]] = []
    problem = None
    for name, told in status.items():
        if not name.startswith("recordings/") or not isinstance(told, dict):
            continue
        if told.get("state") == "Failed":
            problem = f"{name.removeprefix('recordings/')}: {told.get('error')}"
        logs = told.get("logs")
        if isinstance(logs, dict):
            books += [book for book in logs.values() if isinstance(book, dict)]

    def total(name: str) -> int:
        return sum(value for book in books if isinstance(value := book.get(name), int))

    lags = [value for book in books if isinstance(value := book.get("lag_ms"), int)]
    return Recorded(
        logs=len(books),
        rows=total("rows"),
        acknowledged=total("acknowledged"),
        filled=total("filled"),
        gaps=total("gaps"),
        dropped=total("dropped"),
        lag_ms=max(lags, default=0),
        problem=problem,
    )
