"""The service `sql`: SQL over tables in a router, by the section `plugins/sql`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from elea.config.kinds import Value
from elea.errors import MissingDependencyError
from elea.json5 import Json
from elea.session.session import Session
from elea.store.sql.settings import SqlSettings
from elea.version import VERSION

if TYPE_CHECKING:
    from elea.store.sql.door import SqlDoor


class SqlService:
    """A door for SQL, as the group `elea.services` has it.

    Raises:
        ConfigError: the section is not legal.
        MissingDependencyError: the packages of `elea[sql]` are not installed.
    """

    def __init__(self, session: Session, settings: Mapping[str, Value]) -> None:
        self._door = open_door(session, SqlSettings.read(settings))

    @classmethod
    def check(cls, settings: Mapping[str, Value]) -> None:
        """Whether a section is legal; nothing is opened."""
        SqlSettings.read(settings)

    @classmethod
    def reads(cls, settings: Mapping[str, Value]) -> Mapping[str, Path]:
        """Return the directories that may be asked about, by their keys."""
        return SqlSettings.read(settings).directories()

    def status(self) -> Mapping[str, Json]:
        """Values below `status/plugins/sql`."""
        return {"version": VERSION, "sql": self._door.status()}

    def stop(self) -> None:
        """End it."""
        self._door.stop()


def open_door(session: Session, settings: SqlSettings) -> SqlDoor:
    """A door that is open; raises as `SqlService`."""
    try:
        from elea.store.sql.door import SqlDoor
    except ModuleNotFoundError as error:
        raise MissingDependencyError("SQL over tables", "sql") from error
    if find_spec("duckdb") is None:  # not imported here: other processes answer
        raise MissingDependencyError("SQL over tables", "sql")
    return SqlDoor(session, settings)
