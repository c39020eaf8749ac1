"""Messages of ROS as text: YAML as `ros2 topic echo` prints it, fields, CSV; and the way back."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from elea.cli.exit_codes import reading_arguments
from elea.cli.output import printable
from elea.errors import InvalidValueError

if TYPE_CHECKING:
    from elea.ros.formats.definitions import Definition
    from elea.ros.formats.library import MessageType

_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./ -]*[A-Za-z0-9_./]|[A-Za-z_/]")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"})
_PATH: Final = re.compile(r"(?:[A-Za-z_]\w*|\[\d+\]|\.)+")
_STEP: Final = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]|\.")
CUT_COUNT: Final = 128
_TIME: Final = "builtin_interfaces/msg/Time"
_HEADER: Final = "std_msgs/msg/Header"


def as_yaml(value: Any, *, full: bool = True) -> str:
    """A value as YAML, lists longer than 128 items cut unless `full`.

    Example:
        >>> print(as_yaml({"data": "Hello World: 4", "xs": [1, 2]}))
        data: 'Hello World: 4'
        xs:
        - 1
        - 2
    """
    return "\n".join(_lines(value, 0, full=full))


def _lines(value: Any, depth: int, *, full: bool) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict):
        if not value:
            yield f"{pad}{{}}"
        for name, inner in value.items():
            if isinstance(inner, dict) and inner:
                yield f"{pad}{name}:"
                yield from _lines(inner, depth + 1, full=full)
            elif isinstance(inner, list) and inner:
                yield f"{pad}{name}:"
                yield from _items(inner, depth, full=full)
            else:
                yield f"{pad}{name}: {_scalar(inner)}"
    elif isinstance(value, list) and value:
        yield from _items(value, depth, full=full)
    else:
        yield f"{pad}{_scalar(value)}"


def _items(items: list[Any], depth: int, *, full: bool) -> Iterator[str]:
    pad = "  " * depth
    shown = items if full else items[:CUT_COUNT]
    for item in shown:
        if isinstance(item, (dict, list)) and item:
            first, *rest = _lines(item, depth + 1, full=full)
            yield f"{pad}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{pad}- {_scalar(item)}"
    if len(shown) < len(items):
        yield f"{pad}- '...'"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return ".nan"
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        return repr(value)
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    if not isinstance(value, str):
        return str(value)
    if not value.isprintable():
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return "'" + value.replace("'", "''") + "'"


def reduced(value: Any, *, no_arrays: bool, no_texts: bool) -> Any:
    """A value with arrays or texts replaced by what they are."""
    if isinstance(value, dict):
        return {
            name: reduced(inner, no_arrays=no_arrays, no_texts=no_texts)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        if no_arrays:
            return f"<array of {len(value)}>"
        return [reduced(inner, no_arrays=no_arrays, no_texts=no_texts) for inner in value]
    if isinstance(value, str) and no_texts:
        return f"<text of {len(value)}>"
    return value


def field_of(value: Any, path: str) -> Any:
    """What is at a path such as `a.b[0]`.

    Raises:
        InvalidValueError: there is nothing.

    Example:
        >>> field_of({"a": {"b": [7, 8]}}, "a.b[1]")
        8
    """
    at = 0
    for match in _STEP.finditer(path):
        if match.start() != at:
            break
        at = match.end()
        name, index = match[1], match[2]
        try:
            if name is not None:
                value = value[name]
            elif index is not None:
                value = value[int(index)]
        except (KeyError, IndexError, TypeError):
            raise InvalidValueError("field", f"{path!a}: the message has no such member") from None
    if at != len(path) or not path:
        raise InvalidValueError("field", f"expected a path such as a.b[0], got {path!a}")
    return value


def as_csv(value: Any) -> str:
    """All scalars of a value, separated by commas."""
    return ",".join(_csv_cells(value))


def _csv_cells(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _csv_cells(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _csv_cells(inner)
    elif isinstance(value, str):
        text = printable(value)
        yield '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text
    else:
        yield _scalar(value)


def check_path(path: str) -> None:
    """Check a path such as `a.b[0]`, whatever the message is.

    Raises:
        UsageError: it is none.
    """
    with reading_arguments():
        if _PATH.fullmatch(path) is None:
            raise InvalidValueError("field", f"expected a path such as a.b[0], got {path!a}")


def read_yaml(text: str) -> Any:
    """What somebody wrote as YAML on the command line; nothing is a mapping without members.

    Raises:
        UsageError: it is no YAML.
    """
    from elea.config import yaml_text

    with reading_arguments():
        value = yaml_text.loads(text) if text.strip() else None
    return {} if value is None else value


def filled(value: Any, kind: MessageType) -> Any:
    """A message as it was written, with `now` and `auto` filled (R2-503)."""
    return _filled(value, kind.definition, kind)


def _filled(value: Any, definition: Definition, kind: MessageType) -> Any:
    from elea.ros.formats.definitions import Repeat

    if not isinstance(value, dict):
        return value
    found = dict(value)
    for field in definition.fields:
        given = found.get(field.name)
        base = field.type.base
        if field.type.repeat is not Repeat.ONE or base not in kind.definitions or given is None:
            continue
        if base == _TIME and given == "now":
            found[field.name] = _now()
        elif base == _HEADER and given == "auto":
            found[field.name] = {"stamp": _now()}
        else:
            found[field.name] = _filled(given, kind.definitions[base], kind)
    return found


def _now() -> dict[str, int]:
    seconds, ns = divmod(time.time_ns(), 1_000_000_000)
    return {"sec": seconds, "nanosec": ns}
