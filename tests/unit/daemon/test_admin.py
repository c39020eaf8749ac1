"""The admin space: what a node tells of itself, and what may be changed through it."""

from __future__ import annotations

import re
import socket
from functools import partial
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.unit.cli.ends import eventually, free_endpoint
from tests.unit.daemon.rig import (
    ANYWHERE,
    MODE,
    Recorder,
    ask,
    client_of,
    options,
    read,
    root_of,
    running,
)

import elea
from elea.daemon import daemon as daemon_module
from elea.daemon.reference import KEYS
from elea.dds.service import DdsService
from elea.devices.device import Device
from elea.devices.service import XrceService
from elea.errors import LimitError
from elea.store.historian.service import HistorianService
from elea.store.manager import StorageManager
from elea.store.recorder.service import RecorderService
from elea.store.sql.service import SqlService


def test_the_node_and_its_sessions() -> None:
    named = options('metadata:{name: "gate"}', id="a1")
    with running(named) as daemon, client_of(daemon) as client:
        shown = read(client, f"@/a1/{MODE}")
        assert list(shown) == ["locators", "metadata", "plugins", "sessions", "version", "zid"]
        assert (shown["zid"], shown["metadata"]) == ("a1", {"name": "gate"})
        assert shown["locators"] == list(daemon.locators())
        assert shown["version"].startswith("v")
        [link] = client.info.links()
        assert shown["sessions"] == [
            {
                "links": [{"dst": link.src, "src": daemon.locators()[0]}],
                "peer": str(client.zid()),
                "region": "south:0:client",
                "shm": False,
                "weight": None,
                "whatami": "client",
            }
        ]


def test_who_declared_what() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        root, zid = root_of(daemon), str(client.zid())
        ours = str(daemon.session.zid())
        entities = [
            client.declare_subscriber("s/**"),
            client.declare_queryable("q/a"),
            client.liveliness().declare_token("t/a"),
            client.declare_publisher("p/a"),
            client.declare_querier("q/*"),
        ]
        north = {"routers": "routers", "peer": "peers", "router": "routers"}[MODE]
        for kind, key, owned in (
            ("subscriber", "s/**", True),
            ("queryable", "q/a", True),
            ("token", "t/a", True),
            ("publisher", "p/a", False),
            ("querier", "q/*", False),
        ):
            expected = {"routers": [], "peers": [], "clients": [zid]}
            expected[north] = [ours] if owned else []
            full = f"{root}/{kind}/{key}"
            assert eventually(partial(ask, client, full))
            assert list(read(client, full)) == ["routers", "peers", "clients"]
            assert read(client, full) == expected
        assert list(ask(client, f"{root}/subscriber/s/x")) == [f"{root}/subscriber/s/**"]
        assert ask(client, f"{root}/subscriber/other") == {}
        entities[0].undeclare()
        assert eventually(lambda: not ask(client, f"{root}/subscriber/s/**"))


def test_everything_is_asked_for_with_an_at_sign_and_only_so() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        root = root_of(daemon)
        everything = ask(client, "@/**")
        assert {root, f"{root}/metrics", f"{root}/linkstate/north"} <= set(everything)
        assert not any(key.startswith(f"{root}/config") for key in everything)
        assert list(ask(client, f"@/*/{MODE}")) == [root]
        assert ask(client, "**") == {}


def test_every_key_of_the_page_is_answered(tmp_path: Path) -> None:
    kept = 'plugins/storage_manager/storages:{one: {key_expr: "kept/**", volume: "memory"}}'
    recordings = '{one: {key_exprs: "kept/**"}}'
    door = 'flight: {location: "grpc://127.0.0.1:0"}'
    recorded = f'plugins/recorder:{{directory: "{tmp_path}", recordings: {recordings}, {door}}}'
    asked = f'plugins/historian:{{logs: "{tmp_path}"}}'
    tables = f'plugins/sql:{{tables: "{tmp_path}"}}'
    port = f"udp/127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    devices = f'plugins/xrce:{{listen: "{port}"}}'
    domain = "plugins/dds:{domain: 19}"
    chosen = options("plugins/note:{}", kept, recorded, asked, tables, devices, domain)
    with (
        running(
            chosen,
            note=Recorder(),
            storage_manager=StorageManager,
            recorder=RecorderService,
            historian=HistorianService,
            sql=SqlService,
            xrce=XrceService,
            dds=DdsService,
        ) as daemon,
        client_of(daemon) as client,
        client_of(daemon, "router"),
        Device(port),
    ):
        declared: list[object] = [
            client.declare_subscriber("a"),
            client.declare_queryable("a"),
            client.declare_publisher("a"),
            client.declare_querier("a"),
            client.liveliness().declare_token("a"),
            daemon.session.declare_spool(),
        ]
        for pattern, encoding, _ in KEYS:
            spelled = pattern.replace("<action>", "put")
            key = re.sub(r"<\w+>", "*", spelled).replace("...", "**").replace("g/*", "g/**")
            assert eventually(partial(encodings, client, root_of(daemon) + key)), pattern
            found = encodings(client, root_of(daemon) + key)
            assert any(one.startswith(encoding) for one in found), pattern
        assert len(declared) == 6


def encodings(session: elea.Session, key: str) -> list[str]:
    return [str(one.ok.encoding) for one in session.get(key) if one.ok is not None]


def test_the_graph_of_nodes() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        key = f"{root_of(daemon)}/linkstate/north"
        [reply] = client.get(key)
        assert reply.ok is not None
        assert str(reply.ok.encoding) == "text/plain"
        assert reply.ok.payload.to_string() == (
            f'graph {{\n    0 [ label = "{daemon.session.zid()}" ]\n}}\n'
        )


def test_the_configuration_is_read_without_its_secrets() -> None:
    secret = 'transport/auth/usrpwd:{user: "u", password: "p"}'
    with running(options(secret)) as daemon, client_of(daemon) as client:
        config = f"{root_of(daemon)}/config"
        assert read(client, f"{config}/adminspace/enabled") is True
        assert read(client, f"{config}/adminspace/permissions") == {"read": True, "write": False}
        assert f"{config}/scouting/timeout" in ask(client, f"{config}/scouting/**")
        assert read(client, f"{config}/transport/auth/usrpwd/password") == "***"
        assert ask(client, f"{config}/no/such/key") == {}


def test_reading_can_be_forbidden() -> None:
    closed = options(adminspace_permissions="none")
    with running(closed) as daemon, client_of(daemon) as client:
        assert ask(client, "@/**") == {}


def test_there_may_be_none() -> None:
    with running(options("adminspace/enabled:false")) as daemon, client_of(daemon) as client:
        assert ask(client, "@/**") == {}


def test_writes_are_ignored_unless_they_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        client.put(f"{root_of(daemon)}/config/metadata", '{"name": "x"}')
        assert eventually(lambda: "writing is not allowed" in caplog.text)
        assert daemon.config.get_json("metadata") == "null"


def test_a_write_changes_the_configuration_and_a_delete_takes_it_back() -> None:
    with (
        running(options(adminspace_permissions="rw")) as daemon,
        client_of(daemon) as client,
    ):
        config = f"{root_of(daemon)}/config"
        client.put(f"{config}/metadata", '{name: "x"}')
        assert eventually(lambda: daemon.config.get_json("metadata") == '{"name":"x"}')
        assert daemon.effective.origin("metadata") == "admin space"
        assert read(client, root_of(daemon))["metadata"] == {"name": "x"}
        client.delete(f"{config}/metadata")
        assert eventually(lambda: daemon.config.get_json("metadata") == "null")


def test_a_write_opens_a_listener_and_keeps_sessions() -> None:
    with (
        running(options(adminspace_permissions="rw")) as daemon,
        client_of(daemon) as client,
    ):
        new = free_endpoint()
        client.put(f"{root_of(daemon)}/config/listen/endpoints", f'["{ANYWHERE}", "{new}"]')
        assert eventually(lambda: new in daemon.locators())
        assert len(daemon.locators()) == 2
        assert new in read(client, root_of(daemon))["locators"]


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("listen/endpoints", '["tcp/0.0.0.0:0"]', "--allow-plain"),
        ("metadta", "1", "metadata"),
        ("metadata", "{", "refused"),
        ("metadata", b"\xff", "ignored"),
        ("metadata/*", "1", "names no single key"),
        ("plugins/x/__required__", "true", "not installed"),
        ("transport/auth/pubkey/known_keys_file", '"/k"', "nobody would be kept out"),
        ("transport/unicast/max_links", "2", "would have no effect"),
        ("transport/unicast/lowlatency", "true", "excludes transport/unicast/qos/enabled"),
    ],
)
def test_a_write_that_cannot_be_is_refused_and_changes_nothing(
    path: str, value: str | bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        running(options(adminspace_permissions="rw")) as daemon,
        client_of(daemon) as client,
    ):
        before = daemon.effective
        client.put(f"{root_of(daemon)}/config/{path}", value)
        assert eventually(lambda: why in caplog.text)
        assert daemon.effective is before


def test_what_waits_for_the_next_start_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with (
        running(options(adminspace_permissions="rw")) as daemon,
        client_of(daemon) as client,
    ):
        client.put(f"{root_of(daemon)}/config/transport/link/tx/lease", "5000")
        assert eventually(lambda: "next start only: transport/link/tx/lease" in caplog.text)


def test_writes_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_module, "REQUESTS_COUNT_MAX", 2)
    daemon = daemon_module.Daemon(options())  # which nobody runs
    daemon.change_config("metadata", "1")
    daemon.change_config("metadata", "2")
    with pytest.raises(LimitError):
        daemon.change_config("metadata", "3")
