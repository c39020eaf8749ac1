"""The service `historian`: a historian in a router, by the section `plugins/historian`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.config.kinds import Bool, Text, Value
from elea.config.section import FOREIGN, ByName, Converted, FilePath, Section, Setting, Several
from elea.config.shapes import KEY_EXPR, key_expr
from elea.decode.layout import Layout, parse_layout
from elea.errors import MissingDependencyError
from elea.json5 import Json
from elea.session.session import Session
from elea.version import VERSION

if TYPE_CHECKING:
    from elea.store.historian.historian import Historian

NAME: Final = "historian"
_PATH: Final = f"plugins/{NAME}"
_FOLDERS: Final = Converted(FilePath("a directory"), Path)

SECTION: Final = Section(
    (
        Setting("logs", Several(_FOLDERS), "the logs that are answered from; needed", needed=True),
        Setting(
            "tables",
            Several(_FOLDERS, may_be_empty=True),
            "and the tables that logs were archived to; none",
        ),
        Setting("key_exprs", Several(KEY_EXPR), "the keys that are answered for; `**`", ("**",)),
        Setting(
            "complete", Bool(), "whether the logs have all there is of these keys; false", False
        ),
        Setting(
            "layouts",
            ByName(
                Converted(Text("the text of a layout"), parse_layout),
                "layouts by key expression",
                key_expr,
            ),
            "the [types](predicates.md#layouts) of CDR and serialized payloads, for `_filter`;"
            " none",
        ),
    ),
    FOREIGN,
)


@dataclass(frozen=True, slots=True)
class HistorianSettings:
    """The section, read."""

    logs: tuple[Path, ...]
    key_exprs: tuple[str, ...]
    complete: bool
    layouts: tuple[tuple[str, Layout], ...] = ()
    tables: tuple[Path, ...] = ()

    @classmethod
    def read(cls, settings: Mapping[str, Value]) -> HistorianSettings:
        """The settings in a section.

        Raises:
            ConfigError: naming the key that is not legal.
        """
        found = SECTION.read(settings, _PATH)
        layouts = tuple(found.pop("layouts", {}).items())
        return cls(**found, layouts=layouts)


class HistorianService:
    """A historian, as the group `elea.services` has it.

    Raises:
        ConfigError: the section is not legal.
        MissingDependencyError: the packages of `elea[arrow]` are not installed.
    """

    def __init__(self, session: Session, settings: Mapping[str, Value]) -> None:
        self._settings = HistorianSettings.read(settings)
        self._historian = open_historian(session, self._settings)

    @classmethod
    def check(cls, settings: Mapping[str, Value]) -> None:
        """Whether a section is legal; nothing is opened."""
        HistorianSettings.read(settings)

    @classmethod
    def reads(cls, settings: Mapping[str, Value]) -> Mapping[str, Path]:
        """Return the directories of logs and tables, by their keys."""
        read = HistorianSettings.read(settings)
        return {
            f"{key}/{place}" if len(paths) > 1 else key: path
            for key, paths in (("logs", read.logs), ("tables", read.tables))
            for place, path in enumerate(paths)
        }

    def status(self) -> Mapping[str, Json]:
        """Values below `status/plugins/historian`."""
        logs: list[Json] = [str(one) for one in self._settings.logs]
        tables: list[Json] = [str(one) for one in self._settings.tables]
        told: dict[str, Json] = {**self._historian.status(), "logs": logs, "tables": tables}
        return {"version": VERSION, "historian": told}

    def stop(self) -> None:
        """End it."""
        self._historian.stop()


def open_historian(session: Session, settings: HistorianSettings) -> Historian:
    """A historian that runs; raises as `HistorianService`."""
    try:
        from elea.store.historian.historian import Historian
        from elea.store.historian.source import LogSource, Source
        from elea.store.tables.source import TableSource
    except ModuleNotFoundError as error:
        raise MissingDependencyError("a historian", "arrow") from error
    sources: list[Source] = [LogSource(directory) for directory in settings.logs]
    sources += [TableSource(directory) for directory in settings.tables]
    return Historian(
        session,
        settings.key_exprs,
        sources,
        complete=settings.complete,
        layouts=dict(settings.layouts),
    )
