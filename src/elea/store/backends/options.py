"""Options of the volumes: read strictly, with an error that says what is legal."""

from __future__ import annotations

from collections.abc import Iterable

from elea.config.kinds import unknown_key
from elea.errors import ConfigError
from elea.store.backend import Options


def check_names(options: Options, known: Iterable[str], path: str) -> None:
    """Refuse options that nobody reads.

    Raises:
        ConfigError: with the nearest option that is known.
    """
    names = sorted(known)
    for name in options:
        if name not in names:
            if not names:
                raise ConfigError(f"{path}/{name}", "unknown key; there are no options here")
            raise unknown_key(f"{path}/{name}", [f"{path}/{one}" for one in names])


def text(options: Options, name: str, path: str) -> str | None:
    """An option that is a text."""
    value = options.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{path}/{name}", f"saw {value!a}; a text is legal")
    return value


def number(options: Options, name: str, path: str, least: float, most: float) -> float | None:
    """An option that is a number between two others."""
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        legal = f"a number from {least:g} to {most:g} is legal"
        raise ConfigError(f"{path}/{name}", f"saw {value!a}; {legal}")
    return value


def one_of(options: Options, name: str, path: str, legal: tuple[str, ...]) -> str:
    """An option that is one of some words; the first if it is not set."""
    value = options.get(name, legal[0])
    if not isinstance(value, str) or value not in legal:
        raise ConfigError(f"{path}/{name}", f"saw {value!a}; legal are {', '.join(legal)}")
    return value
