"""NodeSettings: what a node needs of a Config, read once and typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from elea.config.config import Config
from elea.config.support import check_supported
from elea.errors import ConfigError
from elea.ids import Rng, WhatAmI, ZenohId
from elea.limits import DEFAULT_LIMITS, Limits
from elea.locator import Endpoint, is_group
from elea.policy.policy import OPEN_POLICY, Policy
from elea.policy.rules import Authorize
from elea.records import dataclass, replace
from elea.routing.roles.role import Role
from elea.routing.roles.roles import ROLES
from elea.routing.roles.subregions import Filter, Subregion
from elea.routing.settings import RoutingSettings
from elea.secret import Secret
from elea.transport.multicast import GroupOffer
from elea.transport.negotiation import Offer
from elea.transport.settings import TransportSettings
from elea.wire import compression
from elea.wire.transport.join import BATCH_LEN_DEFAULT

EndpointGroups = tuple[tuple[Endpoint, ...], ...]  # the members of a group lead to one node

MS_NS: Final = 1_000_000
US_NS: Final = 1_000
_QUEUE: Final = "transport/link/tx/queue"
_CONGESTION: Final = f"{_QUEUE}/congestion_control"
_LANES: Final = (
    "control",
    "real_time",
    "interactive_high",
    "interactive_low",
    "data_high",
    "data",
    "data_low",
    "background",
)


# Attempts without a pause, as periods of 0 or a factor below 1 ask for, would fill a core.
_PAUSE_MIN_NS: Final = 10 * MS_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """The pause between attempts: `init`, growing by `factor` up to `max`.

    Example:
        >>> retry = RetrySettings(init_ns=1_000 * MS_NS, max_ns=4_000 * MS_NS, factor=3.0)
        >>> retry.pause_after(retry.init_ns) // MS_NS, retry.pause_after(retry.max_ns) // MS_NS
        (3000, 4000)
    """

    init_ns: int
    max_ns: int
    factor: float

    def pause_after(self, pause_ns: int) -> int:
        """Return the pause that follows one of `pause_ns`."""
        return max(_PAUSE_MIN_NS, int(min(pause_ns * self.factor, self.max_ns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoconnectSettings:
    """Whom to connect to. Roles are the bits of SCOUT: 1 router, 2 peer, 4 client.

    Example:
        >>> settings = AutoconnectSettings(roles=0b011, greater_zid=0b010)
        >>> settings.chooses(b"a", b"b", 0), settings.chooses(b"a", b"b", 1)
        (True, False)
    """

    roles: int = 0
    greater_zid: int = 0  # of these, whom to leave it to if their id is greater

    @classmethod
    def from_config(cls, config: Config, source: str) -> Self:
        """The settings for nodes found by `multicast` or `gossip`."""
        return cls(
            roles=role_bits(config.get(f"scouting/{source}/autoconnect")),
            greater_zid=_greater_zid(config.get(f"scouting/{source}/autoconnect_strategy")),
        )

    def chooses(self, own_zid: bytes, zid: bytes, whatami: int) -> bool:
        """Whether to connect to a node. Ids compare by their octets on the wire."""
        bit = 1 << whatami
        return bool(self.roles & bit) and (not self.greater_zid & bit or own_zid > zid)


_RETRY: Final = RetrySettings(init_ns=1_000 * MS_NS, max_ns=4_000 * MS_NS, factor=2.0)
_ROUTING: Final = RoutingSettings()
_TRANSPORT: Final = TransportSettings()
_NOBODY: Final = AutoconnectSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of one node."""

    offered: Offer  # to a neighbour, on any link
    connect: EndpointGroups = ()
    listen: EndpointGroups = ()
    groups: tuple[Endpoint, ...] = ()  # multicast groups to take part in
    connect_timeout_ns: int = 0  # -1: never give up, 0: one attempt each
    exit_on_failure: bool = True
    retry: RetrySettings = _RETRY
    listen_timeout_ns: int = 0  # as connect_timeout_ns
    listen_exit_on_failure: bool = True
    listen_retry: RetrySettings = _RETRY
    open_timeout_ns: int = 10_000 * MS_NS
    accept_timeout_ns: int = 10_000 * MS_NS
    sessions_max: int = 1_000
    wait_before_close_ns: int = 5_000 * MS_NS
    transport: TransportSettings = _TRANSPORT
    burst_ns: int = MS_NS  # what a message of a burst waits for others to share its batch
    routing: RoutingSettings = _ROUTING
    scouting_delay_ns: int = 500 * MS_NS
    awaits_scouted: bool = False  # whether opening waits for somebody to be found
    awaits_declarations: bool = True  # whether it waits for what neighbours declare first
    by_scouting: AutoconnectSettings = _NOBODY
    by_gossip: AutoconnectSettings = _NOBODY
    group_join_ms: int = 2_500
    group_members_max: int = 1_000
    group_qos: bool = False
    group_compression: bool = False
    timestamping: bool = False
    drop_future: bool = False  # samples whose timestamp lies in the future
    policy: Policy = OPEN_POLICY
    subregions: tuple[Subregion, ...] | None = None  # who is south; None: by roles alone

    @classmethod
    def from_config(
        cls,
        config: Config,
        rng: Rng,
        accounts: Mapping[bytes, Secret] | None = None,
        authorize: Authorize | None = None,
    ) -> Self:
        """Read a configuration; a node without an id of its own gets a random one.

        Raises:
            ConfigError: if a key asks for something that this node does not do.
        """
        check_supported(config)
        _check_together(config)
        zid = config.zid or ZenohId.generate(rng)
        connect, listen = config.endpoints("connect"), config.endpoints("listen")
        groups = [one for group in (*listen, *connect) for one in group if is_group(one)]
        by_scouting = AutoconnectSettings.from_config(config, "multicast")
        scouts = config.value("scouting/multicast/enabled", bool) and by_scouting.roles != 0
        return cls(
            offered=Offer.from_config(config, zid.to_bytes(), accounts),
            connect=unicast(connect),
            listen=unicast(listen),
            groups=tuple(dict.fromkeys(groups)),
            connect_timeout_ns=_timeout_ns(config, "connect"),
            exit_on_failure=config.value("connect/exit_on_failure", bool),
            retry=_retry(config, "connect"),
            listen_timeout_ns=_timeout_ns(config, "listen"),
            listen_exit_on_failure=config.value("listen/exit_on_failure", bool),
            listen_retry=_retry(config, "listen"),
            open_timeout_ns=config.value("transport/unicast/open_timeout", int) * MS_NS,
            accept_timeout_ns=config.value("transport/unicast/accept_timeout", int) * MS_NS,
            sessions_max=config.value("transport/unicast/max_sessions", int),
            routing=_routing(config),
            wait_before_close_ns=config.value(f"{_CONGESTION}/block/wait_before_close", int)
            * US_NS,
            transport=_transport(config),
            burst_ns=config.value(f"{_QUEUE}/batching/time_limit", int) * MS_NS,
            awaits_declarations=config.value("open/return_conditions/declares", bool),
            awaits_scouted=scouts and config.value("open/return_conditions/connect_scouted", bool),
            by_scouting=by_scouting,
            by_gossip=AutoconnectSettings.from_config(config, "gossip"),
            group_join_ms=config.value("transport/multicast/join_interval", int),
            group_members_max=config.value("transport/multicast/max_sessions", int),
            group_qos=config.value("transport/multicast/qos/enabled", bool),
            group_compression=config.value("transport/multicast/compression/enabled", bool),
            scouting_delay_ns=config.value("scouting/delay", int) * MS_NS,
            timestamping=config.value("timestamping/enabled", bool),
            drop_future=config.value("timestamping/drop_future_timestamp", bool),
            policy=Policy.from_config(config, authorize),
            subregions=_subregions(config),
        )

    @property
    def zid(self) -> bytes:
        """The identifier of the node."""
        return self.offered.zid

    @property
    def whatami(self) -> WhatAmI:
        """What the node is."""
        return WhatAmI.from_index(self.offered.whatami)

    def offering(self, **changes: Any) -> Self:
        """Return the same settings of a node that offers something else: fields of `Offer`."""
        return replace(self, offered=replace(self.offered, **changes))

    def role(self) -> Role:
        """The regions of the node, and who is placed where."""
        role = ROLES[self.whatami.index]
        return role if self.subregions is None else role.with_subregions(self.subregions)

    def offer(self, link_len_max: int) -> Offer:
        """What is offered to a neighbour on a link whose batches have at most so many octets."""
        return replace(self.offered, link_len_max=link_len_max)

    def group_offer(self, link_len_max: int) -> GroupOffer:
        """What is told to a multicast group."""
        offered = self.offered
        return GroupOffer(
            zid=offered.zid,
            whatami=offered.whatami,
            lease_ms=offered.lease_ms,
            join_interval_ms=self.group_join_ms,
            batch_len=min(offered.batch_len, link_len_max, BATCH_LEN_DEFAULT),
            resolution=offered.resolution,
            qos=self.group_qos,
            compression=self.group_compression,
        )


def unicast(groups: EndpointGroups) -> EndpointGroups:
    """The endpoints that lead to one node each."""
    kept = (tuple(one for one in group if not is_group(one)) for group in groups)
    return tuple(group for group in kept if group)


def _weights(entries: object) -> dict[bytes, int]:
    """The configured weights of links to other routers, by their ids."""
    found: dict[bytes, int] = {}
    for entry in entries if isinstance(entries, list) else ():
        zid, weight = entry["dst_zid"], entry["weight"]
        found[ZenohId.parse(str(zid)).to_bytes()] = int(weight)
    return found


def _subregions(config: Config) -> tuple[Subregion, ...] | None:
    """The subregions of `gateway/south`; None for `auto`."""
    entries = config.get("gateway/south")
    if not isinstance(entries, list):
        return None
    if config.mode is WhatAmI.CLIENT:
        raise ConfigError(
            "gateway/south", 'a client is the gateway of nobody; leave it at "auto", or be a peer'
        )
    found: list[Subregion] = []
    for entry in entries:
        filters = entry.get("filters") if isinstance(entry, dict) else None
        kept = filters if isinstance(filters, list) else []
        those = tuple(_filter(one) for one in kept if isinstance(one, dict))
        found.append(None if filters is None else those)
    return tuple(found)


def _filter(entry: Mapping[str, object]) -> Filter:
    modes, zids = entry.get("modes"), _texts(entry.get("zids"))
    return Filter(
        roles=None if modes is None else role_bits(modes),
        interfaces=_texts(entry.get("interfaces")),
        zids=None if zids is None else frozenset(ZenohId.parse(one).to_bytes() for one in zids),
        region_names=_texts(entry.get("region_names")),
        negated=entry.get("negated") is True,
    )


def _texts(value: object) -> frozenset[str] | None:
    return frozenset(map(str, value)) if isinstance(value, list) else None


def limits_of(config: Config, limits: Limits = DEFAULT_LIMITS) -> Limits:
    """The bounds of a node: those given, with what the configuration says in their place.

    Example:
        >>> config = Config.from_json5("{transport: {link: {rx: {buffer_size: 9000}}}}")
        >>> limits_of(config).link_read_len
        9000
    """
    message_len = config.value("transport/link/rx/max_message_size", int)
    read_len = config.value("transport/link/rx/buffer_size", int)
    if config.mode is WhatAmI.CLIENT:  # its router stands for all that is behind it
        limits = replace(limits, declarations_count=limits.router_declarations_count)
    return replace(
        limits,
        message_len=message_len,
        fragments_len=max(limits.fragments_len, message_len),
        fragments_node_len=max(limits.fragments_node_len, message_len),
        link_read_len=read_len,
        link_turn_len=max(limits.link_turn_len, read_len),
        accept_pending_count=config.value("transport/unicast/accept_pending", int),
    )


def _check_together(config: Config) -> None:
    """Refuse combinations that exclude each other, as Eclipse Zenoh does."""
    low_latency, qos = "transport/unicast/lowlatency", "transport/unicast/qos/enabled"
    packed = "transport/unicast/compression/enabled"
    if config.value(low_latency, bool):
        for other in (qos, packed):
            if config.value(other, bool):
                raise ConfigError(low_latency, f"it excludes {other}; set that to false")
    for one in (packed, "transport/multicast/compression/enabled"):
        if config.value(one, bool) and not compression.available():
            raise ConfigError(one, "lz4 is not installed; run: pip install 'elea[compression]'")


def _routing(config: Config) -> RoutingSettings:
    return RoutingSettings(
        queries_timeout_ns=config.value("queries_default_timeout", int) * MS_NS,
        interests_timeout_ns=config.value("routing/interests/timeout", int) * MS_NS,
        gossip=config.value("scouting/gossip/enabled", bool),
        gossip_multihop=config.value("scouting/gossip/multihop", bool),
        gossip_target=role_bits(config.get("scouting/gossip/target")),
        weights=_weights(config.get("routing/router/linkstate/transport_weights")),
    )


def _transport(config: Config) -> TransportSettings:
    batch_len = config.value("transport/link/tx/batch_size", int)
    sizes = [config.value(f"{_QUEUE}/size/{name}", int) for name in _LANES]
    return TransportSettings(
        keep_alives=config.value("transport/link/tx/keep_alive", int),
        batching=config.value(f"{_QUEUE}/batching/enabled", bool),
        queue_lens=tuple(size * batch_len for size in sizes),
    )


def _timeout_ns(config: Config, side: str) -> int:
    timeout_ms = config.value(f"{side}/timeout_ms", int)
    return timeout_ms if timeout_ms < 0 else timeout_ms * MS_NS


def _retry(config: Config, side: str) -> RetrySettings:
    path = f"{side}/retry"
    retry = config.get(path)
    if not isinstance(retry, dict):
        raise ConfigError(path, "holds no record")

    def number(name: str, default: float) -> float:
        value = retry.get(name)
        return float(value) if isinstance(value, (int, float)) else default

    return RetrySettings(
        init_ns=max(_PAUSE_MIN_NS, int(number("period_init_ms", 1_000) * MS_NS)),
        max_ns=int(number("period_max_ms", 4_000) * MS_NS),
        factor=number("period_increase_factor", 2.0),
    )


def role_bits(roles: object) -> int:
    """A list of role names as the bits of SCOUT.

    Example:
        >>> role_bits(["router", "client"])
        5
    """
    if not isinstance(roles, list):
        return 0
    return sum(WhatAmI(name).value for name in set(roles))


def _greater_zid(strategy: object) -> int:
    """The roles that the strategy `greater-zid` is for, as bits."""
    if isinstance(strategy, dict):
        chosen = {f"to_{role}": role.value for role in WhatAmI}
        return sum(bit for name, bit in chosen.items() if strategy.get(name) == "greater-zid")
    return 0b111 if strategy == "greater-zid" else 0
