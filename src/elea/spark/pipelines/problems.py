"""What is wrong with a pipeline: each problem with its place, all of them at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from elea.errors import ConfigError, EleaError

_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that has to be changed, and where."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


@dataclass(slots=True)
class Problems:
    """The problems of one file, as they are found."""

    found: list[Problem] = field(default_factory=list)

    def add(self, place: str, reason: str) -> None:
        """One more."""
        self.found.append(Problem(place, reason))

    def seen(self, place: str, value: object, legal: str) -> None:
        """A value that is not legal."""
        self.add(place, f"saw {shown(value)}; legal is {legal}")

    def error(self, place: str, error: Exception) -> None:
        """What somebody else found wrong; of a place inside of this one if it says so."""
        if isinstance(error, ConfigError):
            if error.path.startswith(place):
                self.add(error.path, error.reason)
            elif re.fullmatch(r"[a-z_]+", error.path):
                self.add(f"{place}.{error.path}", error.reason)
            else:
                self.add(place, str(error))
        else:
            self.add(place, str(error) or type(error).__name__)

    def unknown(self, place: str, given: Mapping[str, object], legal: Iterable[str]) -> None:
        """Keys that are not legal."""
        names = list(legal)
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]}? " if near else ""
                inner = f"{place}.{name}" if place else name
                self.add(inner, f"is unknown; {hint}legal are {', '.join(names)}")

    def raise_first(self) -> None:
        """ConfigError, if there is a problem; how many more there are is said."""
        if not self.found:
            return
        first, *others = self.found
        more = f" (and {len(others)} more; `elea pipeline check` tells all)" if others else ""
        raise ConfigError(first.place, first.reason + more)


def shown(value: object) -> str:
    """A value as it was seen, not too long, and harmless on a terminal."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = ascii(text)[1:-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def text_of(problems: Problems, place: str, value: object, legal: str) -> str | None:
    """A text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    problems.seen(place, value, legal)
    return None


def texts_of(problems: Problems, place: str, value: object, legal: str) -> tuple[str, ...]:
    """One text, or a list of them."""
    values = value if isinstance(value, list) else [value]
    found = [text_of(problems, place, one, legal) for one in values]
    if not values:
        problems.seen(place, value, legal)
    return tuple(one for one in found if one is not None)


def flag_of(problems: Problems, place: str, value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    problems.seen(place, value, "true, false")
    return False


CAUGHT: Final = (EleaError, ValueError, TypeError)
