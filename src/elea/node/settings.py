"""NodeSettings: what a node needs of a Config, read once and typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from elea.config.config import Config
from elea.errors import ConfigError
from elea.ids import Rng, WhatAmI, ZenohId
from elea.locator import Endpoint
from elea.routing.settings import RoutingSettings
from elea.secret import Secret
from elea.transport.negotiation import Offer

MS_NS: Final = 1_000_000

# Resolution octet of INIT by the configured sequence number resolution; request ids stay 32 bit.
_RESOLUTIONS: Final = {"8bit": 0x08, "16bit": 0x09, "32bit": 0x0A, "64bit": 0x0B}


_ROUTING: Final = RoutingSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """The pause between attempts: `init`, growing by `factor` up to `max`."""

    init_ns: int
    max_ns: int
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of one node."""

    zid: bytes
    whatami: WhatAmI
    connect: tuple[tuple[Endpoint, ...], ...] = ()
    listen: tuple[tuple[Endpoint, ...], ...] = ()
    connect_timeout_ns: int = 0  # -1: never give up, 0: one attempt each
    exit_on_failure: bool = True
    retry: RetrySettings = RetrySettings(init_ns=1_000 * MS_NS, max_ns=4_000 * MS_NS, factor=2.0)
    open_timeout_ns: int = 10_000 * MS_NS
    accept_timeout_ns: int = 10_000 * MS_NS
    accept_pending: int = 100
    sessions_max: int = 1_000
    lease_ms: int = 10_000
    batch_len: int = 65_535
    resolution: int = 0x0A
    qos: bool = True
    low_latency: bool = False
    compression: bool = False
    user: str | None = None
    password: Secret | None = None
    region_name: str | None = None
    wait_before_close_ns: int = 5_000 * MS_NS
    routing: RoutingSettings = _ROUTING
    scouting_delay_ns: int = 500 * MS_NS
    timestamping: bool = False

    def offer(self, link_len_max: int) -> Offer:
        """What the node offers on a link that carries batches of this length."""
        return Offer(
            zid=self.zid,
            whatami=self.whatami.index,
            lease_ms=self.lease_ms,
            batch_len=self.batch_len,
            resolution=self.resolution,
            qos=self.qos,
            low_latency=self.low_latency,
            compression=self.compression,
            region_name=self.region_name,
            user=self.user,
            password=self.password,
            link_len_max=link_len_max,
        )

    @classmethod
    def from_config(cls, config: Config, rng: Rng) -> Self:
        """Read a configuration; a node without an id of its own gets a random one."""
        zid = config.zid or ZenohId.generate(rng)
        user = config.get("transport/auth/usrpwd/user")
        timeout_ms = config.value("connect/timeout_ms", int)
        return cls(
            zid=zid.to_bytes(),
            whatami=config.mode,
            connect=config.endpoints("connect"),
            listen=config.endpoints("listen"),
            connect_timeout_ns=timeout_ms if timeout_ms < 0 else timeout_ms * MS_NS,
            exit_on_failure=config.value("connect/exit_on_failure", bool),
            retry=_retry(config),
            open_timeout_ns=config.value("transport/unicast/open_timeout", int) * MS_NS,
            accept_timeout_ns=config.value("transport/unicast/accept_timeout", int) * MS_NS,
            accept_pending=config.value("transport/unicast/accept_pending", int),
            sessions_max=config.value("transport/unicast/max_sessions", int),
            lease_ms=config.value("transport/link/tx/lease", int),
            batch_len=config.value("transport/link/tx/batch_size", int),
            resolution=_RESOLUTIONS[
                config.value("transport/link/tx/sequence_number_resolution", str)
            ],
            qos=config.value("transport/unicast/qos/enabled", bool),
            low_latency=config.value("transport/unicast/lowlatency", bool),
            compression=config.value("transport/unicast/compression/enabled", bool),
            user=user.reveal() if isinstance(user, Secret) else _text(user),
            password=config.secret("transport/auth/usrpwd/password"),
            region_name=_text(config.get("region_name")),
            routing=RoutingSettings(
                queries_timeout_ns=config.value("queries_default_timeout", int) * MS_NS,
                interests_timeout_ns=config.value("routing/interests/timeout", int) * MS_NS,
                gossip=config.value("scouting/gossip/enabled", bool),
            ),
            scouting_delay_ns=config.value("scouting/delay", int) * MS_NS,
            timestamping=config.value("timestamping/enabled", bool),
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _retry(config: Config) -> RetrySettings:
    retry = config.get("connect/retry")
    if not isinstance(retry, dict):
        raise ConfigError("connect/retry", "holds no record")

    def number(name: str, default: float) -> float:
        value = retry.get(name)
        return float(value) if isinstance(value, (int, float)) else default

    return RetrySettings(
        init_ns=int(number("period_init_ms", 1_000) * MS_NS),
        max_ns=int(number("period_max_ms", 4_000) * MS_NS),
        factor=number("period_increase_factor", 2.0),
    )
