"""The section `plugins/dds`: which domain is bridged, and how (dds.md 20)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from elea.config.kinds import Value, refuse
from elea.config.section import FOREIGN
from elea.dds.declared_types import DeclaredType
from elea.dds.mapping import Names
from elea.dds.qos import Qos, override
from elea.dds.ros import InterfaceFilter
from elea.dds.routes import Filter
from elea.dds.section import SECTION, WITHOUT_EFFECT, DeclaredRoute, QosRule
from elea.errors import ConfigError
from elea.ros.formats.keys import DOMAIN_MAX

PATH: Final = "plugins/dds"
DOMAIN_PORTS_MAX: Final = 101  # above it, ports meet the system's ephemeral range
RESULT_TIMEOUT_S: Final = 300.0  # an action's result is asked for when its goal begins
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_AGREED: Final = ("scope", "allow", "deny", "direction", "names", "namespace")


@dataclass(frozen=True, slots=True)
class Discovery:
    """How other participants are found."""

    peers: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    participant_index: str = "auto"
    ttl: int = 1
    config: str = ""  # XML of Cyclone DDS


@dataclass(frozen=True, slots=True, kw_only=True)
class DdsSettings:
    """The section, read."""

    names: Names = field(default_factory=Names)
    domain: int = 0
    localhost_only: bool = True
    filter: Filter = field(default_factory=Filter)
    max_frequencies: tuple[tuple[re.Pattern[str], float], ...] = ()
    pub_priorities: tuple[tuple[re.Pattern[str], tuple[int, bool]], ...] = ()
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
        return next((told for match, told in self.pub_priorities if match.search(key)), (5, False))

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
        found = SECTION.read(section, path)
        if found.get("rmw_zenoh") and not found.get("ros"):
            raise ConfigError(f"{path}/rmw_zenoh", 'needs names: "ros2"')
        if found.get("namespace", "/").strip("/") and not found.get("ros"):
            raise ConfigError(f"{path}/namespace", 'needs names: "ros2"')
        _read_filter(found, path)
        _read_discovery(found, path)
        found.setdefault("domain", _domain_of_ros())
        found |= found.pop("queries_timeout", {})
        found["names"] = Names(found.pop("scope", ""), found.pop("partition_separator", ""))
        inert = [name for name in WITHOUT_EFFECT if found.pop(name, None)]
        found.pop("shm_enabled", None)  # it is false
        return cls(
            identity="|".join(repr(section.get(name)) for name in _AGREED),
            said=dict(section),
            notes=tuple(f"{path}/{name} has no effect" for name in inert),
            **found,
        )

    @classmethod
    def read_all(cls, section: Mapping[str, Value], path: str = PATH) -> tuple[DdsSettings, ...]:
        """Read a section and, with `domains`, its parts (D-639); raises as `read`."""
        parts = section.get("domains")
        if parts is None:
            return (cls.read(section, path),)
        others = [name for name in section if name not in ("domains", *FOREIGN)]
        if others:
            raise ConfigError(f"{path}/{others[0]}", "belongs into the sections of domains")
        if not isinstance(parts, list) or not parts:
            refuse(f"{path}/domains", "a list of sections", parts)
        found = tuple(
            cls.read(part, f"{path}/domains/{number}")  # type: ignore[arg-type]  # it is checked
            for number, part in enumerate(parts)
        )
        if len({one.domain for one in found}) < len(found):
            raise ConfigError(f"{path}/domains", "two sections have the same domain")
        return found


def _read_filter(found: dict[str, Any], path: str) -> None:
    """Replace what is allowed and denied by one filter."""
    given = {name: found.pop(name) for name in ("allow", "deny") if name in found}
    interfaces = {name: told for name, told in given.items() if isinstance(told, dict)}
    if interfaces and not found.get("ros"):
        name = next(iter(interfaces))
        raise ConfigError(f"{path}/{name}", 'interfaces of ROS need names: "ros2"')
    keys: dict[str, Any] = {name: told for name, told in given.items() if name not in interfaces}
    if "direction" in found:
        keys["directions"] = found.pop("direction")
    of_ros = InterfaceFilter(**interfaces) if interfaces else None
    found["filter"] = Filter(**keys, interfaces=of_ros)


def _read_discovery(found: dict[str, Any], path: str) -> None:
    """Replace what is said of discovery, which the library's own XML or its variable may say."""
    given = found.pop("discovery", {})
    discovery = found["discovery"] = Discovery(**given)
    variable = os.environ.get("CYCLONEDDS_URI", "")
    names = [f"discovery/{name}" for name in ("peers", "interfaces", "ttl") if name in given]
    names += ["localhost_only"] if "localhost_only" in found else []
    if (discovery.config or variable) and names:
        by = "discovery/config" if discovery.config else "CYCLONEDDS_URI"
        raise ConfigError(f"{path}/{names[0]}", f"is said by {by} as well; say it once")
    beyond = discovery.interfaces or discovery.config or variable
    found.setdefault("localhost_only", not beyond)


def _domain_of_ros() -> int:
    said = os.environ.get("ROS_DOMAIN_ID", "")
    return int(said) if re.fullmatch("[0-9]{1,9}", said) and int(said) <= DOMAIN_MAX else 0


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
