"""The service `historian`: a historian in a router, by the section `plugins/historian`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.config.kinds import Value, unknown_key
from elea.decode.layout import Layout, parse_layout
from elea.errors import (
    ConfigError,
    KeyExprError,
    LimitError,
    MissingDependencyError,
    PredicateError,
)
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.session.session import Session
from elea.version import VERSION

if TYPE_CHECKING:
    from elea.store.historian.historian import Historian

NAME: Final = "historian"
_PATH: Final = f"plugins/{NAME}"
_FOREIGN: Final = ("__config__", "__path__", "__required__")

# Name, what is legal, what it means. `docs/reference/config.md` shows them.
KEYS: Final = (
    ("logs", "a directory, or several", "the logs that are answered from; needed"),
    ("tables", "a directory, or several", "and the tables that logs were archived to; none"),
    ("key_exprs", "a key expression, or several", "the keys that are answered for; `**`"),
    ("complete", "true or false", "whether the logs have all there is of these keys; false"),
    (
        "layouts",
        "layouts by key expression",
        "the [types](predicates.md#layouts) of CDR and serialized payloads, for `_filter`; none",
    ),
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
        names = [name for name, _, _ in KEYS]
        for name in settings:
            if name not in (*names, *_FOREIGN):
                raise unknown_key(f"{_PATH}/{name}", [f"{_PATH}/{one}" for one in names])
        logs = _texts(settings.get("logs"), f"{_PATH}/logs", "a directory or several, and needed")
        given = settings.get("tables", [])
        tables = [] if given == [] else _texts(given, f"{_PATH}/tables", "a directory or several")
        keys = _texts(settings.get("key_exprs", "**"), f"{_PATH}/key_exprs", "key expressions")
        complete = settings.get("complete", False)
        if not isinstance(complete, bool):
            raise ConfigError(f"{_PATH}/complete", f"saw {complete!a}; true and false are legal")
        try:
            key_exprs = tuple(str(KeyExpr(key)) for key in keys)
        except KeyExprError as error:
            raise ConfigError(f"{_PATH}/key_exprs", str(error)) from None
        layouts = _layouts(settings.get("layouts", {}), f"{_PATH}/layouts")
        return cls(
            tuple(Path(one) for one in logs),
            key_exprs,
            complete,
            layouts,
            tuple(Path(one) for one in tables),
        )


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


def _layouts(value: Value, path: str) -> tuple[tuple[str, Layout], ...]:
    if not isinstance(value, dict):
        raise ConfigError(path, f"saw {value!a}; an object of layouts by key expression is legal")
    found = []
    for key, text in value.items():
        try:
            if not isinstance(text, str):
                raise ConfigError(f"{path}/{key}", f"saw {text!a}; the text of a layout is legal")
            found.append((str(KeyExpr(key)), parse_layout(text)))
        except (KeyExprError, PredicateError, LimitError) as error:
            raise ConfigError(f"{path}/{key}", str(error)) from None
    return tuple(found)


def _texts(value: Value, path: str, legal: str) -> list[str]:
    found = [value] if isinstance(value, str) else value
    texts = [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
    if not isinstance(found, list) or not texts or len(texts) < len(found):
        raise ConfigError(path, f"saw {value!a}; {legal} are legal")
    return texts
