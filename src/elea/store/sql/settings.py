"""The section `plugins/sql`: which tables may be asked about, and how much one question may use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elea.config.kinds import Either, Integer, Text, Value
from elea.config.section import FOREIGN, ByName, Converted, FilePath, Section, Setting
from elea.errors import InvalidValueError
from elea.limits import DEFAULT_LIMITS

PATH: Final = "plugins/sql"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MIB: Final = 2**20


def _name(text: str) -> str:
    if not _NAME.match(text):
        raise InvalidValueError("name", "letters, digits and _ make names; the first is no digit")
    return text


_FOLDER: Final = Converted(FilePath("a directory"), Path)
_LIMITS: Final = DEFAULT_LIMITS
SECTION: Final = Section(
    (
        Setting(
            "name",
            Text("letters, digits and `_`", _name),
            "questions are put to `@sql/<name>`; `lake`",
            default="lake",
        ),
        Setting(
            "tables",
            Either((_FOLDER, ByName(_FOLDER, "directories of tables by name", _name))),
            "what may be asked about; of one directory, every table right below it; needed",
            legal="directories by name, or one directory of tables",
            needed=True,
        ),
        Setting(
            "rows",
            Integer(1),
            f"of one answer; {_LIMITS.sql_rows_count}",
            default=_LIMITS.sql_rows_count,
            field="rows_count",
        ),
        Setting(
            "seconds",
            Integer(1),
            f"for one answer; {_LIMITS.sql_time_ns // 10**9}",
            default=_LIMITS.sql_time_ns // 10**9,
            field="time_s",
        ),
        Setting(
            "memory_mb",
            Converted(Integer(16), _MIB.__mul__),
            f"for one answer; {_LIMITS.sql_memory_len // _MIB}",
            default=_LIMITS.sql_memory_len,
            field="memory_len",
        ),
    ),
    FOREIGN,
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
        return cls(**SECTION.read(settings, PATH))

    def directories(self) -> dict[str, Path]:
        """The directories by the keys that name them; without one the door opens, and lacks it."""
        given = self.tables
        if isinstance(given, Path):
            return {"tables": given}
        return {f"tables/{name}": path for name, path in given.items()}
