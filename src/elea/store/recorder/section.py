"""The section `plugins/recorder` of a configuration, read into recordings; and its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

from elea.config.kinds import Bool, Choice, Free, Integer, Text, Value, refuse
from elea.config.section import FOREIGN, Bounded, ByName, FilePath, Section, Setting, Several
from elea.errors import ConfigError, EleaError
from elea.store.flight.settings import SECTION as FLIGHT
from elea.store.flight.settings import FlightSettings
from elea.store.log.settings import COMPRESSIONS, LogSettings
from elea.store.recorder.settings import RecordingSettings

NAME: Final = "recorder"
_ROOT: Final = f"plugins/{NAME}"
_NS: Final = 1_000_000_000
_LEN: Final = Integer(1)


@dataclass(frozen=True, slots=True)
class _Seconds:
    """A time, in nanoseconds."""

    legal: str = "seconds, more than 0"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def read(self, value: Value, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf:
            refuse(path, self.legal, value)
        return int(value * _NS)


_CODEC: Final = Choice(COMPRESSIONS)
_OF_RECORDING: Final = (
    Setting(
        "key_exprs",
        Several(Text("key expressions that do not meet")),
        "what is recorded; `fleet/{robot}/**` names a chunk",
        legal="key expressions that do not meet",
        needed=True,
    ),
    Setting("name", Text("a name or template"), "of the log, as `{robot}`; <name>"),
    Setting("liveliness", Bool(), "record tokens that come and go; false"),
    Setting("history", Bool(), "ask caches for what was before; false"),
    Setting("storages", Bool(), "ask storages, and all who answer; false"),
    Setting("recovery", Bool(), "ask caches for what is missing; true"),
)
_OF_LOG: Final = (
    Setting("shards", _LEN, "of a log that is made; 1", field="shards_count"),
    Setting("compression", _CODEC, "of rows that come in; none"),
    Setting("packing", _CODEC, "of files that are closed; zstd"),
    Setting("pack_age", _Seconds(), "after the last row of a file; 600", field="pack_age_ns"),
    Setting("segment_len", _LEN, "bytes of one file; 134217728"),
    Setting("segment_age", _Seconds(), "of one file; 3600", field="segment_age_ns"),
    Setting("retain_len", _LEN, "bytes; the oldest go beyond; no bound"),
    Setting("retain_age", _Seconds(), "older ones go; no bound", field="retain_age_ns"),
    Setting(
        "retain_consumed", Bool(), "delete a segment once every consumer has committed it; false"
    ),
    Setting("quota", _LEN, "bytes; refuse samples beyond; no bound", field="quota_len"),
    Setting("low_water_percent", Bounded(0, 100), "of the disk stay free; 5"),
)
_RECORDING: Final = Section((*_OF_RECORDING, *_OF_LOG))
_SECTION: Final = Section(
    (
        Setting(
            "directory", FilePath("the path of a directory"), "below which the logs are; needed"
        ),
        Setting(
            "flight", Free("an object", object_only=True), "how they are read over Arrow Flight"
        ),
        Setting("recordings", ByName(_RECORDING, "an object of recordings by name"), "by name"),
    ),
    FOREIGN,
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
    return _HEAD + _RECORDING.rows("recordings/<name>/") + FLIGHT.rows("flight/")


def read_flight(settings: Mapping[str, Value]) -> FlightSettings | None:
    """How the logs can be read over Flight; None: not at all.

    Raises:
        ConfigError: naming the key that is not legal.
    """
    section = settings.get("flight")
    if section is None:
        return None
    if not isinstance(section, dict):
        refuse(f"{_ROOT}/flight", "an object", section)
    return FlightSettings.read(section)


def read(settings: Mapping[str, Value]) -> dict[str, RecordingSettings]:
    """The recordings of a section, by their names there.

    Raises:
        ConfigError: naming the key that is not legal.
    """
    section = _SECTION.read(settings, _ROOT)
    chosen = section.get("recordings")
    if not chosen:
        return {}
    directory = directory_of(settings)
    found = {
        name: _recording(name, one, directory, f"{_ROOT}/recordings/{name}")
        for name, one in chosen.items()
    }
    _check_names(found)
    return found


def directory_of(settings: Mapping[str, Value]) -> Path:
    """The directory of a section, which one without recordings can start without.

    Raises:
        ConfigError: it has none.
    """
    directory = _SECTION.read(settings, _ROOT).get("directory")
    if directory is None:
        raise ConfigError(f"{_ROOT}/directory", "expected the path of a directory, got nothing")
    return Path(directory)


def _recording(
    name: str, chosen: Mapping[str, Any], directory: Path, path: str
) -> RecordingSettings:
    own = {key.name: chosen[key.name] for key in _OF_RECORDING if key.name in chosen}
    of_log = {field: value for field, value in chosen.items() if field not in own}
    log_name = own.setdefault("name", name)
    place = directory if "{" in log_name else directory / log_name
    try:
        return RecordingSettings(directory=place, log=LogSettings(**of_log), **own)
    except EleaError as error:
        raise ConfigError(path, str(error)) from error


def _check_names(recordings: Mapping[str, RecordingSettings]) -> None:
    by_name: dict[str, str] = {}
    for section, one in recordings.items():
        other = by_name.setdefault(one.name, section)
        if other != section:
            got = f"expected one recording for a log, got {one.name!a} for {other!a} as well"
            raise ConfigError(f"{_ROOT}/recordings/{section}/name", got)
