"""Keys that no code acts on: what is refused when a node starts, and what still loads."""

from __future__ import annotations

import os

import pytest

import elea
from elea.config.config import Config
from elea.config.kinds import Value, public
from elea.config.schema import KEYS, Key
from elea.config.support import check_supported
from elea.errors import ConfigError
from elea.node.settings import NodeSettings
from elea.wire import compression

INERT = [key for key in KEYS if key.inert is not None]
REFUSED = [key for key in INERT if key.inert is not None and not key.inert.any_value]
# A value of each that would change something in Eclipse Zenoh.
OTHER: dict[str, Value] = {
    "aggregation/subscribers": ["a/**"],
    "aggregation/publishers": ["a/**"],
    "stats/filters": [{"key": "a/**"}],
    "transport/unicast/max_links": 2,
    "transport/link/tx/queue/congestion_control/drop/wait_before_drop": 2_000,
    "transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments": 9_000,
    "transport/link/tx/queue/allocation/mode": "init",
    "transport/link/tx/threads": 4,
    "transport/link/unixpipe/file_access_mask": 384,
    "transport/shared_memory/mode": "init",
    "transport/shared_memory/transport_optimization/pool_size": 1,
    "transport/shared_memory/transport_optimization/message_size_threshold": 1,
    "transport/shared_memory/transport_optimization/messages": ["put"],
    "transport/auth/pubkey/public_key_pem": "key",
    "transport/auth/pubkey/private_key_pem": "hush",
    "transport/auth/pubkey/public_key_file": "/k/public.pem",
    "transport/auth/pubkey/private_key_file": "/k/private.pem",
    "transport/auth/pubkey/key_size": 2_048,
    "transport/auth/pubkey/known_keys_file": "/k/known",
    "plugins_loading/search_dirs": ["/opt/plugins"],
}


def nested(path: str, value: object) -> dict[str, object]:
    for name in reversed(path.split("/")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("key", REFUSED, ids=lambda key: key.path)
def test_a_key_without_effect_is_refused_at_start_with_a_reason(key: Key) -> None:
    config = Config.from_mapping(nested(key.path, OTHER[key.path]))
    with pytest.raises(ConfigError) as caught:
        NodeSettings.from_config(config, os.urandom)
    assert key.inert is not None
    told = str(caught.value)
    assert key.path in told
    assert "would have no effect" in told
    assert key.inert.why in told
    assert key.inert.advice in told
    assert "hush" not in told
    with pytest.raises(ConfigError, match="would have no effect"):
        elea.open(config)


@pytest.mark.parametrize("key", INERT, ids=lambda key: key.path)
def test_a_default_that_is_spelled_out_passes(key: Key) -> None:
    if key.default is not None:
        check_supported(Config.from_mapping(nested(key.path, public(key.default))))
    check_supported(Config.from_mapping({}))


def test_what_changes_nothing_in_eclipse_either_passes() -> None:
    check_supported(
        Config.from_mapping(
            {
                "routing": {
                    "peer": {"mode": "linkstate"},
                    "router": {"peers_failover_brokering": True},
                },
                "transport": {
                    "shared_memory": {
                        "enabled": False,
                        "transport_optimization": {"enabled": False},
                    }
                },
            }
        )
    )


def test_public_keys_never_pass_silently() -> None:
    """Nobody is kept out by `known_keys_file`: a node that has it must not start."""
    paths = [key.path for key in KEYS if key.path.startswith("transport/auth/pubkey/")]
    assert len(paths) == 6
    assert set(paths) <= {key.path for key in REFUSED}


def test_low_latency_excludes_priorities_and_compression() -> None:
    for other in ("qos", "compression"):
        section = {"lowlatency": True, "qos": {"enabled": False}} | {other: {"enabled": True}}
        config = Config.from_mapping({"transport": {"unicast": section}})
        with pytest.raises(ConfigError, match=f"lowlatency: it excludes .*{other}/enabled"):
            NodeSettings.from_config(config, os.urandom)


def test_compression_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "available", lambda: False)
    for kind in ("unicast", "multicast"):
        config = Config.from_mapping({"transport": {kind: {"compression": {"enabled": True}}}})
        with pytest.raises(ConfigError, match="pip install"):
            NodeSettings.from_config(config, os.urandom)
