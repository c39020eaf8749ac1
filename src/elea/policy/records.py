"""Reading the lists of a configuration, whose shape the schema has checked."""

from __future__ import annotations

from typing import TypeAlias

from elea.config.config import Config
from elea.config.kinds import Value
from elea.errors import ConfigError

Record: TypeAlias = dict[str, Value]


def records(config: Config, path: str) -> list[Record] | None:
    """The records of a list; None if the key is not set."""
    value = config.get(path)
    if not isinstance(value, list):
        return None
    return [one for one in value if isinstance(one, dict)]


def identified(config: Config, path: str) -> list[Record] | None:
    """The records of a list whose ids, as far as they have one, differ; None as `records`.

    Raises:
        ConfigError: an id is used twice.
    """
    found = records(config, path)
    seen: set[str] = set()
    for record in found or ():
        one = text(record, "id")
        if one and one in seen:
            raise ConfigError(path, f"the id {one!a} is used twice; each entry needs its own")
        seen.add(one)
    return found


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
