"""Who may connect to a daemon, and how that changes while others stay connected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.link.certificates import CLIENT_NAME, certificates
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import options, running

import elea
from elea.daemon.daemon import Daemon
from elea.daemon.metrics import collect, text
from elea.errors import EleaError

MADE = certificates()
LISTEN = "tls/127.0.0.1:0"


class Files:
    """The files of a daemon with mutual TLS, and what a client needs."""

    def __init__(self, path: Path) -> None:
        self.config = path / "router.json5"
        texts = {
            "root.pem": MADE.root_text,
            "listen.pem": MADE.server.certificate_text,
            "listen-key.pem": MADE.server.key_text,
            "connect.pem": MADE.client.certificate_text,
            "connect-key.pem": MADE.client.key_text,
        }
        for name, content in texts.items():
            (path / name).touch(0o600)
            (path / name).write_text(content)
        self.tls = {
            "root_ca_certificate": str(path / "root.pem"),
            "enable_mtls": True,
            "listen_certificate": str(path / "listen.pem"),
            "listen_private_key": str(path / "listen-key.pem"),
            "connect_certificate": str(path / "connect.pem"),
            "connect_private_key": str(path / "connect-key.pem"),
        }

    def write(self, *allowed: str) -> None:
        names = {"tls": {"allowed_names": allowed}}
        config = {"transport": {"link": {"tls": self.tls}}, "elea": names}
        self.config.write_text(json.dumps(config))


def connect(daemon: Daemon, **more: object) -> elea.Session:
    config = {
        "mode": "client",
        "connect": {"endpoints": list(daemon.locators()), "timeout_ms": 2_000},
        "scouting": {"multicast": {"enabled": False}},
        **more,
    }
    return elea.open(config)


def metrics(daemon: Daemon) -> str:
    driver = daemon._driver
    assert driver is not None
    with driver.lock:
        return text(collect(driver.node, uptime_s=0))


def test_certificates_and_names_change_and_sessions_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "elea.daemon")
    files = Files(tmp_path)
    files.write(CLIENT_NAME)
    tls = {"transport": {"link": {"tls": files.tls}}}
    with running(options(config=str(files.config), listen=(LISTEN,))) as daemon:
        with connect(daemon, **tls) as stays:
            [view] = json.loads(admin(stays))["sessions"]
            assert view["cert_common_name"] == CLIENT_NAME
            files.write("somebody else")
            reloads(daemon, caplog, "reloaded; listens at")
            with pytest.raises(EleaError):
                connect(daemon, **tls)
            files.write(CLIENT_NAME)
            (tmp_path / "listen.pem").write_text("none")
            reloads(daemon, caplog, "reload failed")
            (tmp_path / "listen.pem").write_text(MADE.server_ends_soon.certificate_text)
            (tmp_path / "listen-key.pem").write_text(MADE.server_ends_soon.key_text)
            reloads(daemon, caplog, "reloaded; listens at")
            with connect(daemon, **tls):
                pass
            assert admin(stays)
        assert 'elea_links_refused_total{reason="handshake"}' in metrics(daemon)


def test_users_change_and_sessions_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "elea.daemon")
    users = tmp_path / "users"
    users.touch(0o600)
    users.write_text("ann:old\n")

    def auth(password: str) -> dict[str, object]:
        return {"transport": {"auth": {"usrpwd": {"user": "ann", "password": password}}}}

    given = f'transport/auth/usrpwd/dictionary_file:"{users}"'
    with running(options(given)) as daemon, connect(daemon, **auth("old")) as stays:
        [view] = json.loads(admin(stays))["sessions"]
        assert view["user"] == "ann"
        users.write_text("ann:new\n")
        reloads(daemon, caplog, "reloaded; listens at")
        with pytest.raises(EleaError):
            connect(daemon, **auth("old"))
        with connect(daemon, **auth("new")):
            pass
        assert admin(stays)
        assert 'elea_links_refused_total{reason="login"}' in metrics(daemon)


def reloads(daemon: Daemon, caplog: pytest.LogCaptureFixture, said: str) -> None:
    caplog.clear()
    daemon.reload()
    assert eventually(lambda: said in caplog.text)


def admin(session: elea.Session) -> str:
    [reply] = session.get("@/*/router", timeout=WAIT_S)
    assert reply.ok is not None
    return reply.ok.payload.to_string()
