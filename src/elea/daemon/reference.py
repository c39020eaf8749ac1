"""The admin space and its metrics as one page: `docs/reference/admin-space.md`."""

from __future__ import annotations

from typing import Final

from elea.daemon.metrics import COUNTERS, ENCODING

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
    ("/metrics", ENCODING, "what was counted; compressed with gzip"),
    ("/plugins/<name>", _JSON, "a service that runs: `name`, `path`, `state`"),
    ("/status/plugins/<name>/...", _JSON, "what a service tells of itself"),
    ("/config/<path>", _JSON, "a key of the configuration, secrets as `***`; put and delete"),
)

_HEAD: Final = """# The admin space

A node with `adminspace/enabled` describes itself below `@/<zid>/<role>`, where `<role>` is
`router`, `peer` or `client`; `elea router` does so unless it is told not to. Keys, encodings and
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

## Writing

A put on `config/<path>` sets a key of the configuration to a JSON5 text, a delete sets it back to
its default. Endpoints, permissions, metadata and services change at once, and no session is lost;
other keys wait for the next start, which is logged. What is not legal, or opens a plain port to
other hosts without `--allow-plain`, is refused and logged, and nothing changes.

## Metrics

OpenMetrics text. Parameters of the query: `compression=false` for plain text, `descriptors=false`
for values alone, `per_transport=false` for sums over all neighbours.

| metric | type | labels | what |
| --- | --- | --- | --- |
| `zenoh_build_info` | info | `local_id`, `local_whatami`, `version` | the version |
| `elea_uptime_seconds` | gauge | | time since the start |
| `elea_sessions` | gauge | `whatami` | neighbours that are connected |
| `elea_declarations` | gauge | `kind` | keys that are declared |
| `elea_routing_drops_total` | counter | `reason` | messages that went nowhere |
| `elea_links_refused_total` | counter | `reason` | links refused, or closed for safety |
"""


def markdown() -> str:
    """The page, without its first line."""
    text = _HEAD
    for key, encoding, content in KEYS:
        text += f"| {f'`{key}`' if key else 'itself'} | `{encoding}` | {content} |\n"
    text += _SESSION
    labels = "`remote_id`, `remote_whatami`"
    for name, meaning in COUNTERS:
        what = meaning[0].lower() + meaning[1:].rstrip(".")
        text += f"| `elea_transport_{name}_total` | counter | {labels} | {what} |\n"
    return text
