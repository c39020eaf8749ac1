"""YAML configuration texts, read as data only (extra `yaml`).

The events of PyYAML's parser are put together here, with the bounds of `elea.limits` checked before
each step: no constructor runs, no tag is honoured, an alias costs what it stands for, and nothing
recurses. Plain scalars mean what YAML 1.2 says: `no` is a text.
"""

from __future__ import annotations

import re
from typing import Final

from elea.errors import ConfigError, LimitError, MissingDependencyError
from elea.json5 import Json, join_surrogates
from elea.limits import DEFAULT_LIMITS, Limits

_NUMBER_LEN_MAX: Final = 64
_NULL: Final = ("", "~", "null", "Null", "NULL")
_BOOL: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final = {
    **dict.fromkeys((".inf", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}


def loads(text: str, limits: Limits = DEFAULT_LIMITS) -> Json:
    """The value of a YAML text with one document.

    Raises:
        ConfigError: with line and column, if the text is no YAML or no plain data.
        LimitError: if it is longer, deeper or larger than the limits allow.
        MissingDependencyError: if PyYAML is not installed.
    """
    try:
        import yaml  # an optional extra: only who reads YAML pays for it
    except ImportError:
        raise MissingDependencyError("reading YAML", "yaml") from None
    if len(text) > limits.config_len:
        raise LimitError("config_len", len(text), limits.config_len)
    depth_max = limits.config_depth

    class Loader(yaml.SafeLoader):
        """Its scanner reads ahead of the events, in a time that is quadratic in the depth."""

        def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
            if self.flow_level > depth_max:
                raise LimitError("config_depth", self.flow_level, depth_max)
            super().fetch_flow_collection_start(token)

    builder = _Builder(limits)
    try:
        for event in yaml.parse(text, Loader=Loader):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "no YAML"
        raise ConfigError("", f"{_place(error.problem_mark)}{problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        # Characters YAML forbids, and escapes that name no character.
        raise ConfigError("", f"no YAML: {str(error).splitlines()[0][:80]!a}") from None
    return builder.root


class _Frame:
    """A list or an object that is not closed yet."""

    __slots__ = ("anchor", "count_before", "key", "value")

    def __init__(
        self, value: list[Json] | dict[str, Json], anchor: str | None, count_before: int
    ) -> None:
        self.value = value
        self.anchor = anchor
        self.count_before = count_before
        self.key: str | None = None


class _Builder:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.root: Json = None
        self.documents_count = 0
        self.count = 0
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Json, int]] = {}

    def feed(self, event: object) -> None:
        kind = type(event).__name__
        mark = getattr(event, "start_mark", None)
        tag, anchor = getattr(event, "tag", None), getattr(event, "anchor", None)
        if tag is not None:
            raise ConfigError("", f"{_place(mark)}tags are not legal in a configuration")
        match kind:
            case "DocumentStartEvent":
                self.documents_count += 1
                if self.documents_count > 1:
                    raise ConfigError("", f"{_place(mark)}expected one document only")
            case "MappingStartEvent":
                self.open({}, anchor)
            case "SequenceStartEvent":
                self.open([], anchor)
            case "MappingEndEvent" | "SequenceEndEvent":
                frame = self.stack.pop()
                self.remember(frame.anchor, frame.value, self.count - frame.count_before)
                self.put(frame.value, mark)
            case "ScalarEvent":
                self.charge(1)
                plain = bool(getattr(event, "implicit", (False,))[0])
                scalar = _scalar(join_surrogates(str(getattr(event, "value", ""))), plain)
                self.remember(anchor, scalar, 1)
                self.put(scalar, mark)
            case "AliasEvent":
                if anchor not in self.anchors:
                    raise ConfigError("", f"{_place(mark)}unknown or unfinished anchor")
                value, count = self.anchors[anchor]
                self.charge(count)
                self.put(value, mark)

    def charge(self, count: int) -> None:
        self.count += count
        if self.count > self.limits.config_nodes_count:
            raise LimitError("config_nodes_count", self.count, self.limits.config_nodes_count)

    def open(self, value: list[Json] | dict[str, Json], anchor: str | None) -> None:
        if len(self.stack) > self.limits.config_depth:
            raise LimitError("config_depth", len(self.stack), self.limits.config_depth)
        self.stack.append(_Frame(value, anchor, self.count))
        self.charge(1)

    def remember(self, anchor: str | None, value: Json, count: int) -> None:
        if anchor is not None:
            self.anchors[anchor] = (value, count)

    def put(self, value: Json, mark: object) -> None:
        if not self.stack:
            self.root = value
            return
        frame = self.stack[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is None:
            if not isinstance(value, (str, int, float)):
                raise ConfigError("", f"{_place(mark)}a name must be a text")
            frame.key = value if isinstance(value, str) else str(value)
            if frame.key in frame.value:
                raise ConfigError("", f"{_place(mark)}the name {frame.key[:40]!a} occurs twice")
        else:
            frame.value[frame.key] = value
            frame.key = None


def _scalar(text: str, plain: bool) -> Json:
    if not plain:
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) > _NUMBER_LEN_MAX:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def _place(mark: object) -> str:
    line, column = getattr(mark, "line", None), getattr(mark, "column", None)
    if line is None or column is None:
        return ""
    return f"line {line + 1}, column {column + 1}: "
