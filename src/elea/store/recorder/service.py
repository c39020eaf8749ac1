"""RecorderService: the service `recorder`, which runs the recordings that are configured.

One that cannot be started, as its disk is full or its log is locked, leaves the others alone. Its
status says why, and it is tried again until it can be. A change of the configuration touches the
recordings whose own part of it has changed. One door for all of them can be opened to readers over
Flight.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.config.kinds import Value
from elea.errors import MissingDependencyError
from elea.json5 import Json
from elea.session.session import Session
from elea.store.backends.disk import check_directory
from elea.store.flight.settings import FlightSettings
from elea.store.recorder.section import directory_of, read, read_flight
from elea.store.recorder.settings import RecordingSettings
from elea.version import VERSION

if TYPE_CHECKING:
    from elea.store.flight.door import Door
    from elea.store.recorder.recording import Recording

_LOG: Final = logging.getLogger("elea.store.recorder")
_RETRY_S: Final = 5.0  # between two attempts to start a recording


class RecorderService:
    """The recordings of a node.

    Args:
        session: The node's.
        settings: The section `plugins/recorder`.

    Raises:
        ConfigError: the section is not legal.
        MissingDependencyError: without `pip install 'elea[arrow]'`.
    """

    def __init__(self, session: Session, settings: Mapping[str, Value]) -> None:
        try:
            import pyarrow  # noqa: F401  # said before anything is started
        except ImportError as error:
            raise MissingDependencyError("the service recorder", "arrow") from error
        from elea.store.flight.door import Door

        self._session = session
        self._door: Door = Door()
        self._running: dict[str, Recording] = {}
        self._failed: dict[str, tuple[RecordingSettings, str]] = {}
        self._lock = threading.Lock()  # recordings are started and stopped under it
        self._stopping = threading.Event()
        self._retrying: threading.Thread | None = None
        self.change(settings)

    @classmethod
    def check(cls, settings: Mapping[str, Value]) -> None:
        """Whether a section is legal; nothing is opened.

        Raises:
            ConfigError: it is not.
        """
        read(settings)
        read_flight(settings)

    @classmethod
    def check_parts(cls, settings: Mapping[str, Value]) -> None:
        """Whether there is a directory, and those of all logs could be made.

        Raises:
            ConfigError: there is none, or one could not; other recordings run without it.
        """
        directory_of(settings)
        for directory in cls.makes(settings):
            check_directory(directory, "plugins/recorder/directory")

    @classmethod
    def makes(cls, settings: Mapping[str, Value]) -> Iterable[Path]:
        """Return the directories of logs, or below which they are."""
        return [one.directory for one in read(settings).values()]

    @classmethod
    def notes(cls, settings: Mapping[str, Value]) -> Iterable[str]:
        """Return what has no effect: a section without recordings."""
        if not read(settings):
            yield "plugins/recorder records nothing: recordings has none"

    def change(self, settings: Mapping[str, Value]) -> None:
        """Run what a section says, and leave alone what it says as before.

        Raises:
            ConfigError: the section is not legal; nothing has changed.
        """
        new, flight = read(settings), read_flight(settings)
        with self._lock:
            for name, running in list(self._running.items()):
                if new.get(name) != running.settings:
                    del self._running[name]
                    running.stop()
                    _LOG.info("recording %s stopped", name)
            self._failed.clear()
            for name, one in new.items():
                if name not in self._running:
                    self._start(name, one)
            if self._failed and self._retrying is None:
                self._retrying = threading.Thread(
                    target=self._retry, name="recorder retries", daemon=True
                )
                self._retrying.start()
        if flight != self._door.settings or not self._door.is_open:
            self._open(flight)

    def counted(self) -> Iterable[tuple[str, str, str, int]]:
        """Metrics of the door, if there is one."""
        return () if self._door.settings is None else self._door.counted()

    def status(self) -> Mapping[str, Json]:
        """Values below `status/plugins/recorder`."""
        found: dict[str, Json] = {"version": VERSION}
        if self._door.settings is not None:
            found["flight"] = self._door.status()
        for name, running in list(self._running.items()):
            found[f"recordings/{name}"] = {**running.status(), "state": "Started"}
        for name, (one, reason) in list(self._failed.items()):
            found[f"recordings/{name}"] = {
                "key_exprs": list(one.key_exprs),
                "name": one.name,
                "directory": str(one.directory),
                "state": "Failed",
                "error": reason,
            }
        return found

    def stop(self) -> None:
        """Keep what has come, and close all logs."""
        self._stopping.set()
        self._door.close()
        with self._lock:
            for name in list(self._running):
                self._running.pop(name).stop()
        if self._retrying is not None:
            self._retrying.join()

    def _retry(self) -> None:
        """Start the recordings that could not be started, as soon as they can be."""
        while not self._stopping.wait(_RETRY_S):
            with self._lock:
                if self._stopping.is_set():
                    return
                for name, (settings, _) in list(self._failed.items()):
                    self._start(name, settings)

    def _start(self, name: str, settings: RecordingSettings) -> None:
        from elea.store.recorder.recording import Recording

        try:
            self._running[name] = Recording(
                self._session, settings, door=self._door, shares_session=True
            )
        except Exception as error:  # the other recordings start all the same
            before = self._failed.get(name)
            self._failed[name] = (settings, str(error))
            if before is None or before[1] != str(error):  # once for each reason
                _LOG.error(
                    "recording %s cannot be started, retrying every %g s: %s", name, _RETRY_S, error
                )
        else:
            self._failed.pop(name, None)
            _LOG.info("recording %s: %s", name, ", ".join(settings.key_exprs))

    def _open(self, settings: FlightSettings | None) -> None:
        self._door.close()
        if settings is None:
            return
        try:
            self._door.open(settings)
        except Exception as error:  # what is recorded is recorded all the same
            _LOG.error("logs cannot be read over Flight: %s", error)
