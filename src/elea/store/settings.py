"""The section `plugins/storage_manager`, in Eclipse Zenoh's layout, read into plain values.

What is not understood is refused, with the nearest name that is; what a volume defines itself is
left to the volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from elea.config.kinds import Value, public, unknown_key
from elea.errors import ConfigError, KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.store.backend import StorageConfig, VolumeConfig

NAME: Final = "storage_manager"
MEMORY: Final = "memory"
_ROOT: Final = f"plugins/{NAME}"
_SECTION: Final = ("__config__", "__path__", "__required__", "backend_search_dirs")
_NANOS: Final = 1_000_000_000
_SECONDS_MAX: Final = 100 * 365 * 86_400

# Of one storage: name, what is legal, what it means. `docs/reference/config.md` shows them.
STORAGE_KEYS: Final = (
    ("key_expr", "a key expression", "the keys whose values are kept"),
    ("volume", "a name, or an object with `id`", "where; the rest of the object is for the volume"),
    ("strip_prefix", "a key", "left out of keys towards the volume; it begins `key_expr`"),
    ("complete", "true or false", "whether it knows every value of its keys; false"),
    ("garbage_collection/period", "seconds", "between two looks for what can be forgotten; 30"),
    ("garbage_collection/lifespan", "seconds", "how long deletions are remembered; 86400"),
    ("replication", "not legal", "this version does not align storages of several nodes"),
)
VOLUME_KEYS: Final = (
    ("backend", "a name", "what it is: `memory`, `fs`, `sqlite`, `log`, or a package's; its name"),
    ("__required__", "anything", "for Eclipse Zenoh, as `__path__`; without effect"),
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
        _known(settings, (*_SECTION, "volumes", "storages"), _ROOT)
        volumes = {MEMORY: VolumeConfig(MEMORY, MEMORY)}
        for name, section in _sections(settings, "volumes"):
            volumes[name] = _volume(name, section, f"{_ROOT}/volumes/{name}")
        storages = {
            name: _storage(name, section, f"{_ROOT}/storages/{name}")
            for name, section in _sections(settings, "storages")
        }
        return cls(volumes, storages)

    def lines(self) -> Iterator[str]:
        """What is kept where, for people."""
        for storage in self.storages.values():
            volume = self.volumes.get(storage.volume)
            backend = "a volume that is not configured" if volume is None else volume.backend
            options = "".join(f", {name} {public(one)}" for name, one in storage.options.items())
            yield f"storage {storage.name}: keeps {storage.key_expr} in {backend}{options}"


def _sections(settings: Mapping[str, Value], key: str) -> list[tuple[str, Mapping[str, Value]]]:
    path = f"{_ROOT}/{key}"
    found: list[tuple[str, Mapping[str, Value]]] = []
    for name, section in _object(settings.get(key, {}), path).items():
        if not _is_name(name):
            legal = "a name is one chunk of a key, without wildcards"
            raise ConfigError(path, f"saw the name {name!a}; {legal}")
        found.append((name, _object(section, f"{path}/{name}")))
    return found


def _is_name(name: str) -> bool:
    """Whether it can stand in a key of the admin space."""
    try:
        return len(KeyExpr(name).chunks) == 1 and "*" not in name and not name.startswith("@")
    except KeyExprError:
        return False


def _volume(name: str, section: Mapping[str, Value], path: str) -> VolumeConfig:
    backend = section.get("backend", name)
    if not isinstance(backend, str):
        raise ConfigError(f"{path}/backend", f"saw {backend!a}; the name of a volume is legal")
    own = ("backend", "__required__", "__path__")
    return VolumeConfig(name, backend, {key: v for key, v in section.items() if key not in own})


def _storage(name: str, section: Mapping[str, Value], path: str) -> StorageConfig:
    _known(section, {key.partition("/")[0] for key, _, _ in STORAGE_KEYS}, path)
    if section.get("replication") is not None:
        # Better not to start than to lose what others were to have.
        raise ConfigError(
            f"{path}/replication",
            "storages of several nodes are not aligned by this version; leave it out to keep the"
            " values on this node alone",
        )
    key_expr = _key(section.get("key_expr"), f"{path}/key_expr", "a key expression")
    volume, options = _chosen(section.get("volume"), f"{path}/volume")
    period_ns, lifespan_ns = _collection(
        section.get("garbage_collection"), f"{path}/garbage_collection"
    )
    return StorageConfig(
        name,
        key_expr,
        volume,
        options,
        _prefix(section.get("strip_prefix"), key_expr, f"{path}/strip_prefix"),
        _complete(section.get("complete"), f"{path}/complete"),
        period_ns,
        lifespan_ns,
    )


def _key(value: Value, path: str, legal: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(path, f"saw {value!a}; {legal} is legal, and needed")
    try:
        return str(KeyExpr(value))
    except KeyExprError as error:
        raise ConfigError(path, str(error)) from None


def _prefix(value: Value, key_expr: str, path: str) -> str | None:
    if value is None:
        return None
    prefix = _key(value, path, "a key")
    if "*" in prefix:
        raise ConfigError(path, f"saw {prefix!a}; a prefix has no wildcards")
    if not f"{key_expr}/".startswith(f"{prefix}/"):
        raise ConfigError(path, f"saw {prefix!a}; whole chunks that begin {key_expr!a} are legal")
    return prefix


def _complete(value: Value, path: str) -> bool:
    known: dict[Value, bool] = {"true": True, "false": False}
    if value is None or isinstance(value, bool):
        return bool(value)
    if not isinstance(value, str) or value not in known:
        raise ConfigError(path, f"saw {value!a}; true and false are legal")
    return known[value]


def _chosen(value: Value, path: str) -> tuple[str, dict[str, Value]]:
    if isinstance(value, str):
        return value, {}
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        return str(value["id"]), {key: one for key, one in value.items() if key != "id"}
    legal = "the name of a volume, or an object with its name as `id`"
    raise ConfigError(path, f"saw {value!a}; {legal} is legal, and needed")


def _collection(value: Value, path: str) -> tuple[int, int]:
    section = {} if value is None else _object(value, path)
    _known(section, ("period", "lifespan"), path)
    seconds = []
    for name, default, least in (("period", 30, 1), ("lifespan", 86_400, 0)):
        given = section.get(name, default)
        if type(given) is not int or not least <= given <= _SECONDS_MAX:
            raise ConfigError(f"{path}/{name}", f"saw {given!a}; whole seconds are legal")
        seconds.append(given * _NANOS)
    return seconds[0], seconds[1]


def _object(value: Value, path: str) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise ConfigError(path, f"saw {value!a}; an object is legal")
    return value


def _known(section: Mapping[str, Value], names: tuple[str, ...] | set[str], path: str) -> None:
    for name in section:
        if name not in names:
            raise unknown_key(f"{path}/{name}", [f"{path}/{one}" for one in sorted(names)])
