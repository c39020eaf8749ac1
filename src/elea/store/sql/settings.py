"""The section `plugins/sql`: which tables may be asked about, and how much one question may use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elea.config.kinds import Value, unknown_key
from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS

PATH: Final = "plugins/sql"
_FOREIGN: Final = ("__config__", "__path__", "__required__")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MIB: Final = 2**20

# Name, what is legal, what it means. `docs/reference/config.md` shows them.
KEYS: Final = (
    ("name", "letters, digits, `_`", "questions are put to `@sql/<name>`; `lake`"),
    (
        "tables",
        "directories by name, or one directory of tables",
        "what may be asked about; of one directory, every table right below it; needed",
    ),
    ("rows", "1 and more", f"of one answer; {DEFAULT_LIMITS.sql_rows_count}"),
    ("seconds", "1 and more", f"for one answer; {DEFAULT_LIMITS.sql_time_ns // 10**9}"),
    ("memory_mb", "16 and more", f"for one answer; {DEFAULT_LIMITS.sql_memory_len // _MIB}"),
)


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """The section, read."""

    name: str
    tables: Mapping[str, Path] | Path  # a directory: what tables it has is seen at each question
    rows_count: int
    time_s: int
    memory_len: int

    @classmethod
    def read(cls, settings: Mapping[str, Value]) -> SqlSettings:
        """The settings in a section.

        Raises:
            ConfigError: naming the key that is not legal.
        """
        names = [name for name, _, _ in KEYS]
        for key in settings:
            if key not in (*names, *_FOREIGN):
                raise unknown_key(f"{PATH}/{key}", [f"{PATH}/{one}" for one in names])
        name = settings.get("name", "lake")
        if not isinstance(name, str) or not _NAME.match(name):
            raise ConfigError(f"{PATH}/name", f"saw {name!a}; letters, digits and _ are legal")
        limits = DEFAULT_LIMITS
        return cls(
            name,
            _tables(settings.get("tables")),
            _number(settings, "rows", limits.sql_rows_count, 1),
            _number(settings, "seconds", limits.sql_time_ns // 10**9, 1),
            _number(settings, "memory_mb", limits.sql_memory_len // _MIB, 16) * _MIB,
        )

    def check_there(self) -> None:
        """Check that the directories exist; without them the door opens, and has no table.

        Raises:
            ConfigError: one of them does not.
        """
        given = self.tables
        named = {"": given} if isinstance(given, Path) else {f"/{k}": v for k, v in given.items()}
        for name, path in named.items():
            if not path.is_dir():
                reason = (
                    f"there is no directory {str(path)!a}; make it (a pipeline does), or name one"
                )
                raise ConfigError(f"{PATH}/tables{name}", reason)


def _tables(value: Value) -> Mapping[str, Path] | Path:
    if isinstance(value, str) and value:
        return Path(value)
    if not isinstance(value, dict) or not value:
        legal = "a directory of tables, or directories by name, are legal, and needed"
        raise ConfigError(f"{PATH}/tables", f"saw {value!a}; {legal}")
    found = {}
    for name, path in value.items():
        if not _NAME.match(name):
            reason = f"saw {name!a}; names of letters, digits and _ are legal"
            raise ConfigError(f"{PATH}/tables", reason)
        if not isinstance(path, str) or not path:
            raise ConfigError(f"{PATH}/tables/{name}", f"saw {path!a}; a directory is legal")
        found[name] = Path(path)
    return found


def _number(settings: Mapping[str, Value], name: str, default: int, least: int) -> int:
    value = settings.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        reason = f"saw {value!a}; whole numbers from {least} on are legal"
        raise ConfigError(f"{PATH}/{name}", reason)
    return value
