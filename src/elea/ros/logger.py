"""Logger: what a node says on `/rosout`, and to Python's logging (R2-305)."""

from __future__ import annotations

import logging
import time
from typing import Final

from elea.errors import EleaError
from elea.ros.endpoints import Publisher

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "fatal": 50}


class Logger:
    """Lines of a node, by level."""

    def __init__(self, name: str, out: Publisher | None) -> None:
        self._name = name.removeprefix("/").replace("/", ".")
        self._out = out
        self._log = logging.getLogger(f"elea.ros.{self._name}")

    def debug(self, text: str) -> None:
        """For developers."""
        self._tell("debug", text)

    def info(self, text: str) -> None:
        """What happens."""
        self._tell("info", text)

    def warning(self, text: str) -> None:
        """What may be wrong."""
        self._tell("warning", text)

    warn = warning

    def error(self, text: str) -> None:
        """What is wrong."""
        self._tell("error", text)

    def fatal(self, text: str) -> None:
        """What ends the node."""
        self._tell("fatal", text)

    def _tell(self, level: str, text: str) -> None:
        number = _LEVELS[level]
        self._log.log(number, "%s", text)
        if self._out is None:
            return
        seconds, ns = divmod(time.time_ns(), 1_000_000_000)
        line = {
            "stamp": {"sec": seconds, "nanosec": ns},
            "level": number,
            "name": self._name,
            "msg": text,
        }
        try:
            self._out.publish(line)
        except EleaError as error:
            self._log.debug("not published: %s", error)
