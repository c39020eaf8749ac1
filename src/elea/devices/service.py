"""The service `xrce`: a gateway for devices in a router, by the section `plugins/xrce`."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from elea.config.kinds import Value
from elea.devices.access import read_keys
from elea.devices.bridged import BridgedTopics
from elea.devices.describe import Description
from elea.devices.device import time_ms
from elea.devices.hub import Hub
from elea.devices.names import METRICS
from elea.devices.persistent import PersistentStore
from elea.devices.ports import Place, is_loopback, udp_socket
from elea.devices.rights import DeviceRights
from elea.devices.settings import PATH, SHARED, XrceSettings
from elea.devices.space import Space
from elea.errors import ConfigError, LinkError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS
from elea.link.address import Address, ip_locator, resolve_ip
from elea.link.failure import link_error
from elea.link.guests import Guests
from elea.link.interfaces import advertised
from elea.link.multicast import check_interfaces, chosen_interfaces, group_receiver
from elea.link.settings import LinkSettings
from elea.link.tcp import listening_socket
from elea.locator import Endpoint, Locator
from elea.session.session import Session
from elea.store.backends.disk import check_directory
from elea.version import VERSION
from elea.xrce.gateway.gateway import Gateway
from elea.xrce.gateway.settings import GatewaySettings
from elea.xrce.properties import (
    ACCEPTS_BATCHES,
    ACCEPTS_FRAGMENTS,
    SELECTS,
    VENDOR_CODE,
    SessionProperties,
)
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.session.authentication import PskChecker
from elea.xrce.session.scouting import Role, ScoutAnswerer
from elea.xrce.session.settings import SessionSettings

_LOG: Final = logging.getLogger("elea.devices")
_PID_LEN: Final = 4
_COMMIT_MODE: Final = 7  # transactions of a device that may be unanswered
_LOCATORS_COUNT: Final = 8  # in a Hello, which stays short (19.3)


class XrceService:
    """A gateway that runs, as the group `elea.services` has it.

    Raises:
        ConfigError: The section is not legal, or the node gives no timestamps.
        LinkError: It cannot listen there.
        StoreError: Persistent samples cannot be kept there.
    """

    def __init__(self, session: Session, settings: Mapping[str, Value]) -> None:
        self._settings = XrceSettings.read(settings)
        self._session = session
        self._guests: Guests | None = None
        self._bound: list[Locator] = []
        self._limits = limits = dataclasses.replace(
            DEFAULT_LIMITS,
            xrce_sessions_count=self._settings.sessions_count,
            xrce_sessions_host_count=self._settings.sessions_host_count,
        )
        self._checker = _checker(self._settings)
        self._transient = MemoryStore(limits=limits) if self._settings.transient else None
        place = self._settings.persistent
        self._persistent = None if place is None else PersistentStore(place, limits)
        try:
            gateway = self._gateway()
        except BaseException:
            self._close_store()
            raise
        self._hub = Hub(gateway, limits)
        try:
            pid = gateway_pid(session.zid().to_bytes())
            self._describe = Description(gateway, pid, self._counts, self._hub.shown)
            self._listen()
            self._describe.listen = [str(one) for one in self._bound]
            self._bridged = BridgedTopics(session, self._hub.call)
            self._space = Space(
                session,
                self._hub,
                self._bridged,
                key_exprs=self._settings.key_exprs if self._keeps else (),
                limits=limits,
                transient=self._transient,
                persistent=self._persistent,
                describe=self._describe,
            )
        except BaseException:
            self._hub.stop()
            self._close_store()
            raise
        self._hub.start(self._space)
        for one in self._bound:
            here = _is_loopback(one)
            (_LOG.info if here else _LOG.warning)(
                "XRCE at %s, open to %s, not encrypted", one, "this host" if here else "others"
            )

    @classmethod
    def check(cls, settings: Mapping[str, Value]) -> None:
        """Whether a section is legal; nothing is opened."""
        _checker(XrceSettings.read(settings))

    @classmethod
    def check_parts(cls, settings: Mapping[str, Value]) -> None:
        """Whether the interface and the directory of a section are there or could be made.

        Raises:
            ConfigError: one is not, or could not.
        """
        read = XrceSettings.read(settings)
        check_interfaces(read.interface or "auto", read.group, f"{PATH}/interface")
        if read.persistent is not None:
            check_directory(read.persistent, f"{PATH}/persistent")

    @property
    def locators(self) -> tuple[str, ...]:
        """Where devices are served, with the ports that were given."""
        return tuple(str(one) for one in self._bound)

    def visit(self, guests: Guests) -> None:
        """Serve devices at the node's plain TCP listeners as well."""
        if self._shares_port:
            self._guests = guests
            frame_len = self._settings.frame_lens.at(SHARED)
            guests.take = lambda sock, _source: self._hub.take(sock, frame_len)

    def status(self) -> Mapping[str, Json]:
        """Values below `status/plugins/xrce`."""
        found: dict[str, Json] = {
            "version": VERSION,
            "gateway": {**self._describe.gateway(), "shared_port": self._guests is not None},
        }
        for pid, device in list(self._hub.gateway.devices.items()):
            with suppress(RuntimeError):  # it changed meanwhile: whoever asks again sees it
                found[f"devices/{pid.hex()}"] = self._describe.device(device)
        return found

    def counted(self) -> Iterator[tuple[str, str, str, int]]:
        """Metrics: name, kind, meaning, value."""
        counts = self._counts()
        for name, (kind, counter, meaning) in METRICS.items():
            yield name, kind, meaning, counts[counter]

    def stop(self) -> None:
        """Say goodbye to the devices, and end."""
        if self._guests is not None:
            self._guests.take = None
        self._hub.stop()
        self._bridged.close()
        self._space.close()
        self._close_store()

    # How it is set up.

    @property
    def _keeps(self) -> bool:
        return self._settings.transient or self._persistent is not None

    @property
    def _shares_port(self) -> bool:
        wanted = self._settings.shared_port
        if wanted is not None:
            return wanted
        config = self._session.config
        users = config.get("transport/auth/usrpwd/dictionary_file") is not None
        return not (users or config.value("access_control/enabled", bool))

    def _gateway(self) -> Gateway[Place]:
        settings, limits = self._settings, self._limits
        if not self._session.config.value("timestamping/enabled", bool):
            raise ConfigError(
                PATH, "devices have no clocks, and timestamping/enabled is false on this node"
            )
        said = SessionProperties(
            vendor=VENDOR_CODE,
            commit_mode=_COMMIT_MODE,
            conduits_count=limits.xrce_conduits_count,
            capabilities=ACCEPTS_BATCHES | ACCEPTS_FRAGMENTS | SELECTS,
        )
        rights = DeviceRights(
            self._session,
            None if settings.access is None else settings.access.allows,
            is_proven=settings.keys_file is not None,
            host_of=self._host_of,
        )
        roles = Role.BROKER | (Role.DURABILITY if self._keeps else Role(0))
        self._scouts = ScoutAnswerer(roles, (), limits)
        return Gateway(
            SessionSettings(
                pid=gateway_pid(self._session.zid().to_bytes()),
                lease_ns=settings.lease_ns,
                properties=said,
                limits=limits,
            ),
            GatewaySettings(
                stamp=self._session.new_timestamp,
                transient=self._transient,
                persistent=self._persistent,
                interest_always=settings.interest_always,
                allows=rights.allow,
                exceeds=rights.exceed,
                revision=rights.revision,
                presets_of=settings.resources.of,
                layout_of=lambda _key, encoding: self._bridged.layout_of(encoding),
                limits=limits,
            ),
            scouting=self._scouts,
            authenticate=self._checker,
            moves=settings.moves,
            host_of=lambda place: self._hub.host_of(place),
            is_stream=lambda place: place[1] is None,
            frame_len_of=self._frame_len_of,
        )

    def _host_of(self, pid: bytes) -> str | None:
        """The host of a device that has a session; None: this one."""
        place = self._hub.gateway.acceptor.source_of(pid)
        return None if place is None else self._hub.host_of(place)

    def _frame_len_of(self, pid: bytes | None, place: Place) -> int | None:
        """What the configuration says of a device, or of all where it is served."""
        said = None if pid is None else self._settings.frame_lens.devices.get(pid)
        return self._hub.frame_len_at(place) if said is None else said

    def _listen(self) -> None:
        links = LinkSettings.from_config(self._session.config)
        answers: int | None = None
        for endpoint in self._settings.listen:
            for address in resolve_ip(endpoint, listening=True):
                number = self._open(endpoint, address, links)
                if endpoint.protocol == "udp" and answers is None:
                    answers = number
        told = advertised(self._bound, asker_loopback=False)
        self._scouts.locators = tuple(str(one).encode() for one in told[:_LOCATORS_COUNT])
        wanted = self._settings.scouting
        if wanted is None:
            wanted = self._session.config.value("scouting/multicast/enabled", bool)
        if wanted and answers is not None:
            self._join(answers)

    def _open(self, endpoint: Endpoint, address: Address, links: LinkSettings) -> int:
        if endpoint.protocol == "tcp":
            sock = listening_socket(endpoint, address, links)
        else:
            assert not isinstance(address.sockaddr, str)
            try:
                sock = udp_socket(address.family, address.sockaddr)
            except OSError as error:
                raise link_error(f"listen on {address.locator('udp')}", error) from error
        self._bound.append(ip_locator(endpoint.protocol, sock.getsockname()))
        frame_len = self._settings.frame_lens.at(str(endpoint))
        if endpoint.protocol == "tcp":
            return self._hub.listen_tcp(sock, frame_len=frame_len)
        return self._hub.listen_udp(sock, frame_len=frame_len)

    def _join(self, answers: int) -> None:
        """Hear Scouts by multicast, where devices may come from."""
        host, port = Endpoint.parse(f"udp/{self._settings.group}").host_port()
        group = Address.of_ip(host, port)
        interface = self._settings.interface
        here = all(map(_is_loopback, self._bound))
        names = interface or ("127.0.0.1" if here and group.family == socket.AF_INET else "auto")
        try:
            sock = group_receiver(group, chosen_interfaces(names, group, f"{PATH}/interface"))
        except LinkError as error:
            if interface is not None:
                raise
            _LOG.warning("XRCE scouting is off: %s", error)  # devices can be told the address
            return
        locator = f"udp/{self._settings.group}".encode()
        self._scouts.groups = (locator,)
        self._hub.listen_group(sock, locator, answers)

    def _close_store(self) -> None:
        if self._persistent is not None:
            self._persistent.close()

    def _counts(self) -> dict[str, int]:
        """What was counted, by name."""
        gateway, hub = self._hub.gateway, self._hub
        acceptor = gateway.acceptor
        counts: dict[str, int] = {
            "devices": len(gateway.devices),
            "connections_open": hub.connections_count,
            **dataclasses.asdict(hub.counters),
            "calls_refused": hub.calls_refused,
            "stalls": hub.stalls,
            "failed": hub.failed,
            "strays": acceptor.strays_count,
            "unproven": 0 if self._checker is None else self._checker.refused_count,
            "scouts_refused": self._scouts.rate.refused_count,
            **{f"gateway_{name}": n for name, n in dataclasses.asdict(gateway.counters).items()},
            **{f"space_{name}": n for name, n in dataclasses.asdict(self._space.counters).items()},
            "persistent": 0 if self._persistent is None else self._persistent.keys_count,
            "persistent_failed": 0 if self._persistent is None else self._persistent.failed_count,
        }
        return counts


def gateway_pid(zid: bytes) -> bytes:
    """A pid for a gateway: short, so that an Accept fits the frames of the smallest devices."""
    return hashlib.blake2s(zid, digest_size=_PID_LEN, person=b"xrce").digest()


def _checker(settings: XrceSettings) -> PskChecker | None:
    """Who asks devices for proofs, if they have keys.

    Raises:
        ConfigError: The file of keys cannot be used.
    """
    if settings.keys_file is None:
        return None
    keys = read_keys(settings.keys_file, f"{PATH}/keys_file")

    def key_of(pid: bytes) -> bytes | None:
        key = keys.get(pid)
        return None if key is None else bytes.fromhex(key.reveal())

    return PskChecker(key_of, time_ms)


def _is_loopback(locator: Locator) -> bool:
    return is_loopback(locator.host_port()[0])
