"""Logs of Elea on standard output, as zenoh-python's functions turn them on.

Elea logs through Python's `logging`, under loggers named `elea.*`; a program that configures
`logging` itself needs nothing of this. The variable `RUST_LOG` is read as Eclipse Zenoh reads it:
a level, or `area=level` pairs between commas; modules of zenoh mean those of Elea.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Final, Self, TextIO

from elea.errors import InvalidValueError
from elea.records import dataclass
from elea.session.convert import checked

VARIABLE: Final = "RUST_LOG"
_FORMAT: Final = "%(asctime)s %(levelname)-5s %(threadName)s %(name)s: %(message)s"
_ROOT: Final = "elea"
_SHOWN_LEN_MAX: Final = 40
_LOG: Final = logging.getLogger("elea.session")
LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
# The loggers there are: a level for another one would have no effect. A test keeps it complete.
AREAS: Final = (
    "elea",
    "elea.audit",
    "elea.daemon",
    "elea.dds",
    "elea.decode",
    "elea.devices",
    "elea.link",
    "elea.link.ws",
    "elea.ros",
    "elea.session",
    "elea.spark",
    "elea.store",
    "elea.store.flight",
    "elea.store.log",
    "elea.store.recorder",
    "elea.store.replay",
    "elea.web",
    "elea.web.audit",
)


@dataclass(frozen=True, slots=True)
class Directives:
    """Which areas are logged from which level on.

    Example:
        >>> Directives.parse("warn,elea.store=debug,zenoh::link=info").levels
        (('elea', 30), ('elea.store', 10), ('elea.link', 20))
        >>> Directives.parse("info,loud").refused
        ('loud',)
    """

    levels: tuple[tuple[str, int], ...]  # by the name of a logger
    refused: tuple[str, ...]  # directives that mean nothing

    @classmethod
    def parse(cls, text: str) -> Directives:
        """The directives of a text: levels and `area=level` pairs, between commas."""
        levels, refused = [], []
        for directive in text.split(","):
            target, _, level = directive.strip().rpartition("=")
            number = LEVELS.get(level.strip().lower())
            if number is None:
                refused.append(directive.strip()[:_SHOWN_LEN_MAX])
            else:
                levels.append((_logger_name(target), number))
        return cls(tuple(levels), tuple(refused))

    @classmethod
    def strictly(cls, text: str) -> Directives:
        """The directives of a text of the caller's own.

        Raises:
            InvalidValueError: one of them means nothing.
        """
        found = cls.parse(text)
        if found.refused:
            raise InvalidValueError("log level", f"{found.refused[0]!a}; {_EXPECTED}")
        return found

    def check_areas(self) -> Self:
        """Check that each area is one of Elea.

        Raises:
            InvalidValueError: one is not.
        """
        for name, _ in self.levels:
            if name not in AREAS:
                raise InvalidValueError("log area", f"{name[:_SHOWN_LEN_MAX]!a}; {_KNOWN}")
        return self

    def apply(self, default: int | None = None) -> None:
        """Set the levels; `default` is for all areas that none of them is about."""
        if default is not None and not any(name == _ROOT for name, _ in self.levels):
            logging.getLogger(_ROOT).setLevel(default)
        for name, level in self.levels:
            logging.getLogger(name).setLevel(level)

    def complain(self, source: str) -> None:
        """Log which directives mean nothing; areas of other programs are theirs."""
        for one in self.refused:
            _LOG.warning("%s: %a is ignored; %s", source, one, _EXPECTED)
        for name, _ in self.levels:
            if name.startswith(f"{_ROOT}.") and name not in AREAS:
                shown = name[:_SHOWN_LEN_MAX]
                _LOG.warning("%s: area %a has no effect; %s", source, shown, _KNOWN)


_EXPECTED: Final = f"expected a level ({', '.join(LEVELS)}) or AREA=LEVEL, such as elea.link=debug"
_KNOWN: Final = f"known areas are {', '.join(AREAS)}"


def try_init_log_from_env() -> None:
    """Log to standard output as `RUST_LOG` says; without it, nothing changes."""
    text = os.environ.get(VARIABLE)
    if text is not None:
        _start(Directives.parse(text))


def init_log_from_env_or(level: str) -> None:
    """Log to standard output as `RUST_LOG` says, or from this level on.

    Raises:
        InvalidValueError: the level is none.
    """
    checked("level", level, str)
    text = os.environ.get(VARIABLE)
    _start(Directives.strictly(level) if text is None else Directives.parse(text))


def add_handler(handler: logging.Handler) -> None:
    """Hand over what is logged to a handler, in place of one that was added before."""
    root = logging.getLogger(_ROOT)
    for before in [one for one in root.handlers if getattr(one, "is_of_elea", False)]:
        root.removeHandler(before)
        before.close()
    handler.is_of_elea = True  # type: ignore[attr-defined]  # so that a second call finds it
    root.addHandler(handler)


def _start(directives: Directives) -> None:
    directives.apply()
    handler: logging.StreamHandler[TextIO] = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter(_FORMAT))
    add_handler(handler)
    directives.complain(VARIABLE)


def _logger_name(target: str) -> str:
    """`zenoh::net::routing` is logged by `elea.net.routing`; other names are nobody's."""
    parts = target.strip().replace("::", ".").split(".")
    if parts == [""] or parts[0] == "zenoh":
        return ".".join([_ROOT, *parts[1:]])
    return target.strip()
