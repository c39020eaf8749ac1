"""The admin space and its metrics as pages: `docs/reference/admin-space.md`, `metrics.md`."""

from __future__ import annotations

from typing import Final

from elea.daemon.metrics import DROPS, ENCODING, METRICS
from elea.dds.names import METRICS as DDS_METRICS
from elea.devices.names import METRICS as XRCE_METRICS
from elea.routing.stats import Drop
from elea.store.flight.counts import METRICS as FLIGHT_METRICS
from elea.web.names import METRICS as REST_METRICS
from elea.web.names import REASONS

_JSON: Final = "application/json"

# Below @/<zid>/<role>: key, encoding, content.
KEYS: Final = (
    ("", _JSON, "the node: `zid`, `version`, `metadata`, `locators`, `sessions`, `plugins`"),
    ("/subscriber/<key>", _JSON, "who subscribes: `routers`, `peers`, `clients`"),
    ("/publisher/<key>", _JSON, "who publishes, as far as it was declared; shaped alike"),
    ("/queryable/<key>", _JSON, "who answers queries; shaped alike"),
    ("/querier/<key>", _JSON, "who asks, as far as it was declared; shaped alike"),
    ("/token/<key>", _JSON, "who has a liveliness token; shaped alike"),
    ("/linkstate/<region>", "text/plain", "who is connected to whom, in the DOT language"),
    (
        "/route/successor/src/<zid>/dst/<zid>",
        _JSON,
        "the router that what comes from `src` and goes to `dst` is handed to",
    ),
    (
        "/route/<action>/<key>",
        _JSON,
        "what this node does with a key; `<action>` is `put`, `get` or `subscribe`",
    ),
    ("/metrics", ENCODING, "what was counted; compressed with gzip"),
    (
        "/spool",
        _JSON,
        "acknowledged puts that wait for a recorder, if a spool is declared: `SpoolStats`",
    ),
    ("/plugins/<name>", _JSON, "a service that runs: `name`, `path`, `state`"),
    ("/status/plugins/<name>/...", _JSON, "what a service tells of itself"),
    (
        "/status/plugins/storage_manager/storages/<name>",
        _JSON,
        "a storage: `key_expr`, `volume`, `state`, `keys`, `counts`, `last_error`, `problems`",
    ),
    (
        "/status/plugins/storage_manager/volumes/<name>",
        _JSON,
        "a volume: its options, `backend`, `state`; where its code is at `__path__` below",
    ),
    (
        "/status/plugins/historian/historian",
        _JSON,
        "a historian: `key_exprs`, `logs`, `tables`, `counts`, `last_error`, `problems`",
    ),
    (
        "/status/plugins/recorder/recordings/<name>",
        _JSON,
        "a recording: `key_exprs`, `state`, and `logs` with what was recorded, missing and dropped",
    ),
    (
        "/status/plugins/recorder/flight",
        _JSON,
        "the Flight door: `state`, `location`, `advertised`, `token`, `logs`, `counts`, `error`",
    ),
    (
        "/status/plugins/sql/sql",
        _JSON,
        "the SQL door: `key`, `tables`, `counts`, `last_error`",
    ),
    (
        "/status/plugins/dds/bridge",
        _JSON,
        "a DDS bridge: `domain`, `participants`, `endpoints`, `routes_by_state`, `counts`",
    ),
    (
        "/status/plugins/xrce/gateway",
        _JSON,
        "a gateway: `listen`, `devices`, `counts`, `left`, `shared_port`",
    ),
    (
        "/status/plugins/xrce/devices/<pid>",
        _JSON,
        "a device: `source`, `lease_ms`, `names`, `publishers`, `subscribers`, `counts`",
    ),
    ("/config/<path>", _JSON, "a key of the configuration, secrets as `***`; put and delete"),
)

_HEAD: Final = """# The admin space

A node with `adminspace/enabled` describes itself below `@/<zid>/<role>`, where `<role>` is
`router`, `peer` or `client`; `elea router` does so unless it is told not to, and
`elea.open({"adminspace": {"enabled": True}})` if it is told to. Keys, encodings and
JSON are those of Eclipse Zenoh 1.10, so tools made for it work. `@` is matched by nothing but
`@`: `@/**` and `@/*/router` ask every node, `**` asks none.

`adminspace/permissions` says whether it may be read (by default) and written (not by default), by
whoever is connected.

| key below `@/<zid>/<role>` | encoding | content |
| --- | --- | --- |
"""

_SESSION: Final = """
Each of `sessions` is `{"peer": zid, "whatami": role, "region": region, "links": [{"src": locator,
"dst": locator}], "weight": null, "shm": false}`; between routers `weight` is `{"src_weight": n,
"dst_weight": n, "actual_weight": n}`, null where it was not set. Who proved a name has it there
too, as `user` or `cert_common_name`. In the lists of
declarations a node names itself, among those of its own role, for what it passes on.

Keys below `config` are Elea's own in this: Eclipse Zenoh does not let them be read. They are
answered to queries that say `config`, not to `@/**`.

## Routes

`route/<action>/<key>` is Elea's own, too, and answered to queries that spell it: `{"action":
action, "key": key, "from": zid or null, "hops": [...]}`. Each of `hops` is a neighbour, a group
or the node's own application: `{"zid": zid, "whatami": role, "region": region, "local": bool,
"group": bool, "why": [text], "sent_messages": n, "dropped_messages": n, "waiting_messages": n}`;
the counters are those of its transport. Where access rules apply, a hop, and for what comes in
the answer itself, has `"access": {"allowed": bool, "rule": id or null, "why": text}`. The
parameter `from=<zid>` names the neighbour that a message comes from (nobody known: an application
of the node), `root=<zid>` the router where it entered the network of routers. Nothing is sent.
[`elea trace`](cli.md) asks hop by hop.

## Counters with the node: `_stats`

The parameter `_stats` adds `stats` to the node and to each of `sessions`, with the names of
Eclipse Zenoh built with its feature `stats`: `rx_bytes`, `rx_n_msgs`, `rx_t_msgs`, `rx_n_dropped`
and the same with `tx_`. Messages by kind, such as `tx_z_put_msgs`, are not counted, and left out.
Elea adds `drops` by direction and reason; to the node `routing_drops`, `process`
(`resident_bytes`, `cpu_seconds`) and `uptime_seconds`; to a session `connected_seconds`, `user`,
`common_name`, `waiting_bytes` and `waiting_messages`. `elea top` shows them.

## Writing

A put on `config/<path>` sets a key of the configuration to a JSON5 text, a delete sets it back to
its default. Endpoints, permissions, metadata, services, access rules, filters and quotas change at
once, and no session is lost; other keys wait for the next start, which is logged. What is not
legal, or opens a plain port to other hosts without `--allow-plain`, is refused and logged, and
nothing changes. Every write is audited, whatever becomes of it.

## Metrics

[metrics.md](metrics.md) lists them. Parameters of the query: `compression=false` for plain text,
`descriptors=false` for values alone, `per_transport=false` for sums alone.
"""

_METRICS: Final = """# Metrics

What a node counts, as OpenMetrics text: at `@/<zid>/<role>/metrics` in [the admin
space](admin-space.md), and for Prometheus at `/metrics` where REST runs. What Eclipse Zenoh 1.10
counts as well, if it is built with its feature `stats`, has the same name here, and labels
`local_id` and `local_whatami` besides those below. Its histograms of payloads, and counts by kind
of message, do not exist here. No metric has keys as labels.

A metric marked *each* exists a second time for each transport, with `_per_transport` in its name
(`zenoh_tx_per_transport_bytes_total`) and with the labels `remote_zid`, `remote_whatami` and,
with a verified certificate, `remote_cn`. Sums include transports that are no more.

| metric | type | labels | each | what |
| --- | --- | --- | --- | --- |
"""

_DROP_REASONS: Final = """
## Why something was dropped

Nothing is dropped on its way through a node without a counter of `elea_drops_total`. `direction` is
`tx` for what should have been sent and `rx` for what came in. What an application has no room for
is counted where it receives: `Subscriber.stats`.

| where | direction | reason | what |
| --- | --- | --- | --- |
"""

_REST: Final = """
## REST

Over HTTP only. There, the metrics by transport are left out unless `?per_transport=true` asks for
them.

| metric | type | labels | what |
| --- | --- | --- | --- |
"""

_XRCE: Final = """
## XRCE

Where `plugins/xrce` is configured ([xrce-gateway.md](../howto/xrce-gateway.md)).

| metric | type | what |
| --- | --- | --- |
"""

_DDS: Final = """
## DDS

Where `plugins/dds` is configured ([dds-bridge.md](../howto/dds-bridge.md)).

| metric | type | what |
| --- | --- | --- |
"""

_FLIGHT: Final = """
## Arrow Flight

Where `plugins/recorder/flight` is configured ([read-over-flight.md](../howto/read-over-flight.md)).

| metric | type | what |
| --- | --- | --- |
"""

_TRANSPORT_REASONS: Final = {
    "congestion": "a message that may be dropped found no room, or waited in vain",
    "too-long": "a message that fits no batch where messages are not fragmented",
    "closed": "a message for a transport that ends",
    "no-link": "a batch that fits no link that is left",
    "fragments": "a message of which not all fragments came",
    "stale": "a frame that was old or came twice",
    "undecodable": "a message put together of fragments that is none",
    "undecodable-batch": "a datagram of a group that is no batch",
}


def metrics_markdown() -> str:
    """The page of metrics, without its first line."""
    text = _METRICS
    for metric in METRICS:
        labels = ", ".join(f"`{one}`" for one in metric.labels)
        what = metric.help[0].lower() + metric.help[1:]
        each = "" if metric.per_transport is None else "each"
        text += f"| `{metric.shown_name}` | {metric.kind} | {labels} | {each} | {what} |\n"
    text += _DROP_REASONS
    for direction, reason in DROPS.values():
        text += f"| transport | {direction} | `{reason}` | {_TRANSPORT_REASONS[reason]} |\n"
    for drop in Drop:
        text += f"| routing | rx | `{drop.value}` | {drop.meaning} |\n"
    text += _REST
    for name, (kind, names, meaning) in REST_METRICS.items():
        labels = ", ".join(f"`{one}`" for one in names)
        shown = f"{name}_total" if kind == "counter" else name
        what = meaning[0].lower() + meaning[1:].rstrip(".")
        text += f"| `{shown}` | {kind} | {labels} | {what} |\n"
    text += "\n| `reason` of a refusal | what |\n| --- | --- |\n"
    for reason, meaning in REASONS.items():
        text += f"| `{reason}` | {meaning} |\n"
    text += _XRCE
    for name, (kind, _, meaning) in XRCE_METRICS.items():
        shown = f"{name}_total" if kind == "counter" else name
        text += f"| `{shown}` | {kind} | {meaning[0].lower()}{meaning[1:]} |\n"
    text += _DDS
    for name, (kind, _, meaning) in DDS_METRICS.items():
        shown = f"{name}_total" if kind == "counter" else name
        text += f"| `{shown}` | {kind} | {meaning[0].lower()}{meaning[1:]} |\n"
    text += _FLIGHT
    for name, (kind, _, meaning) in FLIGHT_METRICS.items():
        shown = f"{name}_total" if kind == "counter" else name
        text += f"| `{shown}` | {kind} | {meaning[0].lower()}{meaning[1:]} |\n"
    return text


def markdown() -> str:
    """The page, without its first line."""
    text = _HEAD
    for key, encoding, content in KEYS:
        text += f"| {f'`{key}`' if key else 'itself'} | `{encoding}` | {content} |\n"
    return text + _SESSION
