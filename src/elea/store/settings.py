"""The section `plugins/storage_manager`, in Eclipse Zenoh's layout, read into plain values.

What is not understood is refused, with the nearest name that is; what a volume defines itself is
left to the volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from elea.config.kinds import Bool, Choice, Either, Free, Integer, Text, Value, public, refuse
from elea.config.section import FOREIGN, ByName, Converted, Section, Setting
from elea.config.shapes import KEY_EXPR, key_expr
from elea.errors import ConfigError, InvalidValueError
from elea.keyexpr.keyexpr import KeyExpr
from elea.store.backend import StorageConfig, VolumeConfig

NAME: Final = "storage_manager"
MEMORY: Final = "memory"
_ROOT: Final = f"plugins/{NAME}"
_NANOS: Final = 1_000_000_000
_SECONDS_MAX: Final = 100 * 365 * 86_400


def _name(text: str) -> str:
    """A name that can stand in a key of the admin space."""
    if len(KeyExpr(text).chunks) != 1 or "*" in text or text.startswith("@"):
        raise InvalidValueError("name", "a name is one chunk of a key, without wildcards")
    return text


def _key(text: str) -> str:
    if "*" in text:
        raise InvalidValueError("prefix", "a prefix has no wildcards")
    return key_expr(text)


def _not_aligned(value: object) -> object:
    # Better not to start than to lose what others were to have.
    raise InvalidValueError(
        "replication",
        "storages of several nodes are not aligned by this version; leave it out to keep the"
        " values on this node alone",
    )


_TO_NS: Final = _NANOS.__mul__
_VOLUME_OF_STORAGE: Final = Either(
    (
        Text("the name of a volume"),
        Free("an object with its name as `id`", object_only=True),
    )
)
_COLLECTION: Final = Section(
    (
        Setting(
            "period",
            Converted(Integer(1, _SECONDS_MAX), _TO_NS),
            "between two looks for what can be forgotten; 30",
            30 * _NANOS,
            legal="seconds",
        ),
        Setting(
            "lifespan",
            Converted(Integer(0, _SECONDS_MAX), _TO_NS),
            "how long deletions are remembered; 86400",
            86_400 * _NANOS,
            legal="seconds",
        ),
    )
)
STORAGE: Final = Section(
    (
        Setting("key_expr", KEY_EXPR, "the keys whose values are kept", needed=True),
        Setting(
            "volume",
            _VOLUME_OF_STORAGE,
            "where; the rest of the object is for the volume",
            legal="a name, or an object with `id`",
            needed=True,
        ),
        Setting(
            "strip_prefix",
            Text("a key", _key),
            "left out of keys towards the volume; it begins `key_expr`",
            None,
        ),
        Setting(
            "complete",
            Either((Bool(), Converted(Choice(("true", "false")), "true".__eq__))),
            "whether it knows every value of its keys; false",
            default=False,
            legal="true or false",
        ),
        Setting("garbage_collection", _COLLECTION, "", _COLLECTION.read({}, "")),
        Setting(
            "replication",
            Converted(Free("nothing"), _not_aligned),
            "this version does not align storages of several nodes",
            legal="not legal",
        ),
    )
)
VOLUME: Final = Section(
    (
        Setting(
            "backend",
            Text("the name of a volume"),
            "what it is: `memory`, `fs`, `sqlite`, `log`, or a package's; its name",
            legal="a name",
        ),
        Setting("__required__", Free(), "for Eclipse Zenoh, as `__path__`; without effect"),
    )
)
_SECTION: Final = Section(
    (
        Setting(
            "volumes",
            ByName(Free("an object", object_only=True), "an object of volumes by name", _name),
            "",
            default={},
        ),
        Setting(
            "storages", ByName(STORAGE, "an object of storages by name", _name), "", default={}
        ),
    ),
    (*FOREIGN, "backend_search_dirs"),
)


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """The whole section. `memory` is among the volumes whether it was named or not."""

    volumes: Mapping[str, VolumeConfig]
    storages: Mapping[str, StorageConfig]

    @classmethod
    def read(cls, settings: Mapping[str, Value]) -> ManagerConfig:
        """The configuration in a section.

        Raises:
            ConfigError: naming the key that is not legal.
        """
        section = _SECTION.read(settings, _ROOT)
        volumes = {MEMORY: VolumeConfig(MEMORY, MEMORY)}
        for name, options in section["volumes"].items():
            volumes[name] = _volume(name, options, f"{_ROOT}/volumes/{name}")
        storages = {
            name: _storage(name, one, f"{_ROOT}/storages/{name}")
            for name, one in section["storages"].items()
        }
        return cls(volumes, storages)

    def lines(self) -> Iterator[str]:
        """What is kept where, for people."""
        for storage in self.storages.values():
            volume = self.volumes.get(storage.volume)
            backend = "a volume that is not configured" if volume is None else volume.backend
            options = "".join(f", {name} {public(one)}" for name, one in storage.options.items())
            yield f"storage {storage.name}: keeps {storage.key_expr} in {backend}{options}"


def _volume(name: str, section: Mapping[str, Value], path: str) -> VolumeConfig:
    own = ("backend", "__required__", "__path__")
    chosen = VOLUME.read({key: section[key] for key in ("backend",) if key in section}, path)
    backend = chosen.get("backend", name)
    return VolumeConfig(name, backend, {key: v for key, v in section.items() if key not in own})


def _storage(name: str, section: Mapping[str, Any], path: str) -> StorageConfig:
    volume, options = _chosen(section["volume"], f"{path}/volume")
    key_expr, prefix = section["key_expr"], section["strip_prefix"]
    if prefix is not None and not f"{key_expr}/".startswith(f"{prefix}/"):
        got = f"expected whole chunks that begin {key_expr!a}, got {prefix!a}"
        raise ConfigError(f"{path}/strip_prefix", got)
    collection = section["garbage_collection"]
    return StorageConfig(
        name,
        key_expr,
        volume,
        options,
        prefix,
        section["complete"],
        collection["period"],
        collection["lifespan"],
    )


def _chosen(value: str | dict[str, Value], path: str) -> tuple[str, dict[str, Value]]:
    if isinstance(value, str):
        return value, {}
    name = value.get("id")
    if not isinstance(name, str):
        refuse(path, _VOLUME_OF_STORAGE.legal, value)
    return name, {key: one for key, one in value.items() if key != "id"}
