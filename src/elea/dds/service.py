"""The services `dds` and `ros2dds`: bridges in a router, by the section of the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from elea.config.kinds import Value
from elea.dds.bridge import Bridge
from elea.dds.cyclone import CycloneDomain
from elea.dds.names import METRICS
from elea.dds.presence import marker
from elea.dds.section import CHANGEABLE
from elea.dds.settings import DOMAIN_PORTS_MAX, PATH, DdsSettings, ros_section
from elea.dds.state import LOG
from elea.errors import ConfigError, EleaError
from elea.json5 import Json
from elea.session.session import Session
from elea.version import VERSION

_PORTS: Final = (7400, 250)


class DdsService:
    """One bridge per domain, as the group `elea.services` has it.

    Raises:
        ConfigError: The section is not legal, or a domain cannot be opened.
        MissingDependencyError: The package of the extra `dds` is not installed.
    """

    def __init__(self, session: Session, settings: Mapping[str, Value]) -> None:
        self._session = session
        self._settings = DdsSettings.read_all(settings)
        self._pid = os.getpid()
        self._bridges: list[Bridge] = []
        try:
            for one in self._settings:
                self._bridges.append(self._open(one))
        except BaseException:
            self.stop()
            raise

    def _open(self, settings: DdsSettings) -> Bridge:
        for note in settings.notes:
            LOG.warning("%s", note)
        if settings.domain > DOMAIN_PORTS_MAX:
            LOG.warning(
                "DDS domain %d uses ports in the range of short-lived connections; domains up to"
                " %d do not",
                settings.domain,
                DOMAIN_PORTS_MAX,
            )
        dds = CycloneDomain(settings, marker(str(self._session.zid()), ros=settings.ros))
        try:
            bridge = Bridge(self._session, dds, settings)
        except BaseException:
            dds.close()
            raise
        bridge.start()
        first = _PORTS[0] + _PORTS[1] * settings.domain
        if settings.is_loopback:
            LOG.info("DDS domain %d on loopback, ports from %d", settings.domain, first)
        else:
            where = ", ".join(settings.discovery.interfaces) or "all interfaces"
            LOG.warning(
                "DDS domain %d on %s, ports from %d, not encrypted: participants that reach them"
                " read and write every bridged topic",
                settings.domain,
                where,
                first,
            )
        return bridge

    @classmethod
    def check(cls, settings: Mapping[str, Value]) -> None:
        """Whether a section is legal; nothing is opened."""
        DdsSettings.read_all(settings)

    @property
    def bridges(self) -> tuple[Bridge, ...]:
        """The bridges, one per domain."""
        return tuple(self._bridges)

    def change(self, settings: Mapping[str, Value]) -> None:
        """Take other settings, as far as that needs no restart (D-784).

        Raises:
            ConfigError: They are not legal, or need a restart; nothing has changed.
        """
        found = DdsSettings.read_all(settings)
        if len(found) != len(self._settings):
            raise ConfigError(PATH, "other domains need a restart of the bridge")
        for before, after in zip(self._settings, found, strict=True):
            names = {*before.said, *after.said}
            fixed = [
                name
                for name in sorted(names)
                if before.said.get(name) != after.said.get(name) and name not in CHANGEABLE
            ]
            if fixed:
                raise ConfigError(f"{PATH}/{fixed[0]}", "needs a restart of the bridge")
        self._settings = found
        for bridge, after in zip(self._bridges, found, strict=True):
            bridge.change(after)

    def status(self) -> Mapping[str, Json]:
        """Values below `status/plugins/dds`."""
        found: dict[str, Json] = {"version": VERSION}
        for bridge in self._bridges:
            name = "bridge" if len(self._bridges) == 1 else f"bridge/{bridge.settings.domain}"
            found[name] = bridge.describe.status()
        return found

    def counted(self) -> Iterator[tuple[str, str, str, int]]:
        """Metrics: name, kind, meaning, value; of all domains together."""
        every = [bridge.describe.counts() for bridge in self._bridges]
        for name, (kind, counter, meaning) in METRICS.items():
            yield name, kind, meaning, sum(one.get(counter, 0) for one in every)

    def stop(self) -> None:
        """End the bridges."""
        if os.getpid() != self._pid:
            raise EleaError("a DDS bridge cannot be used in a process that was forked from its own")
        while self._bridges:
            self._bridges.pop().stop()


class RosDdsService(DdsService):
    """The service `ros2dds`: a bridge with ROS names, by that plugin's keys (D-662)."""

    def __init__(self, session: Session, settings: Mapping[str, Value]) -> None:
        super().__init__(session, ros_section(settings))

    @classmethod
    def check(cls, settings: Mapping[str, Value]) -> None:
        """Whether a section is legal; nothing is opened."""
        DdsSettings.read_all(ros_section(settings))

    def change(self, settings: Mapping[str, Value]) -> None:
        """Take other settings; raises as that of `DdsService`."""
        super().change(ros_section(settings))
