"""The section `plugins/dds`: which domain is bridged, and how (dds.md 20)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from xml.etree import ElementTree

from elea.config.kinds import Value, unknown_key
from elea.dds.declared_types import DeclaredType, declared_type
from elea.dds.mapping import Names, checked_key
from elea.dds.qos import Qos, override
from elea.dds.ros import Interface, InterfaceFilter
from elea.dds.routes import Direction, Filter
from elea.dds.settings_keys import DOMAIN_MAX, KEYS
from elea.errors import ConfigError, EleaError, InvalidValueError
from elea.keyexpr.keyexpr import KeyExpr

PATH: Final = "plugins/dds"
_FOREIGN: Final = ("__config__", "__path__", "__required__")
DOMAIN_PORTS_MAX: Final = 101  # above it, ports meet the system's ephemeral range
RESULT_TIMEOUT_S: Final = 300.0  # an action's result is asked for when its goal begins
_ACTION_PARTS: Final = ("send_goal", "cancel_goal", "get_result")
_HERTZ_MAX: Final = 1_000_000.0
_SECONDS_MAX: Final = 86_400.0
_T = TypeVar("_T")

_WITHOUT_EFFECT: Final = (
    *("work_thread_num", "max_block_thread_num", "generalise_subs", "generalise_pubs"),
)
_DISCOVERY_KEYS: Final = ("peers", "interfaces", "participant_index", "ttl", "config")


@dataclass(frozen=True, slots=True)
class Discovery:
    """How other participants are found."""

    peers: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    participant_index: str = "auto"
    ttl: int = 1
    config: str = ""  # XML of Cyclone DDS


@dataclass(frozen=True, slots=True)
class QosRule:
    """Policies of mirrors of some keys (D-364)."""

    match: re.Pattern[str]
    reader: Mapping[str, object]
    writer: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    """A route that exists without a discovered endpoint (D-311)."""

    topic: str
    type_name: str
    partition: str = ""
    key: str = ""
    direction: Direction = Direction.TO_DDS
    qos: Qos = field(default_factory=Qos)


@dataclass(frozen=True, slots=True, kw_only=True)
class DdsSettings:
    """The section, read."""

    names: Names = field(default_factory=Names)
    domain: int = 0
    localhost_only: bool = True
    filter: Filter = field(default_factory=Filter)
    max_frequencies: tuple[tuple[re.Pattern[str], float], ...] = ()
    pub_priorities: tuple[tuple[re.Pattern[str], int, bool], ...] = ()
    generalise_subs: tuple[str, ...] = ()
    generalise_pubs: tuple[str, ...] = ()
    forward_discovery: bool = False
    reliable_routes_blocking: bool = True
    queries_timeout_s: float = 5.0
    service_timeouts: tuple[tuple[re.Pattern[str], float], ...] = ()
    ros: bool = False
    ros_distro: str = ""
    namespace: str = "/"
    pattern_writers: bool = False
    instances: tuple[re.Pattern[str], ...] = ()
    types: Mapping[str, DeclaredType] = field(default_factory=dict)
    type_timeout_s: float = 2.0
    routes: tuple[DeclaredRoute, ...] = ()
    qos: tuple[QosRule, ...] = ()
    on_demand: bool = True
    linger_s: float = 5.0
    source_stamps: bool = True
    numbering: bool = True
    advanced: bool = True
    cache_multiplier: int = 10
    ownership_strength: int = 0
    tokens: bool = True
    standby: bool = True
    ignore_foreign: bool = True
    check_encoding: bool = False
    rmw_zenoh: bool = False
    deletes: bool = True
    discovery: Discovery = field(default_factory=Discovery)
    identity: str = ""  # what bridges of one domain must agree in to stand by for each other
    said: Mapping[str, Value] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()  # for the log

    @property
    def is_loopback(self) -> bool:
        """Whether no packet of DDS leaves this host."""
        peers = all(one.partition(":")[0] in _LOOPBACK for one in self.discovery.peers)
        return self.localhost_only and peers and not self.discovery.config

    def rate_of(self, key: str) -> float | None:
        """Return the samples per second that a key may have (D-406)."""
        return next((hertz for match, hertz in self.max_frequencies if match.search(key)), None)

    def priority_of(self, key: str) -> tuple[int, bool]:
        """Return the Zenoh priority of a key, and whether it is express."""
        for match, priority, express in self.pub_priorities:
            if match.search(key):
                return priority, express
        return 5, False

    def service_timeout_s(self, name: str) -> float:
        """Return how long a ROS service may take (D-666); the first match counts."""
        for match, seconds in self.service_timeouts:
            if match.fullmatch(name):
                return seconds
        return RESULT_TIMEOUT_S if name.endswith("/_action/get_result") else self.queries_timeout_s

    def has_instances(self, key: str) -> bool:
        """Whether each instance of a topic has a key of its own (D-502)."""
        return any(one.search(key) for one in self.instances)

    def reader_qos(self, key: str, qos: Qos) -> Qos:
        """Return the QoS of a mirror reader with what the configuration says of its key."""
        rule = self._rule(key)
        return qos if rule is None else override(qos, rule.reader)

    def writer_qos(self, key: str, qos: Qos) -> Qos:
        """Return the QoS of a mirror writer with what the configuration says of its key."""
        rule = self._rule(key)
        return qos if rule is None else override(qos, rule.writer)

    def _rule(self, key: str) -> QosRule | None:
        return next((rule for rule in self.qos if rule.match.search(key)), None)

    @classmethod
    def read(cls, section: Mapping[str, Value], path: str = PATH) -> DdsSettings:
        """Read one section.

        Raises:
            ConfigError: naming the key that is not legal.
        """
        return _Reader(section, path).settings()

    @classmethod
    def read_all(cls, section: Mapping[str, Value], path: str = PATH) -> tuple[DdsSettings, ...]:
        """Read a section and, with `domains`, its parts (D-639); raises as `read`."""
        parts = section.get("domains")
        if parts is None:
            return (cls.read(section, path),)
        others = [name for name in section if name not in ("domains", *_FOREIGN)]
        if others:
            raise ConfigError(f"{path}/{others[0]}", "belongs into the sections of domains")
        if not isinstance(parts, list) or not parts:
            raise ConfigError(f"{path}/domains", f"expected a list of sections, got {parts!a}")
        found = []
        for number, part in enumerate(parts):
            if not isinstance(part, dict):
                raise ConfigError(f"{path}/domains/{number}", f"expected a section, got {part!a}")
            found.append(cls.read(part, f"{path}/domains/{number}"))
        domains = [one.domain for one in found]
        if len(set(domains)) < len(domains):
            raise ConfigError(f"{path}/domains", "two sections have the same domain")
        return tuple(found)


_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class _Reader:
    """Reads one section key by key."""

    def __init__(self, section: Mapping[str, Value], path: str) -> None:
        self._section = section
        self._path = path
        names = [name for name, _, _ in KEYS]
        for name in section:
            if name not in (*names, *_FOREIGN):
                raise unknown_key(f"{path}/{name}", [f"{path}/{one}" for one in names])

    def settings(self) -> DdsSettings:
        if self._flag("shm_enabled", False):
            raise self._error("shm_enabled", "the DDS library has no shared memory exchange")
        ros = self._choice("names", ("dds", "ros2"), "dds") == "ros2"
        discovery, localhost_only = self._discovery()
        directions = {
            "both": frozenset(Direction),  # services pass both ways, or not at all
            "from_dds": frozenset({Direction.FROM_DDS}),
            "to_dds": frozenset({Direction.TO_DDS}),
        }
        direction = self._choice("direction", tuple(directions), "both")
        filter_ = self._filter(directions[direction], ros=ros)
        queries_timeout_s, service_timeouts = self._timeouts()
        linger_s = self._seconds("linger", 5.0)
        namespace = self._text("namespace", "/")
        if self._prefix("namespace") and not ros:
            raise self._error("namespace", 'needs names: "ros2"')
        return DdsSettings(
            names=Names(self._prefix("scope"), self._text("partition_separator", "")),
            domain=self._domain(),
            localhost_only=localhost_only,
            filter=filter_,
            max_frequencies=self._pairs("max_frequencies", _hertz),
            pub_priorities=tuple(
                (match, *found) for match, found in self._pairs("pub_priorities", _priority)
            ),
            generalise_subs=self._key_exprs("generalise_subs"),
            generalise_pubs=self._key_exprs("generalise_pubs"),
            forward_discovery=self._flag("forward_discovery", False),
            reliable_routes_blocking=self._flag("reliable_routes_blocking", True),
            queries_timeout_s=queries_timeout_s,
            service_timeouts=service_timeouts,
            ros=ros,
            ros_distro=self._text("ros_distro", ""),
            namespace=namespace,
            pattern_writers=self._flag("pattern_writers", False),
            instances=self._instances(),
            types=self._types(),
            type_timeout_s=self._seconds("type_timeout", 2.0),
            routes=self._routes(),
            qos=self._qos_rules(),
            on_demand=self._flag("on_demand", True),
            linger_s=linger_s,
            source_stamps=self._choice("timestamps", ("dds", "zenoh"), "dds") == "dds",
            numbering=self._flag("numbering", True),
            advanced=self._flag("advanced", True),
            cache_multiplier=self._number("transient_local_cache_multiplier", 10, 1, 1_000),
            ownership_strength=self._number("ownership_strength", 0, 0, 2**31 - 1),
            tokens=self._flag("tokens", True),
            standby=self._flag("standby", True),
            ignore_foreign=self._choice("foreign_bridges", ("ignore", "accept"), "ignore")
            == "ignore",
            check_encoding=self._flag("check_encoding", False),
            rmw_zenoh=self._rmw_zenoh(ros=ros),
            deletes=self._flag("deletes", True),
            discovery=discovery,
            identity="|".join(
                repr(self._section.get(name))
                for name in ("scope", "allow", "deny", "direction", "names", "namespace")
            ),
            said=dict(self._section),
            notes=tuple(
                f"{self._path}/{name} has no effect"
                for name in _WITHOUT_EFFECT
                if self._section.get(name)
            ),
        )

    def _error(self, name: str, reason: str) -> ConfigError:
        return ConfigError(f"{self._path}/{name}", reason)

    def _flag(self, name: str, default: bool) -> bool:
        value = self._section.get(name, default)
        if not isinstance(value, bool):
            raise self._error(name, f"expected true or false, got {value!a}")
        return value

    def _text(self, name: str, default: str) -> str:
        value = self._section.get(name, default)
        if not isinstance(value, str):
            raise self._error(name, f"expected a text, got {value!a}")
        return value

    def _number(self, name: str, default: int, least: int, most: int) -> int:
        value = self._section.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._error(name, f"expected {least} to {most}, got {value!a}")
        return value

    def _seconds(self, name: str, default: float) -> float:
        return self._seconds_of(name, self._section.get(name, default))

    def _seconds_of(self, name: str, value: Value) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 <= value <= _SECONDS_MAX
        ):
            raise self._error(name, f"expected 0 to {_SECONDS_MAX:g} seconds, got {value!a}")
        return float(value)

    def _choice(self, name: str, legal: tuple[str, ...], default: str) -> str:
        value = self._section.get(name, default)
        if not isinstance(value, str) or value not in legal:
            raise self._error(name, f"expected one of {', '.join(legal)}, got {value!a}")
        return value

    def _texts(self, name: str) -> tuple[str, ...]:
        return _texts(self._section.get(name), f"{self._path}/{name}")

    def _filter(self, directions: frozenset[Direction], *, ros: bool) -> Filter:
        given = {name: self._section.get(name) for name in ("allow", "deny")}
        objects = {
            name: self._interfaces(name, value)
            for name, value in given.items()
            if isinstance(value, dict)
        }
        if objects and not ros:
            raise self._error(next(iter(objects)), 'interfaces of ROS need names: "ros2"')
        allow, deny = (None if name in objects else self._regex(name) for name in ("allow", "deny"))
        interfaces = InterfaceFilter(objects.get("allow"), objects.get("deny", {}))
        return Filter(allow, deny, directions, interfaces if objects else None)

    def _interfaces(self, name: str, given: dict[str, Value]) -> dict[Interface, re.Pattern[str]]:
        kinds = {kind.value: kind for kind in Interface}
        found = {}
        for kind, value in given.items():
            path = f"{name}/{kind}"
            if kind not in kinds:
                known = [f"{self._path}/{name}/{one}" for one in kinds]
                raise unknown_key(f"{self._path}/{path}", known)
            texts = _texts(value, f"{self._path}/{path}")
            # No expression matches no name.
            found[kinds[kind]] = self._compiled(path, "|".join(texts) if texts else r"(?!)")
        return found

    def _timeouts(self) -> tuple[float, tuple[tuple[re.Pattern[str], float], ...]]:
        """Read `queries_timeout`: seconds, or the object of zenoh-bridge-ros2dds."""
        given = self._section.get("queries_timeout")
        if not isinstance(given, dict):
            return self._seconds("queries_timeout", 5.0), ()
        actions = given.get("actions", {})
        if not isinstance(actions, dict):
            raise self._error("queries_timeout/actions", f"expected an object, got {actions!a}")
        values = {**given, **{f"actions/{name}": value for name, value in actions.items()}}
        parts = {f"actions/{one}": f"/_action/{one}" for one in _ACTION_PARTS}
        known = ("default", "transient_local_subscribers", "services", "actions", *parts)
        path = f"{self._path}/queries_timeout"
        for name in values:
            if name not in known:
                raise unknown_key(f"{path}/{name}", [f"{path}/{one}" for one in known])
        found = []
        for name, suffix in (*parts.items(), ("services", "")):
            pairs = self._pairs_of(f"queries_timeout/{name}", values.get(name), _timeout)
            for match, seconds in pairs:
                whole = self._compiled(f"queries_timeout/{name}", f"(?:{match.pattern}){suffix}")
                found.append((whole, seconds))
        default = values.get("default", 5.0)
        return self._seconds_of("queries_timeout/default", default), tuple(found)

    def _regex(self, name: str) -> re.Pattern[str] | None:
        texts = self._texts(name)
        return self._compiled(name, "|".join(texts)) if texts else None

    def _compiled(self, name: str, text: str) -> re.Pattern[str]:
        try:
            return re.compile(text)
        except re.error as error:
            raise self._error(name, f"invalid regular expression {text!a}: {error}") from None

    def _pairs(
        self, name: str, read: Callable[[str], _T]
    ) -> tuple[tuple[re.Pattern[str], _T], ...]:
        return self._pairs_of(name, self._section.get(name), read)

    def _pairs_of(
        self, name: str, value: Value, read: Callable[[str], _T]
    ) -> tuple[tuple[re.Pattern[str], _T], ...]:
        found = []
        for text in _texts(value, f"{self._path}/{name}"):
            match, sign, number = text.rpartition("=")
            try:
                if not sign:
                    raise ValueError("no =")
                found.append((self._compiled(name, match), read(number)))
            except ValueError as error:
                if isinstance(error, EleaError):
                    raise
                raise self._error(name, f"invalid entry {text!a}: {error}") from None
        return tuple(found)

    def _key_exprs(self, name: str) -> tuple[str, ...]:
        try:
            return tuple(str(KeyExpr(one)) for one in self._texts(name))
        except EleaError as error:
            raise self._error(name, str(error)) from None

    def _prefix(self, name: str) -> str:
        prefix = self._text(name, "").strip("/")
        try:
            return checked_key(prefix) if prefix else ""
        except InvalidValueError as error:
            raise self._error(name, error.reason) from None

    def _domain(self) -> int:
        if "domain" not in self._section:
            said = os.environ.get("ROS_DOMAIN_ID", "")
            if said.isdigit() and int(said) <= DOMAIN_MAX:
                return int(said)
        return self._number("domain", 0, 0, DOMAIN_MAX)

    def _discovery(self) -> tuple[Discovery, bool]:
        path = f"{self._path}/discovery"
        given = self._section.get("discovery", {})
        if not isinstance(given, dict):
            raise ConfigError(path, f"expected an object, got {given!a}")
        for name in given:
            if name not in _DISCOVERY_KEYS:
                raise unknown_key(f"{path}/{name}", [f"{path}/{one}" for one in _DISCOVERY_KEYS])
        index = given.get("participant_index", "auto")
        ttl = given.get("ttl", 1)
        config = given.get("config", "")
        if isinstance(index, bool) or not (
            index in ("auto", "none", "default") or (isinstance(index, int) and 0 <= index <= 120)
        ):
            raise ConfigError(
                f"{path}/participant_index", f"expected auto, none or 0 to 120, got {index!a}"
            )
        if isinstance(ttl, bool) or not isinstance(ttl, int) or not 0 <= ttl <= 255:
            raise ConfigError(f"{path}/ttl", f"expected 0 to 255, got {ttl!a}")
        if not isinstance(config, str):
            raise ConfigError(f"{path}/config", f"expected a text, got {config!a}")
        found = Discovery(
            _addresses(given.get("peers"), f"{path}/peers"),
            _addresses(given.get("interfaces"), f"{path}/interfaces"),
            str(index),
            ttl,
            _checked_xml(config, f"{path}/config") if config else "",
        )
        uri = os.environ.get("CYCLONEDDS_URI", "")
        names: list[str] = [name for name in ("peers", "interfaces", "ttl") if name in given]
        names += ["localhost_only"] if "localhost_only" in self._section else []
        if (config or uri) and names:
            by = "discovery/config" if config else "CYCLONEDDS_URI"
            raise ConfigError(f"{self._path}/{names[0]}", f"is said by {by} as well; say it once")
        return found, self._flag("localhost_only", not (found.interfaces or config or uri))

    def _instances(self) -> tuple[re.Pattern[str], ...]:
        if self._section.get("instances", "topic") == "topic":
            return ()
        return tuple(self._compiled("instances", one) for one in self._texts("instances"))

    def _rmw_zenoh(self, *, ros: bool) -> bool:
        wanted = self._flag("rmw_zenoh", False)
        if wanted and not ros:
            raise self._error("rmw_zenoh", 'needs names: "ros2"')
        return wanted

    def _types(self) -> dict[str, DeclaredType]:
        given = self._section.get("types", {})
        if not isinstance(given, dict):
            raise self._error("types", f"expected an object, got {given!a}")
        found = {}
        for name, value in given.items():
            path = f"{self._path}/types/{name}"
            found[name] = declared_type(value, path)
        return found

    def _records(self, name: str, legal: tuple[str, ...]) -> list[dict[str, Value]]:
        given = self._section.get(name, [])
        if not isinstance(given, list):
            raise self._error(name, f"expected a list, got {given!a}")
        found = []
        for number, one in enumerate(given):
            path = f"{self._path}/{name}/{number}"
            if not isinstance(one, dict):
                raise ConfigError(path, f"expected an object, got {one!a}")
            for key in one:
                if key not in legal:
                    raise unknown_key(f"{path}/{key}", [f"{path}/{known}" for known in legal])
            found.append(one)
        return found

    def _routes(self) -> tuple[DeclaredRoute, ...]:
        found = []
        legal = ("key", "topic", "partition", "type", "direction", "qos")
        for number, one in enumerate(self._records("routes", legal)):
            path = f"{self._path}/routes/{number}"
            texts = {name: one.get(name, "") for name in legal[:5]}
            if not all(isinstance(value, str) for value in texts.values()):
                raise ConfigError(path, "expected texts for key, topic, partition and type")
            if not texts["topic"] or not texts["type"]:
                raise ConfigError(path, "needs topic and type")
            ways = {way.value: way for way in (Direction.FROM_DDS, Direction.TO_DDS)}
            said = str(texts["direction"] or Direction.TO_DDS.value)
            if said not in ways:
                raise ConfigError(f"{path}/direction", f"expected {' or '.join(ways)}")
            partition = str(texts["partition"])
            try:
                qos = override(
                    Qos(partitions=(partition,) if partition else ()), _policies(one.get("qos"))
                )
                key = checked_key(str(texts["key"])) if texts["key"] else ""
            except InvalidValueError as error:
                raise ConfigError(path, error.reason) from None
            topic, type_name = str(texts["topic"]), str(texts["type"])
            found.append(DeclaredRoute(topic, type_name, partition, key, ways[said], qos))
        return tuple(found)

    def _qos_rules(self) -> tuple[QosRule, ...]:
        found = []
        for number, one in enumerate(self._records("qos", ("match", "reader", "writer"))):
            name = f"qos/{number}"
            match, reader, writer = one.get("match"), one.get("reader"), one.get("writer")
            if not isinstance(match, str):
                raise self._error(name, "needs match, a regular expression")
            rule = QosRule(self._compiled(name, match), _policies(reader), _policies(writer))
            try:
                override(Qos(), rule.reader)
                override(Qos(), rule.writer)
            except InvalidValueError as error:
                raise self._error(name, error.reason) from None
            found.append(rule)
        return tuple(found)


def _policies(value: Value) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _texts(value: Value, path: str) -> tuple[str, ...]:
    found = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ConfigError(path, f"expected a text or several, got {value!a}")
    return tuple(str(one) for one in found)


def _addresses(value: Value, path: str) -> tuple[str, ...]:
    found = _texts(value, path)
    for one in found:
        if not re.fullmatch(r"[A-Za-z0-9_.:%\[\]-]+", one):
            raise ConfigError(path, f"expected an address or a name, got {one!a}")
    return found


def _timeout(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= _SECONDS_MAX:
        raise ValueError("the timeout must be positive")
    return seconds


def _hertz(text: str) -> float:
    hertz = float(text)
    if not 0 < hertz <= _HERTZ_MAX:
        raise ValueError("the frequency must be positive")
    return hertz


def _priority(text: str) -> tuple[int, bool]:
    number, _, express = text.partition(":")
    if express not in ("", "express") or not number.isdigit() or not 1 <= int(number) <= 7:
        raise ValueError("expected 1 to 7, and :express or nothing")
    return int(number), bool(express)


def _checked_xml(config: str, path: str) -> str:
    """The XML of Cyclone DDS, which itself accepts a text that ends in the middle (F-26)."""
    text = config
    if config.startswith("file://"):
        try:
            text = Path(config.removeprefix("file://")).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(path, str(error)) from None
    if "<!" in text:  # no entities: nothing in it may grow
        raise ConfigError(path, "declarations and comments are not accepted")
    try:
        ElementTree.fromstring(f"<all>{text}</all>")  # noqa: S314  # without entities, and bounded
    except ElementTree.ParseError as error:
        raise ConfigError(path, f"invalid XML: {error}") from None
    return text


def ros_section(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Return the section `plugins/dds` that says what a section `plugins/ros2dds` says."""
    found: dict[str, Value] = {"names": "ros2"}
    renamed = {
        "ros_localhost_only": "localhost_only",
        "pub_max_frequencies": "max_frequencies",
    }
    for name, value in settings.items():
        found[renamed.get(name, name)] = value
    return found
