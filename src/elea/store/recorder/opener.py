"""LogOpener: opens the log of a book, and that very log again after an error."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from elea.errors import StoreError
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings

OpenLog: TypeAlias = Callable[[Path, LogSettings], Log]


class LogGoneError(StoreError):
    """There is no log any more where it was."""


class LogOpener:
    """Opens one log.

    Args:
        open_log: Opens the log of a directory, which is made if it does not exist.
    """

    def __init__(self, open_log: OpenLog, directory: Path, settings: LogSettings) -> None:
        self._open_log = open_log
        self._directory = directory
        self._settings = settings
        self._log_id: uuid.UUID | None = None  # once it was open

    def __call__(self) -> Log:
        """Open it.

        Raises:
            LogGoneError: it was open before, and is not there. It is not begun anew: that would
                be in the way of the one that is to be restored.
            StoreError: it cannot be opened.
        """
        if self._log_id is not None:
            try:
                found = LogReader(self._directory).log_id
            except (StoreError, OSError) as error:
                raise self._gone(str(error)) from error
            if found != self._log_id:
                raise self._gone(f"another log, {found}, is in its place")
        try:
            log = self._open_log(self._directory, self._settings)
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreError(f"cannot open the log in {self._directory}: {why}") from error
        if isinstance(log.disk, RealDisk):  # others have no directory that could be looked at
            self._log_id = log.log_id
        return log

    def _gone(self, detail: str) -> LogGoneError:
        return LogGoneError(
            f"log {self._log_id} in {self._directory} was deleted, renamed or replaced: {detail};"
            " restore it under this name"
        )
