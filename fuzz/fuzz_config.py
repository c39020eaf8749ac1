"""Fuzz configurations: any text gives a Config that reads back, or a ConfigError or LimitError.

The first octet chooses the language: `y` is YAML, everything else JSON5.
"""

from __future__ import annotations

from elea.config import Config
from elea.errors import ConfigError, LimitError

SEEDS = [
    b"{}",
    b'{mode: "router", id: "a1b2", connect: {endpoints: ["tcp/host:7447", "udp/h:1?rel=0"]}}',
    b"{scouting: {timeout: 1e3, multicast: {enabled: false, ttl: 0x2, address: '224.0.0.224:7446',"
    b" autoconnect: {router: [], peer: ['router', 'peer']}}}} // end",
    b"{transport: {auth: {usrpwd: {user: 'u', password: 'p\\u0041\\x42\\\n'}}, link: {tx: {queue:"
    b" {size: {control: 4}}}}}}",
    b"{connect: {timeout_ms: {router: -1, client: 0}, retry: {period_init_ms: 10}}, /* c */}",
    b"{access_control: {enabled: true, default_permission: 'deny', rules: [{id: 'r', messages:"
    b" ['put'], flows: ['egress'], permission: 'allow', key_exprs: ['a/**']}], subjects:"
    b" [{id: 's'}], policies: [{rules: ['r'], subjects: ['s']}]}}",
    b"{plugins: {rest: {http_port: 8000, private: {token: 'x'}}}, metadata: [1, .5, +2, null]}",
    b"{qos: {network: [{messages: ['put'], overwrite: {priority: 'data'}, payload_size: '0..9'}]}}",
    b"{downsampling: [{messages: ['put'], rules: [{key_expr: 'a', freq: 0.5}]}], low_pass_filter:"
    b" [{messages: ['query'], key_exprs: ['a'], size_limit: 1}]}",
    b"[" * 40 + b"]" * 40,
    b"y mode: client\nconnect:\n  endpoints: [tcp/host:7447]\n",
    b"y metadata: {a: &a [1, ~, 'x'], b: *a, c: !!int 5}\n",
    b"y metadata: |\n  text\n",
]

# What does not grow with the text: the tree of defaults that `str` writes, PyYAML's parser,
# likeness with every known key. What grows faster: an empty object takes 64 octets for three.
MEMORY_ALLOWANCE = 768 * 1024


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        config = Config.from_yaml(text[1:]) if text.startswith("y") else Config.from_json5(text)
    except (ConfigError, LimitError):
        return
    shown = str(config)
    if not config.has_secrets():
        assert str(Config.from_json5(shown)) == shown
