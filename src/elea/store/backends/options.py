"""Options of the volumes that Elea brings: which there are, what they mean, who has which."""

from __future__ import annotations

from typing import Final

from elea.config.kinds import Choice, Text
from elea.config.section import Bounded, Converted, Section, Setting

_LEN_MAX: Final = 1 << 60
_SECONDS_MAX: Final = 100 * 365 * 86_400


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


# Of a volume.
ROOT: Final = Setting("root", Text(), "the directory below which it writes", default=None)
LOW_WATER: Final = Setting(  # for all who write there (T41)
    "low_water_percent", Bounded(0, 100), "of the disk that stays free; 5", 5.0
)

# Of a storage.
DIR: Final = Setting("dir", Text(), "its place below `root`; its name", default=None)
QUOTA: Final = Setting(
    "quota",
    Converted(Bounded(0, _LEN_MAX), int),
    "bytes it may hold; no bound, 256 MiB in memory",
    default=None,
)
HISTORY: Final = Setting(
    "history", Choice(("latest", "all")), "`latest` or `all` values; latest", default="latest"
)
RETAIN: Final = Setting(
    "retain",
    Converted(Bounded(1, _LEN_MAX), int),
    "bytes; the oldest values go beyond them",
    default=None,
)
RETAIN_AGE: Final = Setting(
    "retain_age",
    Converted(Bounded(1, _SECONDS_MAX), _nanoseconds),
    "seconds; values that are older may go",
    default=None,
)

NONE: Final = Section(())
ON_DISK: Final = Section((ROOT, LOW_WATER))
IN_MEMORY: Final = Section((QUOTA, HISTORY))
IN_FILES: Final = Section((DIR, QUOTA))
IN_SQLITE: Final = Section((DIR, QUOTA, HISTORY))
IN_LOG: Final = Section((DIR, QUOTA, RETAIN, RETAIN_AGE))

# By volume: its own options, and those of its storages.
VOLUMES: Final = {
    "memory": (NONE, IN_MEMORY),
    "fs": (ON_DISK, IN_FILES),
    "sqlite": (ON_DISK, IN_SQLITE),
    "log": (ON_DISK, IN_LOG),
}
PLACES: Final = ("volumes/<volume>", "storages/<name>/volume")


def rows() -> str:
    """All options as rows of the reference."""
    text = ""
    for place, where in enumerate(PLACES):
        keys = {key.name: key for both in VOLUMES.values() for key in both[place].keys}
        for key in sorted(keys.values(), key=_ORDER.index):
            names = [name for name, both in VOLUMES.items() if key in both[place].keys]
            which = ", ".join(f"`{name}`" for name in names)
            shown = "all" if len(names) == len(VOLUMES) else which
            text += f"| `{where}/{key.name}` | {key.meaning} | for {shown} |\n"
    return text


_ORDER: Final = (ROOT, LOW_WATER, DIR, QUOTA, HISTORY, RETAIN, RETAIN_AGE)
