"""Messages of a browser, in the live protocol `elea.live.v1`: JSON texts.

{"hello": 1, "ticket": "..."}                   first, within seconds
{"want": {"id": 7, "kind": "rows", ...}}        begin to want something, or want it otherwise
{"drop": 7}                                     want it no more
{"next": 1, "seen": 41}                         one frame may be sent
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from elea.limits import Limits

_ID_MAX: Final = (1 << 31) - 1


class MessageError(Exception):
    """A message that is not legal, and why."""


class Kind(Enum):
    """What a browser may want."""

    STATUS = "status"  # the sentences of the first view, and what changed
    NODES = "nodes"  # nodes and their sessions
    LOG = "log"  # logs that are recorded here
    DEVICES = "devices"  # devices of a gateway here, bridges to DDS
    FEED = "feed"  # what happened, what was refused to whom, the audit
    PIPELINES = "pipelines"  # pipelines and their tables; of a key, those it goes into
    ALERTS = "alerts"  # alerts that are raised, and those of a day
    TREE = "tree"  # rows of the tree of declared keys, or keys that hold some words
    ROWS = "rows"  # last values of keys in view
    SERIES = "series"  # numbers of each new sample of a key
    VALUE = "value"  # one value in full, and who uses its key


@dataclass(frozen=True, slots=True)
class Hello:
    """Who it is."""

    ticket: str


@dataclass(frozen=True, slots=True)
class Want:
    """What it wants from now on."""

    id: int
    kind: Kind
    keys: tuple[str, ...] = ()  # of a tree: those that are open
    words: str = ""
    offset: int = 0
    limit: int = 0
    fields: tuple[str, ...] = ()  # of a series


@dataclass(frozen=True, slots=True)
class Drop:
    """What it wants no more."""

    id: int


@dataclass(frozen=True, slots=True)
class Next:
    """It can show one more frame."""


Message: TypeAlias = Hello | Want | Drop | Next


def parse(text: str, limits: Limits) -> Message:
    """Read a message.

    Raises:
        MessageError: it is not legal.
    """
    if len(text) > limits.ui_message_len:
        raise MessageError(f"{len(text)} characters exceed {limits.ui_message_len}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError("it is not JSON") from None
    if not isinstance(value, dict):
        raise MessageError("expected an object")
    if value.get("hello") == 1:
        return Hello(_text(value, "ticket"))
    if isinstance(value.get("want"), dict):
        return _want(value["want"], limits)
    if "drop" in value:
        return Drop(_number(value, "drop", _ID_MAX))
    if value.get("next") == 1:
        return Next()
    raise MessageError("expected hello, want, drop or next")


def _want(value: dict[str, object], limits: Limits) -> Want:
    try:
        kind = Kind(value.get("kind"))
    except ValueError:
        raise MessageError(f"expected a kind of {', '.join(one.value for one in Kind)}") from None
    count_max = (
        1 if kind in (Kind.VALUE, Kind.SERIES, Kind.PIPELINES) else limits.ui_watched_per_want_count
    )
    keys = _texts(value, "keys", count_max)
    fields = _texts(value, "fields", limits.series_fields_count)
    return Want(
        _number(value, "id", _ID_MAX),
        kind,
        keys,
        _text(value, "words"),
        _number(value, "offset", _ID_MAX),
        _number(value, "limit", limits.ui_rows_count),
        fields,
    )


def _texts(value: dict[str, object], name: str, count_max: int) -> tuple[str, ...]:
    texts = value.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise MessageError(f"expected a list of texts for {name}")
    if len(texts) > count_max:
        raise MessageError(f"{len(texts)} {name} exceed {count_max}")
    return tuple(texts)


def _text(value: dict[str, object], name: str) -> str:
    text = value.get(name, "")
    if not isinstance(text, str):
        raise MessageError(f"expected a text for {name}")
    return text


def _number(value: dict[str, object], name: str, most: int) -> int:
    number = value.get(name, 0)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise MessageError(f"expected a whole number from 0 to {most} for {name}")
    return number
