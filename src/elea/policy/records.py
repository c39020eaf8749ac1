"""Reading the lists of a configuration, whose shape the schema has checked."""

from __future__ import annotations

from typing import TypeAlias

from elea.config.config import Config
from elea.config.kinds import Value

Record: TypeAlias = dict[str, Value]


def records(config: Config, path: str) -> list[Record] | None:
    """The records of a list; None if the key is not set."""
    value = config.get(path)
    if not isinstance(value, list):
        return None
    return [one for one in value if isinstance(one, dict)]


def texts(record: Record, name: str) -> tuple[str, ...] | None:
    """A list of texts, or None."""
    value = record.get(name)
    if not isinstance(value, list):
        return None
    return tuple(one for one in value if isinstance(one, str))


def text(record: Record, name: str, default: str = "") -> str:
    """A text, or the default."""
    value = record.get(name)
    return value if isinstance(value, str) else default


def integer(record: Record, name: str) -> int | None:
    """A whole number, or None."""
    value = record.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def inner(record: Record, name: str) -> Record:
    """A record inside a record; empty if there is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}
