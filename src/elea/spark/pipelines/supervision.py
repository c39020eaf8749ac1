"""Supervision: what failed is begun again, later each time, and not for ever."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elea import errors

ATTEMPTS_MAX: Final = 10  # failures in a row after which something is given up
OF_USER: Final = (Exception, SystemExit)  # what code of a user may raise: a thread would end
_FIRST_S: Final = 1.0
_LAST_S: Final = 60.0
_GOOD_S: Final = 300.0  # who worked that long has not failed in a row
_SHOWN_LEN: Final = 500
_BOXES: Final = re.compile(r"[\u2500-\u259f]+")  # that frame a text
_FRAME: Final = re.compile(r'File "([^"]+)", line ([0-9]+)')
_NOT_THE_USERS: Final = ("/pyspark/", "/pyspark.zip/", "/py4j/", "/runpy.py", "/lib/python")
_OURS: Final = f"{Path(errors.__file__).parent}{os.sep}"  # a user's folder may be called elea, too
_PLAN: Final = re.compile(r"; ['+*]")  # where Spark's message goes on with a plan of the query
# What is raised again however often it is tried: by code of a user, or by a definition.
_FINAL: Final = frozenset(
    one.__name__
    for one in (
        *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError),
        *(RecursionError, SyntaxError, TypeError, ValueError),
        *(ZeroDivisionError, OverflowError, IndexError, KeyError, ModuleNotFoundError),
        *(UnboundLocalError, UnicodeError, UnicodeDecodeError, UnicodeEncodeError),
    )
) | {"AnalysisException", "ParseException", "ConfigError", "SystemExit"}
_AT_USER: Final = re.compile(r" \([^()]+:[0-9]+\)$")  # how an error ends that has a place
_NAME: Final = re.compile(r"(?:[A-Za-z_][\w.]*\.)?(\w+(?:Error|Exception)|SystemExit)\b")
_OF_ELEA: Final = re.compile(r"elea\.errors\.\w+: ")
_RAISED: Final = re.compile(r"([\w.]+(Error|Exception)|SystemExit)(:|$)")


@dataclass(slots=True)
class Supervision:
    """Of one query or one table: whether it may begin, and what went wrong.

    Attributes:
        restarts_count: How often it was begun again.
        error: What went wrong last; None: nothing did.
    """

    attempts_max: int = ATTEMPTS_MAX
    restarts_count: int = 0
    error: str | None = None
    failures_count: int = 0
    _is_repeated: bool = False
    _next_s: float = 0.0
    _begun_s: float | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether it failed too often."""
        return self.failures_count >= self.attempts_max

    def may_begin(self, now_s: float) -> bool:
        """Whether it is time to begin, or to begin again."""
        return not self.is_given_up and now_s >= self._next_s

    def begins(self, now_s: float) -> None:
        """It begins now."""
        if self.failures_count:
            self.restarts_count += 1
        self._begun_s = now_s

    @property
    def is_hopeless(self) -> bool:
        """Whether it failed in a way that does not change by trying again.

        So does an error of any kind that code of the user raises at the same place twice.
        """
        is_failed = self.failures_count > 0 and self.error is not None
        return is_failed and (self._is_repeated or is_final(self.error or ""))

    def give_up(self) -> None:
        """Do not begin again."""
        self.failures_count = max(self.failures_count, self.attempts_max)

    def works(self) -> None:
        """It has done what it is for."""
        self.failures_count = 0

    def fails(self, error: BaseException | str, now_s: float) -> None:
        """It ended with an error."""
        if self._begun_s is not None and now_s - self._begun_s >= _GOOD_S:
            self.failures_count = 0
        self._begun_s = None
        before = self.error if self.failures_count else None
        self.failures_count += 1
        self.error = told(error)
        self._is_repeated = self.error == before and _AT_USER.search(self.error) is not None
        wait_s = min(_FIRST_S * 2 ** (self.failures_count - 1), _LAST_S)
        self._next_s = now_s + wait_s


def is_final(text: str) -> bool:
    """Whether an error, as `told` has it, is one of code or of a definition: it comes again."""
    found = _NAME.match(text)
    return found is not None and found[1] in _FINAL


def told(error: BaseException | str) -> str:
    """An error in a line: of Spark's the message, without Java's frames; of Python's the place."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    lines = [_BOXES.sub(" ", line).strip() for line in text.splitlines()]
    chosen = [
        line for line in lines if line and not line.startswith(("at ", "JVM stacktrace", "---"))
    ]
    place = _place_in(lines)
    if any("Traceback (most" in line or line.startswith("Traceback") for line in chosen):
        # Of Python's frames, what was raised is at the end.
        chosen = [line for line in chosen if _RAISED.match(line)][-1:] or chosen
    else:
        # Of what Spark says around an error of Elea, that error.
        ours = [line[at.start() :] for line in chosen if (at := _OF_ELEA.search(line))]
        chosen = ours[-1:] or chosen
    if place is None and isinstance(error, BaseException):
        place = _place_of(error)
    shown = _PLAN.split(" ".join(" ".join(chosen).split()), maxsplit=1)[0][:_SHOWN_LEN]
    return shown if place is None else f"{shown} ({place})"


def _place_in(lines: Sequence[str]) -> str | None:
    """File and line of the last frame that is a user's, in a traceback as text."""
    frames = [match for line in lines if (match := _FRAME.match(line)) is not None]
    theirs = [(match[1], match[2]) for match in frames if _is_users(match[1])]
    return f"{theirs[-1][0]}:{theirs[-1][1]}" if theirs else None


def _place_of(error: BaseException) -> str | None:
    """The same, of an error that was raised here."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [one for one in frames if _is_users(one.filename)]
    return f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else None


def _is_users(file: str) -> bool:
    if file.startswith(("<", _OURS)):
        return False
    return not any(part in file for part in _NOT_THE_USERS)
