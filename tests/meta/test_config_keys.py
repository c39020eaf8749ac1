"""No key of the configuration is read by nothing, and no setting made of one is used by nothing."""

from __future__ import annotations

import ast
import threading
from dataclasses import fields
from typing import Any, ClassVar

import pytest
from tests.link.test_driver import until
from tests.link.test_multicast import free_port
from tests.meta.tree import PACKAGE, ROOT

import elea
from elea.config.config import Config
from elea.config.kinds import Value
from elea.config.schema import KEYS
from elea.daemon import effective
from elea.daemon.daemon import Daemon
from elea.daemon.effective import Options
from elea.link.settings import LinkSettings, ScoutingSettings, SocketOptions, TlsSettings
from elea.node.settings import AutoconnectSettings, NodeSettings, RetrySettings
from elea.routing.settings import RoutingSettings
from elea.session.face import SessionSettings
from elea.transport.multicast import GroupOffer
from elea.transport.negotiation import Offer
from elea.transport.settings import TransportSettings

_EFFECTS = "tests/link/test_config_in_effect.py"
_NODE = "tests/unit/node/test_settings_in_effect.py"
_BINDING = "tests/link/test_binding.py"
_QUEUE = "transport/link/tx/queue"
# Keys that were once read by nothing, and the test that shows what each does.
SHOWN = {
    "listen/timeout_ms": f"{_BINDING}::test_opening_gives_up_after_the_time",
    "listen/exit_on_failure": f"{_BINDING}::test_a_listener_may_fail_if_configured",
    "listen/retry": f"{_BINDING}::test_pauses_grow_as_configured",
    "open/return_conditions/declares": (
        f"{_NODE}::test_opening_waits_for_declarations_unless_configured_otherwise"
    ),
    "qos/publication": (
        "tests/unit/session/test_publication_qos.py"
        "::test_a_put_and_a_delete_take_what_is_configured"
    ),
    "transport/unicast/accept_pending": (
        f"{_EFFECTS}::test_one_handshake_more_than_accept_pending_ends_the_oldest"
    ),
    "transport/link/tx/keep_alive": (
        f"{_EFFECTS}::test_a_node_sends_as_many_keep_alives_as_configured"
    ),
    **{
        f"{_QUEUE}/size/{name}": f"{_NODE}::test_a_queue_holds_as_many_batches_as_configured"
        for name in (
            "control",
            "real_time",
            "interactive_high",
            "interactive_low",
            "data_high",
            "data",
            "data_low",
            "background",
        )
    },
    f"{_QUEUE}/batching/enabled": f"{_EFFECTS}::test_without_batching_nothing_waits_for_company",
    f"{_QUEUE}/batching/time_limit": (
        f"{_EFFECTS}::test_a_burst_is_looked_at_as_often_as_time_limit_says"
    ),
    "transport/link/rx/buffer_size": (
        f"{_EFFECTS}::test_as_much_is_read_at_once_as_buffer_size_says"
    ),
    "transport/link/rx/max_message_size": (
        f"{_EFFECTS}::test_a_message_longer_than_max_message_size_is_dropped_and_counted"
    ),
}
SETTINGS = (
    NodeSettings,
    LinkSettings,
    ScoutingSettings,
    TlsSettings,
    SocketOptions,
    AutoconnectSettings,
    RetrySettings,
    RoutingSettings,
    SessionSettings,
    TransportSettings,
    Offer,
    GroupOffer,
)


class Recording(Config):
    """A configuration that knows what was asked of it, copies included."""

    asked: ClassVar[set[str]] = set()

    def get(self, path: str) -> Value:
        self.asked.add(path)
        return super().get(path)

    def get_json(self, key: str) -> str:
        self.asked.add(key)
        return super().get_json(key)

    @property
    def mode(self) -> Any:
        self.asked.add("mode")
        return super().mode

    @property
    def zid(self) -> Any:
        self.asked.add("id")
        return super().zid


def _silent(mode: str, endpoint: str | None = None) -> Recording:
    config = Recording()
    config.insert_json5("mode", f'"{mode}"')
    config.insert_json5("listen/endpoints", "[]" if endpoint else '["tcp/127.0.0.1:0"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    if endpoint:
        config.insert_json5("connect/endpoints", f'["{endpoint}"]')
    return config


def test_every_key_is_read_when_nodes_start_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "asked", set())
    monkeypatch.setattr(effective, "Config", Recording)
    rules = "{enabled: true, default_permission: 'allow', rules: [], subjects: [], policies: []}"
    options = Options(
        listen=("tcp/127.0.0.1:0",),
        no_multicast_scouting=True,
        cfg=(f"access_control:{rules}", "adminspace/permissions/write:true"),
    )
    daemon = Daemon(options)
    daemon.start()
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        [where] = daemon.locators()
        peer = _silent("peer")
        peer.insert_json5("scouting/multicast/enabled", "true")  # in a group of its own
        peer.insert_json5("scouting/multicast/interface", '"lo"')
        peer.insert_json5("scouting/multicast/address", f'"224.0.0.224:{free_port()}"')
        with elea.open(peer), elea.open(_silent("client", where)) as client:
            root = f"@/{daemon.session.zid()}/router"
            assert list(client.get(root))
            asked = set(Recording.asked)  # a change looks at every key to see what differs
            client.put(f"{root}/config/metadata", "1")
            write = "adminspace/permissions/write"
            until(lambda: write in Recording.asked)
    finally:
        daemon.stop()
        thread.join()
        daemon.close()
    read = {key.path for key in KEYS if key.inert is None}
    unread = read - asked - {write}
    assert not unread, f"keys that are read by nothing: {sorted(unread)}"


def test_keys_that_were_read_by_nothing_have_a_test_or_are_refused() -> None:
    known = {key.path: key for key in KEYS}
    for path, where in SHOWN.items():
        assert known[path].inert is None
        file, _, name = where.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}


def test_every_setting_is_used() -> None:
    """A key that is read into a field that nothing looks at does nothing either."""
    used: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load):
                used.add(one.attr)
    unused = [
        f"{kind.__name__}.{one.name}"
        for kind in SETTINGS
        for one in fields(kind)
        if one.name not in used
    ]
    # TLS settings are taken by the names of their fields.
    assert unused == []
