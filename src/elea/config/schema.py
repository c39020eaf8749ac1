"""Every configuration key as one table: path, kind, default and what it does.

The layout is Eclipse Zenoh 1.10's. A key that is `unset` reads as null until it is set, as there;
`default` is what Eclipse's nodes do then, and `here` what Elea's do where that differs. A `silent`
key is not listed at all until it is set. A key that no code acts on has `Inert`: values that would
change something in Eclipse are refused when a node starts.
"""

from __future__ import annotations

from typing import Final

from elea.config import shapes
from elea.config.kinds import (
    MODES,
    Choice,
    Free,
    Hidden,
    Integer,
    Kind,
    ListOf,
    PerMode,
    Roles,
    Value,
)
from elea.config.shapes import FLAG, PATH, TEXT, U32, U64
from elea.limits import BATCH_LEN_MAX, BATCH_LEN_MIN, DEFAULT_LIMITS, RX_BUFFER_LEN_MAX
from elea.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Inert:
    """Why no code acts on a key, and which values are accepted although it does not.

    The default is always accepted. `any_value`: every value, since none changes what a node does,
    in Eclipse Zenoh 1.10 or here.
    """

    why: str
    advice: str
    accepted: tuple[Value, ...] = ()
    any_value: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration."""

    path: str
    kind: Kind
    default: Value
    doc: str
    unset: bool = False
    silent: bool = False
    here: Value = None
    inert: Inert | None = None

    @property
    def in_effect(self) -> Value:
        """What a node does while the key is not set."""
        return self.default if self.here is None else self.here


def _unset(path: str, kind: Kind, default: Value, doc: str, *, inert: Inert | None = None) -> Key:
    return Key(path, kind, default, doc, unset=True, inert=inert)


def _silent(path: str, kind: Kind, doc: str, *, inert: Inert | None = None) -> Key:
    return Key(path, kind, None, doc, unset=True, silent=True, inert=inert)


_REMOVE: Final = "remove the key"
_OBSOLETE: Final = Inert(
    "it is obsolete, and Eclipse Zenoh 1.10 ignores it, too", _REMOVE, any_value=True
)
_NO_SHARED_MEMORY: Final = Inert(
    "links never move payloads through shared memory",
    "remove the key, or leave it at its default",
)
_NO_PUBLIC_KEYS: Final = Inert(
    "nodes do not authenticate by public keys, so nobody would be kept out",
    "remove the key, and use transport/auth/usrpwd or transport/link/tls/enable_mtls",
)
_NO_WAIT_BEFORE_DROP: Final = Inert(
    "a droppable message that finds its queue full is dropped at once",
    "remove the key, and set transport/link/tx/queue/size for more room",
    accepted=(0,),
)
_NO_AGGREGATION: Final = Inert("declarations are not aggregated", _REMOVE)


_NODE: Final = (
    _unset("id", shapes.ZID, None, "identity of the node; a random one if not set"),
    _unset("mode", Choice(MODES), "peer", "role of the node"),
    _unset("metadata", Free(), None, "anything; shown in the admin space"),
    _unset("region_name", shapes.REGION_NAME, None, "name of the region the node belongs to"),
    _unset("gateway/south", shapes.SOUTH, "auto", "which neighbours are south of this node"),
    _unset("namespace", shapes.NAMESPACE, None, "prefix of every key of the session"),
    _unset("queries_default_timeout", U64, 10_000, "ms a query waits for its replies"),
)

_CONNECTIONS: Final = (
    Key("connect/endpoints", shapes.CONNECT_ENDPOINTS, [], "where to connect to"),
    _unset(
        "connect/timeout_ms",
        PerMode(Integer(-1, 2**63 - 1)),
        {"router": -1, "peer": -1, "client": 0},
        "ms to try for; -1 is for ever, 0 is one attempt each",
    ),
    _unset(
        "connect/exit_on_failure",
        PerMode(FLAG),
        {"router": False, "peer": False, "client": True},
        "whether opening fails when no connection is made in time",
    ),
    _unset(
        "connect/retry",
        shapes.RETRY,
        shapes.RETRY_DEFAULT,
        "pause between attempts, 10 ms at least",
    ),
    Key(
        "listen/endpoints",
        shapes.LISTEN_ENDPOINTS,
        {"router": ["tcp/[::]:7447"], "peer": ["tcp/[::]:0"]},
        "where to listen; a client listens nowhere unless told",
        here={"router": ["tcp/127.0.0.1:7447"], "peer": ["tcp/[::]:0"]},
    ),
    _unset(
        "listen/timeout_ms",
        PerMode(Integer(-1, 2**63 - 1)),
        0,
        "ms to try to bind for; -1 is for ever, 0 is one attempt",
    ),
    _unset("listen/exit_on_failure", PerMode(FLAG), True, "whether opening fails with a listener"),
    _unset(
        "listen/retry", shapes.RETRY, shapes.RETRY_DEFAULT, "pause between attempts, 10 ms at least"
    ),
    _unset(
        "open/return_conditions/connect_scouted",
        FLAG,
        True,
        "whether opening waits until scouted nodes are connected",
    ),
    _unset(
        "open/return_conditions/declares",
        FLAG,
        True,
        "whether opening waits for the first declarations of others",
    ),
)

_SCOUTING: Final = (
    _unset("scouting/timeout", U64, 3_000, "ms a client scouts for before it gives up"),
    _unset("scouting/delay", U64, 500, "ms that opening waits for scouted nodes"),
    _unset("scouting/multicast/enabled", FLAG, True, "whether to scout by multicast"),
    _unset(
        "scouting/multicast/address",
        shapes.MULTICAST_ADDRESS,
        "224.0.0.224:7446",
        "the scouting group",
    ),
    _unset("scouting/multicast/interface", TEXT, "auto", "network interface, or auto"),
    _unset("scouting/multicast/ttl", Integer(0, 255), 1, "how many networks scouting crosses"),
    _unset(
        "scouting/multicast/autoconnect",
        PerMode(Roles()),
        shapes.AUTOCONNECT_DEFAULT,
        "roles to connect to when they are found",
    ),
    _unset(
        "scouting/multicast/autoconnect_strategy",
        shapes.STRATEGY,
        "always",
        "whether both sides connect, or only the one with the greater id",
    ),
    _unset("scouting/multicast/listen", PerMode(FLAG), True, "whether to answer other scouts"),
    _unset("scouting/gossip/enabled", FLAG, True, "whether nodes tell of nodes"),
    _unset("scouting/gossip/multihop", FLAG, False, "whether gossip is passed on"),
    _unset(
        "scouting/gossip/target",
        PerMode(Roles()),
        ["router", "peer"],
        "roles that gossip is sent to",
    ),
    _unset(
        "scouting/gossip/autoconnect",
        PerMode(Roles()),
        shapes.AUTOCONNECT_DEFAULT,
        "roles to connect to when gossip tells of them",
    ),
    _unset(
        "scouting/gossip/autoconnect_strategy",
        shapes.STRATEGY,
        "always",
        "as scouting/multicast/autoconnect_strategy",
    ),
)

_ROUTING: Final = (
    _unset(
        "timestamping/enabled",
        PerMode(FLAG),
        {"router": True, "peer": False, "client": False},
        "whether samples without timestamp get one",
    ),
    _unset(
        "timestamping/drop_future_timestamp",
        FLAG,
        False,
        "drop samples from the future instead of stamping them anew",
    ),
    Key(
        "routing/router/linkstate/transport_weights",
        shapes.WEIGHTS,
        [],
        "weights of links between routers; 100 if neither side says",
    ),
    _silent("routing/router/peers_failover_brokering", FLAG, "obsolete", inert=_OBSOLETE),
    _silent("routing/peer", Free(), "obsolete", inert=_OBSOLETE),
    _unset("routing/interests/timeout", U64, 10_000, "ms an answer to an interest is awaited"),
    Key(
        "aggregation/subscribers",
        shapes.KEY_EXPRS,
        [],
        "subscribers declared as one per key",
        inert=_NO_AGGREGATION,
    ),
    Key(
        "aggregation/publishers",
        shapes.KEY_EXPRS,
        [],
        "publishers declared as one per key",
        inert=_NO_AGGREGATION,
    ),
    Key("qos/publication", shapes.PUBLICATION, [], "QoS of publications, in place of the API's"),
    Key("qos/network", shapes.OVERWRITE, [], "QoS of messages at the edge of the node"),
    Key("downsampling", shapes.DOWNSAMPLING, [], "greatest frequency of messages, by key"),
    Key("low_pass_filter", shapes.LOW_PASS, [], "greatest size of messages, by key"),
    Key(
        "stats/filters",
        shapes.STATS_FILTERS,
        [],
        "keys that have statistics of their own",
        inert=Inert("statistics are kept by neighbour and priority, not by key", _REMOVE),
    ),
    Key("access_control/enabled", FLAG, False, "whether the rules below apply"),
    Key(
        "access_control/default_permission",
        shapes.PERMISSION,
        "deny",
        "what no rule decides",
    ),
    _unset("access_control/rules", shapes.ACL_RULES, None, "what is allowed or denied"),
    _unset("access_control/subjects", shapes.ACL_SUBJECTS, None, "whom the rules are about"),
    _unset("access_control/policies", shapes.ACL_POLICIES, None, "which rules for which subjects"),
)

_TRANSPORT: Final = (
    Key("transport/unicast/open_timeout", U64, 10_000, "ms to establish a session we open"),
    Key("transport/unicast/accept_timeout", U64, 10_000, "ms to establish one we accept"),
    Key(
        "transport/unicast/accept_pending",
        Integer(1),
        100,
        "handshakes of newcomers at once; one more ends the oldest",
        here=512,
    ),
    Key("transport/unicast/max_sessions", U64, 1_000, "sessions at once"),
    Key(
        "transport/unicast/max_links",
        U64,
        1,
        "links that a neighbour may open to this node",
        inert=Inert("a second link to the same node is not negotiated", _REMOVE),
    ),
    Key(
        "transport/unicast/lowlatency",
        FLAG,
        False,
        "no batching, fragments or priorities; messages longer than a batch are dropped, counted",
    ),
    Key("transport/unicast/qos/enabled", FLAG, True, "whether priorities are offered"),
    Key("transport/unicast/compression/enabled", FLAG, False, "whether LZ4 is offered"),
    Key("transport/multicast/join_interval", Integer(1), 2_500, "ms between JOINs"),
    Key("transport/multicast/max_sessions", U64, 1_000, "members heard at once"),
    Key("transport/multicast/qos/enabled", FLAG, False, "whether priorities are used"),
    Key("transport/multicast/compression/enabled", FLAG, False, "whether LZ4 is used"),
    _unset("transport/link/protocols", ListOf(TEXT), None, "protocols to use; all if not set"),
    Key(
        "transport/link/tx/sequence_number_resolution",
        Choice(("8bit", "16bit", "32bit", "64bit")),
        "32bit",
        "bits of the sequence numbers we offer",
    ),
    Key(
        "transport/link/tx/lease", Integer(1), 10_000, "ms of silence after which others give us up"
    ),
    Key("transport/link/tx/keep_alive", Integer(1), 4, "keep-alives per lease"),
    Key(
        "transport/link/tx/batch_size",
        Integer(BATCH_LEN_MIN, BATCH_LEN_MAX),
        65_535,
        "greatest batch in bytes",
    ),
    *(
        Key(
            f"transport/link/tx/queue/size/{name}",
            Integer(1, 16),
            2,
            "batches of `batch_size` bytes that may be queued; then there is congestion",
            here=16,
        )
        for name in ("control", *shapes.PRIORITY.names)
    ),
    Key(
        "transport/link/tx/queue/congestion_control/drop/wait_before_drop",
        Integer(-(2**63), 2**63 - 1),
        1_000,
        "microseconds a droppable message waits for room",
        inert=_NO_WAIT_BEFORE_DROP,
    ),
    Key(
        "transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments",
        Integer(-(2**63), 2**63 - 1),
        50_000,
        "microseconds all fragments of a droppable message wait for room",
        inert=_NO_WAIT_BEFORE_DROP,
    ),
    Key(
        "transport/link/tx/queue/congestion_control/block/wait_before_close",
        Integer(-(2**63), 2**63 - 1),
        5_000_000,
        "microseconds a blocked message waits before its session is closed",
    ),
    Key("transport/link/tx/queue/batching/enabled", FLAG, True, "whether messages share batches"),
    Key("transport/link/tx/queue/batching/time_limit", U64, 1, "ms a batch waits for more"),
    Key(
        "transport/link/tx/queue/allocation/mode",
        Choice(("init", "lazy")),
        "lazy",
        "when queues take their memory",
        inert=Inert("queues take memory when something is queued", _REMOVE),
    ),
    Key(
        "transport/link/tx/threads",
        U64,
        1,
        "threads that write to links",
        inert=Inert("a node has one I/O thread", _REMOVE),
    ),
    Key(
        "transport/link/rx/buffer_size",
        Integer(1, RX_BUFFER_LEN_MAX),
        65_535,
        "bytes read from a stream at once",
        here=DEFAULT_LIMITS.link_read_len,
    ),
    Key(
        "transport/link/rx/max_message_size",
        U64,
        1_073_741_824,
        "bytes of one message that came in fragments; longer ones are dropped and counted",
        here=DEFAULT_LIMITS.message_len,
    ),
    _unset("transport/link/tcp/so_rcvbuf", U32, None, "receive buffer of sockets, octets"),
    _unset("transport/link/tcp/so_sndbuf", U32, None, "send buffer of sockets, octets"),
    _unset(
        "transport/link/unixpipe/file_access_mask",
        U32,
        None,
        "permissions of new pipes",
        inert=Inert("there are no unixpipe links", "remove the key, and use unixsock-stream"),
    ),
    Key(
        "transport/shared_memory/enabled",
        FLAG,
        True,
        "whether shared memory is offered",
        inert=replace(_NO_SHARED_MEMORY, any_value=True),
    ),
    Key(
        "transport/shared_memory/mode",
        Choice(("init", "lazy")),
        "lazy",
        "when shared memory is taken",
        inert=_NO_SHARED_MEMORY,
    ),
    Key(
        "transport/shared_memory/transport_optimization/enabled",
        FLAG,
        True,
        "whether large payloads are moved to shared memory",
        inert=replace(_NO_SHARED_MEMORY, any_value=True),
    ),
    Key(
        "transport/shared_memory/transport_optimization/pool_size",
        U64,
        16_777_216,
        "bytes of shared memory",
        inert=_NO_SHARED_MEMORY,
    ),
    Key(
        "transport/shared_memory/transport_optimization/message_size_threshold",
        U64,
        3_072,
        "bytes from which a payload is large",
        inert=_NO_SHARED_MEMORY,
    ),
    Key(
        "transport/shared_memory/transport_optimization/messages",
        ListOf(shapes.DATA_MESSAGES.item),
        ["put", "query", "reply"],
        "messages whose payloads are moved",
        inert=_NO_SHARED_MEMORY,
    ),
)

_TLS: Final = "transport/link/tls"
_SECURITY: Final = (
    _unset(f"{_TLS}/root_ca_certificate", PATH, None, "file of the authority that is trusted"),
    _unset(f"{_TLS}/listen_private_key", PATH, None, "file of the listener's private key"),
    _unset(f"{_TLS}/listen_certificate", PATH, None, "file of the listener's certificate"),
    _unset(f"{_TLS}/enable_mtls", FLAG, False, "whether connecting sides need a certificate"),
    _unset(f"{_TLS}/connect_private_key", PATH, None, "file of the connector's private key"),
    _unset(f"{_TLS}/connect_certificate", PATH, None, "file of the connector's certificate"),
    _unset(f"{_TLS}/verify_name_on_connect", FLAG, True, "whether the host's name must match"),
    _unset(f"{_TLS}/close_link_on_expiration", FLAG, False, "close when a certificate expires"),
    _unset(f"{_TLS}/so_sndbuf", U32, None, "send buffer of sockets, octets"),
    _unset(f"{_TLS}/so_rcvbuf", U32, None, "receive buffer of sockets, octets"),
    _silent(f"{_TLS}/root_ca_certificate_base64", TEXT, "the certificate itself"),
    _silent(f"{_TLS}/listen_private_key_base64", Hidden(), "the private key itself"),
    _silent(f"{_TLS}/listen_certificate_base64", TEXT, "the certificate itself"),
    _silent(f"{_TLS}/connect_private_key_base64", Hidden(), "the private key itself"),
    _silent(f"{_TLS}/connect_certificate_base64", TEXT, "the certificate itself"),
    _unset("transport/auth/usrpwd/user", Hidden(), None, "name to connect with"),
    _unset("transport/auth/usrpwd/password", Hidden(), None, "password to connect with"),
    _unset("transport/auth/usrpwd/dictionary_file", PATH, None, "file of user:password lines"),
    _unset(
        "transport/auth/pubkey/public_key_pem", TEXT, None, "our public key", inert=_NO_PUBLIC_KEYS
    ),
    _unset(
        "transport/auth/pubkey/private_key_pem",
        Hidden(),
        None,
        "our private key",
        inert=_NO_PUBLIC_KEYS,
    ),
    _unset(
        "transport/auth/pubkey/public_key_file",
        PATH,
        None,
        "file of our public key",
        inert=_NO_PUBLIC_KEYS,
    ),
    _unset(
        "transport/auth/pubkey/private_key_file",
        PATH,
        None,
        "file of our private key",
        inert=_NO_PUBLIC_KEYS,
    ),
    _unset(
        "transport/auth/pubkey/key_size",
        U64,
        None,
        "bits of a generated key",
        inert=_NO_PUBLIC_KEYS,
    ),
    _unset(
        "transport/auth/pubkey/known_keys_file",
        PATH,
        None,
        "file of keys that are let in",
        inert=_NO_PUBLIC_KEYS,
    ),
)

_OPERATION: Final = (
    Key("adminspace/enabled", FLAG, False, "whether the node describes itself under @/"),
    Key("adminspace/permissions/read", FLAG, True, "whether it may be read"),
    Key("adminspace/permissions/write", FLAG, False, "whether the configuration may be changed"),
    Key("plugins_loading/enabled", FLAG, False, "whether services are started"),
    Key(
        "plugins_loading/search_dirs",
        shapes.SEARCH_DIRS,
        [
            {"kind": "current_exe_parent"},
            ".",
            "~/.zenoh/lib",
            "/opt/homebrew/lib",
            "/usr/local/lib",
            "/usr/lib",
        ],
        "where shared libraries of plugins are looked for",
        inert=Inert("services are installed Python packages, not shared libraries", _REMOVE),
    ),
    Key("plugins", Free("an object", object_only=True), {}, "one object per service"),
)

# Elea's own, not listed until they are set: Eclipse Zenoh refuses a file that has them.
_ELEA: Final = (
    _silent("elea/authorizer", TEXT, "entry point of `elea.authorizers` that is asked as well"),
    Key(
        "elea/authorizer_max_age",
        U64,
        60_000,
        "ms that an answer of the authorizer holds",
        unset=True,
        silent=True,
    ),
    _silent("elea/roles", shapes.ROLES, "who may be a router or a peer, or tell link state"),
    _silent("elea/quotas", shapes.QUOTAS, "what an identity may send and declare"),
    _silent("elea/audit/file", PATH, "file that audit lines are added to"),
    Key(
        "elea/audit/lines_per_second",
        Integer(1, 1_000_000),
        10,
        "refusals of one neighbour that get a line each; the rest is counted",
        unset=True,
        silent=True,
    ),
    _silent(
        "elea/tls/allowed_names",
        ListOf(TEXT),
        "names of the certificates that may connect by mutual TLS; all trusted ones if not set",
    ),
    _silent(
        "elea/learned/allow",
        ListOf(shapes.PLACE),
        "networks and host names that nodes others tell of may be dialled in; any if not set",
    ),
)

KEYS: Final = (
    *_NODE,
    *_CONNECTIONS,
    *_SCOUTING,
    *_ROUTING,
    *_TRANSPORT,
    *_SECURITY,
    *_OPERATION,
    *_ELEA,
)
BY_PATH: Final = {key.path: key for key in KEYS}


def _tree() -> dict[str, tuple[str, ...]]:
    children: dict[str, dict[str, None]] = {"": {}}
    for key in KEYS:
        parent = ""
        for name in key.path.split("/"):
            children.setdefault(parent, {})[name] = None
            parent = f"{parent}/{name}" if parent else name
    return {path: tuple(names) for path, names in children.items()}


CHILDREN: Final = _tree()  # interior path -> the names below it, in the table's order
