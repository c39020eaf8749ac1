"""Config: the settings of a node, from a mapping or a text; files are read by `elea.config_file`.

Only what was set is stored, by path; defaults come from the schema. Values are checked as they come
in, so a Config that exists is valid key by key; `validate` checks what concerns several keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import ClassVar, Final, Self, TypeGuard, TypeVar

from elea.config import yaml_text
from elea.config.kinds import (
    Free,
    Kind,
    PerMode,
    Record,
    Value,
    describe,
    has_secret,
    is_per_mode,
    public,
    refuse,
    unknown_key,
)
from elea.config.schema import BY_PATH, CHILDREN, KEYS, Key
from elea.errors import ConfigError, LimitError
from elea.ids import WhatAmI, ZenohId
from elea.json5 import Json, loads
from elea.limits import DEFAULT_LIMITS, Limits
from elea.locator import Endpoint
from elea.secret import Secret

T = TypeVar("T", bool, int, float, str)
_USER: Final = "transport/auth/usrpwd/user"
_PASSWORD: Final = "transport/auth/usrpwd/password"  # noqa: S105  # the name of a key


class Config:
    """The configuration of a node, in Eclipse Zenoh's key layout.

    Paths join names with slashes, such as `scouting/multicast/enabled`. Passwords and private keys
    are `Secret`s: they show as `***` in `str`, `repr` and `get_json`, and do not pickle.

    Example:
        >>> config = Config.from_json5('{mode: "client", connect: {endpoints: ["tcp/host:7447"]}}')
        >>> config.insert_json5("scouting/multicast/enabled", "false")
        >>> config.mode, config.value("scouting/multicast/enabled", bool)
        (WhatAmI.CLIENT, False)
        >>> config.get_json("connect/endpoints")
        '["tcp/host:7447"]'
    """

    DEFAULT_CONFIG_PATH_ENV: ClassVar = "ZENOH_CONFIG"

    __slots__ = ("_lost", "_values", "origin")

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._lost: frozenset[str] = frozenset()  # paths whose secrets stayed behind at pickling
        self.origin: str | None = None  # the file it was read from, if any

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], limits: Limits = DEFAULT_LIMITS) -> Self:
        """The configuration in nested mappings, as `json.load` gives them.

        Raises:
            ConfigError: for an unknown key, naming the nearest known one, or an illegal value.
            LimitError: if the mapping is deeper or larger than the limits allow.
        """
        return cls._from_value(_Plain(limits).read(mapping, 0))

    @classmethod
    def from_json5(cls, json: str, limits: Limits = DEFAULT_LIMITS) -> Self:
        """The configuration in a JSON5 text; errors as `from_mapping`, with line and column."""
        return cls._from_value(_widen(loads(json, limits)))

    @classmethod
    def from_yaml(cls, text: str, limits: Limits = DEFAULT_LIMITS) -> Self:
        """The configuration in a YAML text (extra `yaml`); errors as `from_json5`."""
        return cls._from_value(_widen(yaml_text.loads(text, limits)))

    @classmethod
    def from_file(cls, path: str | PurePath) -> Self:
        """The configuration in a file: YAML, TOML or JSON5, by its ending.

        Raises:
            ConfigError: also if the file holds secrets and others may read it.
        """
        # Files belong to a layer above, this name to the drop-in API: a late import joins them.
        from elea.config_file import read_config

        return read_config(cls, path)

    @classmethod
    def from_env(cls) -> Self:
        """The configuration in the file that the variable `ZENOH_CONFIG` names."""
        from elea.config_file import read_config_from_env  # as in from_file

        return read_config_from_env(cls)

    @classmethod
    def _from_value(cls, value: Value) -> Self:
        config = cls()
        config._values.update(_read("", value))
        config.validate()
        return config

    def validate(self) -> None:
        """Check what concerns several keys.

        Raises:
            ConfigError: if a user has no password, or a password no user.
        """
        present = [path for path in (_USER, _PASSWORD) if path in self._values]
        if len(present) == 1 and not self._lost:
            raise ConfigError(present[0], f"{_USER} and {_PASSWORD} go together; one is missing")

    @property
    def mode(self) -> WhatAmI:
        """The role of the node."""
        return WhatAmI(self._values.get("mode", "peer"))

    @property
    def zid(self) -> ZenohId | None:
        """The identity of the node, if it is set."""
        text = self._values.get("id")
        return ZenohId.parse(text) if isinstance(text, str) else None

    @property
    def lost_secrets(self) -> tuple[str, ...]:
        """Paths whose secrets did not travel with a pickle; `elea.config_file` can restore them."""
        return tuple(sorted(self._lost))

    def has_secrets(self) -> bool:
        """Whether a password or a private key is set."""
        return any(has_secret(value) for value in self._values.values())

    def with_secrets_of(self, other: Config) -> Self:
        """A copy in which what was lost at pickling is taken from another configuration."""
        copy = self.__copy__()
        found = {path: other._values[path] for path in self._lost if path in other._values}
        copy._values.update(found)
        copy._lost -= found.keys()
        return copy

    def paths(self) -> tuple[str, ...]:
        """The keys that are set, in order."""
        return tuple(sorted(self._values))

    def get(self, path: str) -> Value:
        """What is in effect at a key: the set value or the default, for this node's role.

        Raises:
            ConfigError: if the key is unknown, or its secret was lost at pickling.
        """
        key = _key(path)
        if key.path in self._lost:
            raise _lost_secret(key.path, self.origin)
        mode = str(self.mode)
        return _copy(_effective(key.kind, self._values.get(key.path), key.in_effect, mode))

    def is_set(self, path: str) -> bool:
        """Whether a key was given a value, be it the default."""
        return _key(path).path in self._values

    def value(self, path: str, kind: type[T]) -> T:
        """What is in effect at a key that holds a bool, int, float or str and is never null."""
        value = self.get(path)
        if type(value) is not kind:
            raise ConfigError(path, f"saw {describe(value)}; a {kind.__name__} was asked for")
        return value

    def secret(self, path: str) -> Secret | None:
        """The secret at a key, if it is set."""
        value = self.get(path)
        if value is not None and not isinstance(value, Secret):
            raise ConfigError(path, "holds no secret")
        return value

    def endpoints(self, side: str) -> tuple[tuple[Endpoint, ...], ...]:
        """The endpoints of `connect` or `listen`, for this node's role, in their order.

        Returns:
            Groups; those with more than one member are links to one and the same neighbour.
        """
        groups = self.get(f"{side}/endpoints")
        if not isinstance(groups, list):
            return ()
        return tuple(_group(item) for item in groups)

    def get_json(self, /, key: str) -> str:
        """What is set at a key or below it, as JSON; what is not set shows as Eclipse shows it.

        Raises:
            ConfigError: if the key is unknown.
        """
        path = _path(key)
        found: Value = self._below(path) if path in CHILDREN else self._listed(path)
        return json.dumps(public(found), separators=(",", ":"))

    def insert_json5(self, /, key: str, value: str) -> None:
        """Set a key, or all keys below it, to a JSON5 text.

        A path may end inside of a value, as `connect/retry/period_init_ms` or
        `listen/endpoints/peer`; the rest of that value stays.

        Raises:
            ConfigError: as `from_json5`; nothing has changed then.
            TypeError: the value is no text.
        """
        path = _path(key)
        given: object = value
        if not isinstance(given, str):
            kind = type(value).__name__
            raise TypeError(f"argument 'value': expected a JSON5 text, found '{kind}'; json.dumps")
        try:
            plain = _widen(loads(given))
        except ConfigError as error:
            hint = "; the value is JSON5, so texts need quotes" if path else ""
            raise ConfigError(path, f"{error.reason}{hint}") from None
        if path not in BY_PATH and path not in CHILDREN:
            path, plain = self._inside(path, plain)
        read = dict(_read(path, plain))
        stays = {
            p: v for p, v in self._values.items() if p != path and not p.startswith(path + "/")
        }
        self._values = (stays if path else {}) | read
        self._lost = frozenset(lost for lost in self._lost if lost not in read)

    def remove(self, key: str) -> None:
        """Set a key, or all keys below it, back to what they are by default.

        Raises:
            ConfigError: if the key is unknown, or if it ends inside of a value and is not set.
        """
        path = _path(key)
        if path not in BY_PATH and path not in CHILDREN:
            self._remove_inside(path)
            return
        below = path + "/" if path else ""
        for known in [one for one in self._values if one == path or one.startswith(below)]:
            del self._values[known]
        self._lost = frozenset(
            lost for lost in self._lost if lost != path and not lost.startswith(below)
        )

    def _remove_inside(self, path: str) -> None:
        key, names = _holder(path)
        root = _copy(self._values.get(key.path))
        node = root
        for name in names[:-1]:
            node = node.get(name) if isinstance(node, dict) else None
        if not isinstance(node, dict) or names[-1] not in node:
            raise ConfigError(path, "is not set")
        del node[names[-1]]
        self._values.update(_read(key.path, root))

    def _inside(self, path: str, value: Value) -> tuple[str, Value]:
        """A path that ends inside of a value: the key of that value, and the value changed."""
        key, names = _holder(path)
        top = key.path
        if top in self._lost:
            raise _lost_secret(top, self.origin)
        if len(names) > DEFAULT_LIMITS.config_depth:
            raise LimitError("config_depth", len(names), DEFAULT_LIMITS.config_depth)
        known = self._values.get(top)
        if known is None:
            known = key.default if _per_mode(key.default) else {}
        root = _copy(known)
        node = root
        for name in names[:-1]:
            if isinstance(node, dict):
                node = node.setdefault(name, {})
        if not isinstance(node, dict):
            raise ConfigError(path, "there is a value above it that is no object")
        node[names[-1]] = value
        return top, root

    def _below(self, path: str) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name in CHILDREN[path]:
            below = f"{path}/{name}" if path else name
            if below in CHILDREN:
                inner = self._below(below)
                if inner:  # else all of it is silent
                    found[name] = inner
            elif below in self._values or not BY_PATH[below].silent:
                found[name] = self._listed(below)
        return found

    def _listed(self, path: str) -> Value:
        key = BY_PATH.get(path)
        if key is not None:
            return self._values.get(path, None if key.unset else key.default)
        key, names = _holder(path)
        node = self._values.get(key.path)
        for name in names:
            if not isinstance(node, dict) or name not in node:
                raise ConfigError(path, "is not set")
            node = node[name]
        return node

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return self._values == other._values and self._lost == other._lost

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __copy__(self) -> Self:
        copy = type(self)()
        copy._values = {path: _copy(value) for path, value in self._values.items()}
        copy._lost, copy.origin = self._lost, self.origin
        return copy

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        lost = self._lost | {path for path, value in self._values.items() if has_secret(value)}
        values = {path: public(value) for path, value in self._values.items() if path not in lost}
        return _restore, (values, sorted(lost), self.origin)

    def __str__(self) -> str:
        return self.get_json("")

    def __repr__(self) -> str:
        shown = {path: public(value) for path, value in self._values.items()}
        return f"Config({json.dumps(shown)})"


def _restore(values: dict[str, Json], lost: list[str], origin: str | None) -> Config:
    config = Config()
    for path, value in values.items():
        config._values.update(_read(path, _widen(value)))
    config._lost, config.origin = frozenset(lost), origin
    return config


def _read(path: str, value: Value) -> Iterator[tuple[str, Value]]:
    """The checked values at and below a path; recursion follows the schema, so it is shallow."""
    key = BY_PATH.get(path)
    if key is not None:
        if value is not None or not key.unset:
            yield path, key.kind.read(value, path)
        return
    names = CHILDREN[path]
    if not isinstance(value, dict):
        refuse(path, "an object with " + ", ".join(names), value)
    for name, below in _nested(value).items():
        if name not in names:
            raise _unknown(f"{path}/{name}" if path else name)
        yield from _read(f"{path}/{name}" if path else name, below)


def _nested(value: dict[str, Value]) -> dict[str, Value]:
    """The same object with `{"a/b": 1}` written as `{"a": {"b": 1}}`; what comes later wins."""
    found: dict[str, Value] = {}
    for path, given in value.items():
        name, slash, rest = path.partition("/")
        below: Value = {rest: given} if slash else given
        known = found.get(name)
        if isinstance(known, dict) and isinstance(below, dict):
            below = {**known, **below}
        found[name] = below
    return found


def _path(key: str) -> str:
    """A path without the slashes that say nothing."""
    if not isinstance(key, str):
        raise TypeError(f"a key is a text such as scouting/timeout, got {type(key).__name__}")
    return "/".join(name for name in key.split("/") if name)


def _unknown(path: str) -> ConfigError:
    """The error for a path that is not in the schema: the nearest sibling, or any key like it."""
    known = ""
    for name in path.split("/"):
        below = f"{known}/{name}" if known else name
        if below not in CHILDREN:
            break
        known = below
    siblings = [f"{known}/{name}" if known else name for name in CHILDREN[known]]
    return unknown_key(path, siblings, (*CHILDREN, *BY_PATH))


def _lost_secret(path: str, origin: str | None) -> ConfigError:
    source = origin or "it from where it came"
    return ConfigError(path, f"its secret did not travel with the pickle; read {source} again")


def _holder(path: str) -> tuple[Key, list[str]]:
    """The key in whose value a path ends, and the names inside of that value."""
    for key in KEYS:
        if isinstance(key.kind, (Free, PerMode, Record)) and path.startswith(key.path + "/"):
            return key, path[len(key.path) + 1 :].split("/")
    raise _unknown(path)


def _key(path: str) -> Key:
    if path not in BY_PATH:
        raise _unknown(path)
    return BY_PATH[path]


def _effective(kind: Kind, value: Value, default: Value, mode: str) -> Value:
    if isinstance(kind, PerMode):
        return _effective(kind.kind, _for_mode(value, mode), _for_mode(default, mode), mode)
    if isinstance(kind, Record) and isinstance(default, dict):
        fields = value if isinstance(value, dict) else {}
        return {
            name: _effective(field, fields.get(name), default.get(name), mode)
            for name, field in kind.fields.items()
        }
    return default if value is None else value


def _for_mode(value: Value, mode: str) -> Value:
    return value.get(mode) if _per_mode(value) else value


def _per_mode(value: Value) -> TypeGuard[dict[str, Value]]:
    return isinstance(value, dict) and is_per_mode(value)


def _group(item: Value) -> tuple[Endpoint, ...]:
    if isinstance(item, dict):
        locators = item["locators"]
        assert isinstance(locators, list)  # the schema says so
        return tuple(one for locator in locators for one in _group(locator))
    if isinstance(item, Endpoint):
        return (item,)
    assert isinstance(item, str)  # the schema says so
    return (Endpoint.parse(item),)


def _copy(value: Value) -> Value:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return value


def _widen(value: Json) -> Value:
    """The same value: JSON holds nothing that a configuration cannot."""
    if isinstance(value, list):
        return [_widen(item) for item in value]
    if isinstance(value, dict):
        return {key: _widen(item) for key, item in value.items()}
    return value


class _Plain:
    """Turns what a caller passed into plain values, within bounds; a cycle hits the depth."""

    __slots__ = ("count", "length", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = 0
        self.length = 0

    def read(self, value: object, depth: int) -> Value:
        self.count += 1
        if depth > self.limits.config_depth:
            raise LimitError("config_depth", depth, self.limits.config_depth)
        if self.count > self.limits.config_nodes_count:
            raise LimitError("config_nodes_count", self.count, self.limits.config_nodes_count)
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, (bool, int, float, Secret, Endpoint)):
            return value
        if isinstance(value, Mapping):
            return {self.text(name): self.read(item, depth + 1) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.read(item, depth + 1) for item in value]
        raise ConfigError("", f"a {type(value).__name__} is no configuration value")

    def text(self, value: object) -> str:
        if not isinstance(value, str):
            raise ConfigError("", f"names are texts, saw a {type(value).__name__}")
        self.length += len(value)
        if self.length > self.limits.config_len:
            raise LimitError("config_len", self.length, self.limits.config_len)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ConfigError("", "a text is not UTF-8: it holds a lone surrogate") from None
        return value
