"""The section `plugins/recorder` of a configuration, read into recordings; and its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from elea.config.kinds import Value, unknown_key
from elea.errors import ConfigError, EleaError
from elea.store.flight.settings import KEYS as FLIGHT_KEYS
from elea.store.flight.settings import FlightSettings
from elea.store.log.settings import LogSettings
from elea.store.recorder.settings import RecordingSettings

NAME: Final = "recorder"
_ROOT: Final = f"plugins/{NAME}"
_SECTION: Final = ("__config__", "__path__", "__required__", "directory", "flight", "recordings")
_NS: Final = 1_000_000_000


class _Key(NamedTuple):
    name: str
    legal: str
    meaning: str
    field: str  # of LogSettings, or of RecordingSettings
    read: Callable[[Value], object]  # raises ValueError


def _number(least: int) -> Callable[[Value], object]:
    def read(value: Value) -> object:
        if type(value) is not int or value < least:
            raise ValueError
        return value

    return read


def _nanoseconds(value: Value) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError
    return int(value * _NS)


def _truth(value: Value) -> object:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _text(value: Value) -> object:
    if not isinstance(value, str):
        raise ValueError
    return value


def _texts(value: Value) -> object:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError
    return tuple(str(one) for one in value)


def _percent(value: Value) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    return value


_OF_RECORDING: Final = (
    _Key(
        "key_exprs",
        "key expressions that do not meet",
        "what is recorded; `fleet/{robot}/**` names a chunk",
        "key_exprs",
        _texts,
    ),
    _Key("name", "a name or template", "of the log, as `{robot}`; <name>", "name", _text),
    _Key(
        "liveliness", "true, false", "record tokens that come and go; false", "liveliness", _truth
    ),
    _Key("history", "true, false", "ask caches for what was before; false", "history", _truth),
    _Key("storages", "true, false", "ask storages, and all who answer; false", "storages", _truth),
    _Key("recovery", "true, false", "ask caches for what is missing; true", "recovery", _truth),
)
_OF_LOG: Final = (
    _Key("shards", "from 1", "of a log that is made; 1", "shards_count", _number(1)),
    _Key("compression", "zstd, lz4, none", "of rows that come in; none", "compression", _text),
    _Key("packing", "zstd, lz4, none", "of files that are closed; zstd", "packing", _text),
    _Key("pack_age", "seconds", "after the last row of a file; 600", "pack_age_ns", _nanoseconds),
    _Key("segment_len", "octets", "of one file; 134217728", "segment_len", _number(1)),
    _Key("segment_age", "seconds", "of one file; 3600", "segment_age_ns", _nanoseconds),
    _Key("retain_len", "octets", "the oldest go beyond; no bound", "retain_len", _number(1)),
    _Key("retain_age", "seconds", "older ones go; no bound", "retain_age_ns", _nanoseconds),
    _Key(
        "retain_consumed", "true, false", "go when all consumers have it", "retain_consumed", _truth
    ),
    _Key("quota", "octets", "refuse samples beyond; no bound", "quota_len", _number(1)),
    _Key(
        "low_water_percent", "0 to 100", "of the disk stay free; 5", "low_water_percent", _percent
    ),
)
_HEAD: Final = """
## `plugins/recorder`

Recordings of a router ([record.md](../howto/record.md)). The log of a recording is
`<directory>/<its name>`.

| key | meaning and default | legal |
| --- | --- | --- |
| `directory` | below which the logs are; needed | a path |
"""


def markdown() -> str:
    """The section as a part of `docs/reference/config.md`."""
    text = _HEAD
    for key in (*_OF_RECORDING, *_OF_LOG):
        text += f"| `recordings/<name>/{key.name}` | {key.meaning} | {key.legal} |\n"
    for name, legal, meaning in FLIGHT_KEYS:
        text += f"| `flight/{name}` | {meaning} | {legal} |\n"
    return text


def read_flight(settings: Mapping[str, Value]) -> FlightSettings | None:
    """How the logs can be read over Flight; None: not at all.

    Raises:
        ConfigError: naming the key that is not legal.
    """
    section = settings.get("flight")
    if section is None:
        return None
    if not isinstance(section, dict):
        raise ConfigError(f"{_ROOT}/flight", f"saw {section!a}; an object is legal")
    return FlightSettings.read(section)


def read(settings: Mapping[str, Value]) -> dict[str, RecordingSettings]:
    """The recordings of a section, by their names there.

    Raises:
        ConfigError: naming the key that is not legal.
    """
    _check_known(settings, _SECTION, _ROOT)
    sections = settings.get("recordings", {})
    if not isinstance(sections, dict):
        raise ConfigError(f"{_ROOT}/recordings", f"saw {sections!a}; an object is legal")
    if not sections:
        return {}
    directory = settings.get("directory")
    if not isinstance(directory, str) or not directory:
        raise ConfigError(
            f"{_ROOT}/directory", f"saw {directory!a}; the path of a directory is needed"
        )
    found: dict[str, RecordingSettings] = {}
    for name, section in sections.items():
        path = f"{_ROOT}/recordings/{name}"
        if not isinstance(section, dict):
            raise ConfigError(path, f"saw {section!a}; an object is legal")
        found[name] = _recording(name, section, Path(directory), path)
    _check_names(found)
    return found


def _recording(
    name: str, section: Mapping[str, Value], directory: Path, path: str
) -> RecordingSettings:
    keys = (*_OF_RECORDING, *_OF_LOG)
    _check_known(section, [key.name for key in keys], path)
    if "key_exprs" not in section:
        raise ConfigError(f"{path}/key_exprs", "it is missing, and needed")
    chosen = {key: _value(key, section[key.name], path) for key in keys if key.name in section}
    own = {key.field: value for key, value in chosen.items() if key in _OF_RECORDING}
    of_log = {key.field: value for key, value in chosen.items() if key in _OF_LOG}
    log_name = str(own.setdefault("name", name))
    place = directory if "{" in log_name else directory / log_name
    try:
        log = LogSettings(**of_log)  # type: ignore[arg-type]  # checked by _value
        return RecordingSettings(directory=place, log=log, **own)  # type: ignore[arg-type]
    except EleaError as error:
        raise ConfigError(path, str(error)) from error


def _value(key: _Key, value: Value, path: str) -> object:
    try:
        return key.read(value)
    except ValueError:
        raise ConfigError(f"{path}/{key.name}", f"saw {value!a}; legal: {key.legal}") from None


def _check_names(recordings: Mapping[str, RecordingSettings]) -> None:
    by_name: dict[str, str] = {}
    for section, one in recordings.items():
        other = by_name.setdefault(one.name, section)
        if other != section:
            raise ConfigError(
                f"{_ROOT}/recordings/{section}/name",
                f"saw {one.name!a}, as in {other!a}; one recording to a log is legal",
            )


def _check_known(
    section: Mapping[str, Value], names: tuple[str, ...] | list[str], path: str
) -> None:
    for name in section:
        if name not in names:
            raise unknown_key(f"{path}/{name}", [f"{path}/{one}" for one in sorted(names)])
