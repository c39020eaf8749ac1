"""Options of the volumes, read as all of a configuration is."""

from __future__ import annotations

from collections.abc import Iterable

from elea.config.kinds import Choice, Number, Text, refuse, unknown_key
from elea.errors import ConfigError
from elea.store.backend import Options


def check_names(options: Options, known: Iterable[str], path: str) -> None:
    """Refuse options that are not known.

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
    return None if value is None else str(Text().read(value, f"{path}/{name}"))


def number(options: Options, name: str, path: str, least: float, most: float) -> float | None:
    """An option that is a number between two others."""
    value = options.get(name)
    if value is None:
        return None
    kind = Number(f"a number from {least:g} to {most:g}")
    kind.read(value, f"{path}/{name}")
    assert isinstance(value, (int, float))
    return value if least <= value <= most else refuse(f"{path}/{name}", kind.legal, value)


def one_of(options: Options, name: str, path: str, legal: tuple[str, ...]) -> str:
    """An option that is one of some words; the first if it is not set."""
    return str(Choice(legal).read(options.get(name, legal[0]), f"{path}/{name}"))
