"""Logs of Elea on standard output, as zenoh-python's functions turn them on.

Elea logs through Python's `logging`, under loggers named `elea.*`; a program that configures
`logging` itself needs nothing of this. The variable `RUST_LOG` is read as Eclipse Zenoh reads it:
a level, or `module=level` pairs between commas; modules of zenoh mean those of Elea.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Final, TextIO

from elea.errors import InvalidValueError
from elea.session.convert import checked

_VARIABLE: Final = "RUST_LOG"
_FORMAT: Final = "%(asctime)s %(levelname)-5s %(threadName)s %(name)s: %(message)s"
_LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}


def try_init_log_from_env() -> None:
    """Log to standard output as `RUST_LOG` says; without it, nothing changes."""
    directives = os.environ.get(_VARIABLE)
    if directives is not None:
        _start(directives, strict=False)


def init_log_from_env_or(level: str) -> None:
    """Log to standard output as `RUST_LOG` says, or from this level on.

    Raises:
        InvalidValueError: the level is none.
    """
    checked("level", level, str)
    directives = os.environ.get(_VARIABLE)
    _start(level if directives is None else directives, strict=directives is None)


def log_to(stream: TextIO, level: str) -> None:
    """Log to a stream as `RUST_LOG` says, or from this level on: for programs of our own."""
    _start(os.environ.get(_VARIABLE, level), strict=False, stream=stream)


def _start(directives: str, *, strict: bool, stream: TextIO | None = None) -> None:
    for directive in directives.split(","):
        target, _, level = directive.strip().rpartition("=")
        number = _LEVELS.get(level.strip().lower())
        if number is not None:
            logging.getLogger(_logger_name(target)).setLevel(number)
        elif strict:
            legal = ", ".join(_LEVELS)
            raise InvalidValueError("log level", f"{level[:40]!a}; legal are {legal}")
    root = logging.getLogger("elea")
    if not any(isinstance(handler, _Ours) for handler in root.handlers):
        handler = _Ours(sys.stdout if stream is None else stream)
        handler.setFormatter(logging.Formatter(_FORMAT))
        root.addHandler(handler)


def _logger_name(target: str) -> str:
    """`zenoh::net::routing` is logged by `elea.net.routing`; other names are nobody's."""
    parts = target.strip().replace("::", ".").split(".")
    if parts == [""] or parts[0] == "zenoh":
        return ".".join(["elea", *parts[1:]])
    return target.strip()


class _Ours(logging.StreamHandler[TextIO]):
    """Ours, so that a second call does not log everything twice."""
