"""The life of a daemon: it starts, is told to reload, and ends."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest
from tests.unit.cli.ends import eventually, free_endpoint
from tests.unit.daemon.rig import ANYWHERE, MODE, client_of, options, running

from elea import pure, version
from elea.daemon.daemon import Daemon
from elea.daemon.effective import Options
from elea.daemon.notify import notify
from elea.errors import ConfigError, LinkError


def written(file: Path, *listen: str, more: str = "") -> Options:
    endpoints = ", ".join(f'"{one}"' for one in listen)
    file.write_text(f'{{mode: "{MODE}", listen: {{endpoints: [{endpoints}]}}, {more}}}')
    return Options(config=str(file))


def test_it_listens_on_loopback_and_nowhere_else_by_itself() -> None:
    daemon = Daemon(Options(cfg=('mode:"peer"',)))
    daemon.start()
    try:
        assert [one.rpartition(":")[0] for one in daemon.locators()] == ["tcp/127.0.0.1"]
    finally:
        daemon.close()


@pytest.mark.parametrize("is_compiled", [True, False])
def test_an_interpreted_router_says_why_in_its_log(
    is_compiled: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "COMPILED", is_compiled)
    monkeypatch.setattr(pure, "FORCED", True)
    caplog.set_level(logging.INFO)
    with running(options()):
        told = [one.getMessage() for one in caplog.records if "interpreted" in one.getMessage()]
    reason = "interpreted, several times slower: ELEA_PURE is set; unset it for speed"
    assert told == ([] if is_compiled else [reason])


def test_a_plain_port_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ConfigError, match="--allow-plain"):
        Daemon(options(listen=("tcp/0.0.0.0:0",)))


def test_a_plain_port_that_is_allowed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with running(options(listen=("tcp/0.0.0.0:0",), allow_plain=True)) as daemon:
        assert daemon.locators()[0].startswith("tcp/0.0.0.0:")
    [warning] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "not encrypted and open to other hosts, as allowed" in warning.message


def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LinkError):
            Daemon(options(listen=(endpoint,))).start()


def test_a_reload_moves_listeners_and_keeps_sessions(tmp_path: Path) -> None:
    file = tmp_path / "router.json5"
    first, second = free_endpoint(), free_endpoint()
    with running(written(file, first)) as daemon, client_of(daemon) as client:
        samples = client.declare_subscriber("a")
        written(file, second, more='metadata: {name: "later"}')
        daemon.reload()
        assert eventually(lambda: daemon.locators() == (second,))
        assert eventually(lambda: daemon.config.get_json("metadata") == '{"name":"later"}')
        with client_of(daemon) as late:
            publisher = late.declare_publisher("a")
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put(b"1")
            assert samples.recv(20).payload.to_bytes() == b"1"


@pytest.mark.parametrize(
    "text", ["{", "{listen: {endpoints: ['tcp/0.0.0.0:0']}}", "{mode: 'peer', lisen: 1}"]
)
def test_a_reload_of_what_cannot_be_used_changes_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "router.json5"
    with running(written(file, ANYWHERE)) as daemon:
        before = daemon.locators(), daemon.effective
        file.write_text(text)
        daemon.reload()
        assert eventually(lambda: "reload failed, all stays as it was" in caplog.text)
        assert (daemon.locators(), daemon.effective) == before


def test_a_reload_of_a_file_that_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "router.json5"
    with running(written(file, ANYWHERE)) as daemon:
        file.unlink()
        daemon.reload()
        assert eventually(lambda: "reload failed" in caplog.text)


def test_groups_wait_for_the_next_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "router.json5"
    with running(written(file, ANYWHERE)) as daemon:
        written(file, ANYWHERE, "udp/224.0.0.225:17447#iface=lo")
        daemon.reload()
        assert eventually(lambda: "next start only: multicast groups" in caplog.text)


def test_links_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "elea.daemon")
    with running(options()) as daemon:
        with client_of(daemon) as client:
            zid = str(client.zid())
            assert eventually(lambda: f"link opened: {zid}" in caplog.text)
        assert eventually(lambda: f"link closed: {zid}" in caplog.text)


def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not notify("READY=1")
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        with running(options()) as daemon:
            assert manager.recv(100) == b"READY=1"
            daemon.reload()
            assert [manager.recv(100), manager.recv(100)] == [b"RELOADING=1", b"READY=1"]
        assert manager.recv(100) == b"STOPPING=1"
    assert not notify("READY=1")  # nobody is there any more
