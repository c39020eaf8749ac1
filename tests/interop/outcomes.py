"""Runs one thing with Elea and with zenoh-python, and says whether the outcome is the same.

An error counts as the same if a program that catches the one catches the other.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from typing import Any

import zenoh
import zenoh.ext

import elea


def seen(value: Any) -> object:
    """A value without what only tells which implementation it is of."""
    if value is None or isinstance(value, (bool, datetime.datetime, datetime.timedelta)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [seen(one) for one in value]
    if isinstance(value, dict):
        return {key: seen(one) for key, one in value.items()}
    if isinstance(value, type):
        return value.__name__
    name = type(value).__name__
    if isinstance(value, (int, float, str, bytes)) and not isinstance(value, enum.Enum):
        return name, value
    return name, bytes(value) if name == "ZBytes" else str(value)


def outcome(run: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "value", seen(run())
    except Exception as error:
        return "error", error


def same(theirs: tuple[str, Any], ours: tuple[str, Any]) -> bool:
    if theirs[0] != ours[0] or theirs[0] == "value":
        return theirs == ours
    family = {zenoh.ZError: elea.ZError, zenoh.ext.ZDeserializeError: elea.ext.ZDeserializeError}
    return isinstance(ours[1], family.get(type(theirs[1]), type(theirs[1])))
