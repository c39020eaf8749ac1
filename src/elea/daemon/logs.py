"""The log of a router: one line per event, for people, for programs, or for the journal."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from elea.choices import LOG_FILE_LEN, LOG_FILES_COUNT
from elea.errors import ConfigError
from elea.json5 import Json
from elea.session.logs import LEVELS, VARIABLE, Directives, add_handler

_JOURNAL: Final = (
    "JOURNAL_STREAM"  # set by systemd: where standard error leads to, if to the journal
)
# Levels of syslog, which the journal reads from the beginning of a line.
_PRIORITIES: Final = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}
_NAMES: Final = {logging.WARNING: "WARN", logging.CRITICAL: "ERROR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How a router logs."""

    directives: str = "info"  # unless RUST_LOG says it
    format: str = "text"
    file: str | None = None  # in place of standard error
    file_len: int = LOG_FILE_LEN  # bytes from which a new file is begun
    files_count: int = LOG_FILES_COUNT  # old files that are kept


def start_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Log as settings say, from now on.

    Raises:
        InvalidValueError: a directive of the settings means nothing, or its area is unknown. One
            of `RUST_LOG` is logged, and ignored.
        ConfigError: the file cannot be written.
    """
    stream = sys.stderr if stream is None else stream
    default = Directives.strictly(settings.directives).check_areas()
    handler = _file(settings) if settings.file is not None else logging.StreamHandler(stream)
    handler.setFormatter(_formatter(settings, stream))
    where = settings.file or "standard error"
    # Not as methods of a class of its own: that of files is imported late.
    handler.handleError = _Complaints(where, handler.handleError)  # type: ignore[method-assign]
    default.apply(LEVELS["info"])
    add_handler(handler)
    text = os.environ.get(VARIABLE)
    if text is not None:
        said = Directives.parse(text)
        said.apply()
        said.complain(VARIABLE)


def check_logging(settings: LogSettings) -> None:
    """Check that the log could be written as settings say; nothing is made.

    Raises:
        ConfigError: the file cannot be written.
    """
    if settings.file is None:
        return
    path = Path(settings.file).absolute()
    if path.exists():
        if path.is_dir() or not os.access(path, os.W_OK):
            raise ConfigError("--log-file", f"{settings.file} is no file that can be written")
    elif not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        reason = f"{settings.file} cannot be made: its directory cannot be written"
        raise ConfigError("--log-file", reason)


def _file(settings: LogSettings) -> logging.Handler:
    from logging.handlers import RotatingFileHandler  # it imports much, and few routers need it

    assert settings.file is not None
    try:
        return RotatingFileHandler(
            settings.file,
            maxBytes=settings.file_len,
            backupCount=settings.files_count,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise ConfigError("--log-file", f"{settings.file}: {error.strerror}") from None


class _Complaints:
    """Says once per reason that lines are lost, where `logging` prints a traceback for each."""

    def __init__(self, where: str, otherwise: Callable[[logging.LogRecord], None]) -> None:
        self._where = where
        self._otherwise = otherwise
        self._told: set[int | None] = set()

    def __call__(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self._otherwise(record)
            return
        if error.errno in self._told:
            return
        self._told.add(error.errno)
        with suppress(OSError, ValueError):  # standard error may be what cannot be written
            sys.stderr.write(
                f"elea: log lines cannot be written to {self._where}: {error.strerror}\n"
            )


def _formatter(settings: LogSettings, stream: TextIO) -> logging.Formatter:
    if settings.format == "json":
        return JsonLines()
    if settings.file is None and _is_journal(stream):
        return JournalLines()
    return TextLines()


def _is_journal(stream: TextIO) -> bool:
    """Whether a stream leads to the journal, which adds the time and reads the level."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # no descriptor
        return False
    return os.environ.get(_JOURNAL) == f"{status.st_dev}:{status.st_ino}"


class TextLines(logging.Formatter):
    """`TIME LEVEL AREA: MESSAGE`; a traceback is part of the line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = _moment(record).isoformat(sep=" ", timespec="milliseconds")
        return f"{moment[:23]}Z {_level(record):<5} {record.name}: {_message(self, record)}"


class JournalLines(logging.Formatter):
    """`<PRIORITY>AREA: MESSAGE`, as the journal of systemd reads lines."""

    def format(self, record: logging.LogRecord) -> str:
        priority = _PRIORITIES.get(record.levelno, 6)
        return f"<{priority}>{record.name}: {_message(self, record)}"


class JsonLines(logging.Formatter):
    """One JSON object per event, with what it is about as fields of their own."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Json] = {
            "time": _moment(record).isoformat(timespec="microseconds"),
            "level": _level(record).lower(),
            "area": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        about = getattr(record, "fields", None)
        if isinstance(about, dict):
            fields["fields"] = about
        return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _level(record: logging.LogRecord) -> str:
    return _NAMES.get(record.levelno, record.levelname)


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    text = record.getMessage()
    if record.exc_info:
        text += f"\n{formatter.formatException(record.exc_info)}"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
