"""The server: bounds below HTTP, TLS, ports, missing packages."""

from __future__ import annotations

import contextlib
import importlib
import logging
import socket
import ssl
import struct
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import trustme
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.web.rig import ALONE, closed, served

import elea
from elea.config.kinds import Value
from elea.errors import ConfigError, LinkError, MissingDependencyError
from elea.limits import DEFAULT_LIMITS
from elea.session.rights import Identity
from elea.web.connections import Connections
from elea.web.server import _Connection
from elea.web.service import start
from elea.web.settings import RestSettings


@pytest.mark.parametrize(
    ("first", "second", "counts_as_one"),
    [
        ("2001:db8::1:2", "2001:db8::3:4", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8:1::1", False),
    ],
)
def test_many_addresses_of_one_network_count_as_one(
    first: str, second: str, counts_as_one: bool
) -> None:
    one, other = (SimpleNamespace(client=(address, 1)) for address in (first, second))
    address = vars(_Connection)["address"].fget
    assert (address(one) == address(other)) is counts_as_one


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /a HTT",
        b"GET /a HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    ],
)
def test_slow_headers_are_not_waited_for(sent: bytes) -> None:
    with served(web_header_ns=300_000_000) as web, web.connect() as connection:
        connection.sendall(sent)
        assert closed(connection)
        assert web.count("elea_rest_refusals_total", reason="http") == 1


def test_nor_those_of_the_next_request() -> None:
    with served(web_header_ns=300_000_000) as web, web.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in connection.recv(65_536)
        connection.sendall(b"GET /heal")
        assert closed(connection)
        assert web.count("elea_rest_refusals_total", reason="http") == 1


def test_long_headers_are_refused() -> None:
    with served() as web:
        with web.connect() as connection:
            head = b"GET /a HTTP/1.1\r\nHost: localhost\r\nX: "
            connection.sendall(head + b"x" * 20_000)
            assert connection.recv(100).startswith(b"HTTP/1.1 400")
        assert web.http.get(f"/{'a' * 1_000}").status_code == 200
        assert web.count("elea_rest_refusals_total", reason="http") == 1


def test_slow_bodies_are_not_waited_for() -> None:
    with served(web_request_ns=200_000_000) as web, web.connect() as connection:
        connection.sendall(b"PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nab")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")
        assert web.count("elea_rest_refusals_total", reason="body") == 1


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"Content-Length: -1\r\n\r\n",
        b"Transfer-Encoding: x\r\n\r\n",
        b"X : y\r\n\r\n",
        b"X: a\x00b\r\n\r\n",
    ],
)
def test_smuggling_is_refused(head: bytes) -> None:
    with served() as web, web.connect() as connection:
        connection.sendall(b"PUT /a HTTP/1.1\r\nHost: localhost\r\n" + head)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while part := connection.recv(65_536):
            got += part
        assert got.count(b"HTTP/1.1 400") == 1
        assert got.count(b"HTTP/1.1") == 1


def test_connections_are_bounded() -> None:
    with served(web_connections_count=4) as web:
        busy = [web.subscribe("a") for _ in range(4)]
        assert eventually(lambda: _is_refused(web.connect()))
        for one in busy:
            one.close()
        assert eventually(lambda: _is_served(web.rest.url))
        assert web.count("elea_rest_refusals_total", reason="connections") >= 1


def test_connections_of_one_address_are_bounded() -> None:
    with served(web_connections_per_address_count=2) as web:
        busy = [web.subscribe("a") for _ in range(2)]
        assert eventually(lambda: _is_refused(web.connect()))
        for one in busy:
            one.close()
        assert eventually(lambda: _is_served(web.rest.url))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /a HTTP/1.1\r\nX: ",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
    ],
    ids=["silent", "headers", "idle", "body"],
)
@pytest.mark.parametrize(
    "bound", ["web_connections_count", "web_connections_per_address_count", "web_waiting_count"]
)
def test_slow_connections_lock_nobody_out(sent: bytes, bound: str) -> None:
    with served(**{bound: 3}) as web:
        slow = [web.connect() for _ in range(12)]
        for one in slow:
            with contextlib.suppress(ConnectionError):  # it made room already
                one.sendall(sent)
        # Requests that were received and are being answered keep their places until they are.
        keep_places = sent.endswith(b"\r\n\r\n")
        for _ in range(5):
            if keep_places:
                assert eventually(lambda: _is_served(web.rest.url))
            else:
                assert _answer(web.rest.url) == 200
        for one in slow:
            one.close()


def test_who_makes_room_is_the_oldest_of_the_address_that_has_most() -> None:
    class One:
        def __init__(self, address: str, *, is_waiting: bool = True) -> None:
            self.address = address
            self.is_waiting = is_waiting
            self.given_up = False

        def give_up(self) -> None:
            self.given_up = True

    limits = replace(DEFAULT_LIMITS, web_connections_count=5, web_connections_per_address_count=4)
    peers = Connections(limits)
    modest = One("b")
    greedy = [One("a", is_waiting=number > 0) for number in range(4)]
    assert all(peers.add(one) for one in (modest, *greedy))
    assert peers.add(One("c"))
    assert [one.given_up for one in (modest, *greedy)] == [False, False, True, False, False]
    assert len(peers) == 5


def test_readers_that_leave_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with served() as web, caplog.at_level(logging.WARNING):
        for _ in range(8):
            readers = [web.subscribe("a") for _ in range(4)]
            for reader in readers:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                reader.close()  # a reset: the next write fails
            for _ in range(500):
                web.session.put("a", bytes(1_000))
        assert eventually(lambda: web.count("elea_rest_streams") == 0)
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []


def test_a_certificate_names_its_user(tmp_path: Path) -> None:
    authority = trustme.CA()
    files = {
        "server": authority.issue_cert("localhost"),
        "user": authority.issue_cert("x.example", common_name="robot-7"),
    }
    for name, cert in files.items():
        (tmp_path / f"{name}.pem").write_bytes(
            b"".join(one.bytes() for one in cert.cert_chain_pems)
        )
        cert.private_key_pem.write_to_path(tmp_path / f"{name}-key.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    chosen = {
        "tls_certificate": str(tmp_path / "server.pem"),
        "tls_private_key": str(tmp_path / "server-key.pem"),
        "tls_client_ca": str(tmp_path / "ca.pem"),
    }
    seen: list[object] = []
    with served(**chosen) as web:
        state = web.rest._state
        original = state.rights.refusal

        def refusal(identity: Identity, *args: Any, **kwargs: Any) -> str | None:
            seen.append(identity.common_names)
            return original(identity, *args, **kwargs)

        state.rights.refusal = refusal  # type: ignore[method-assign]
        for certificate in (None, (tmp_path / "user.pem", tmp_path / "user-key.pem")):
            context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            if certificate is not None:
                context.load_cert_chain(*certificate)
            url = web.rest.url.replace("127.0.0.1", "localhost")
            with httpx.Client(verify=context, trust_env=False) as http, web.says("a", "1"):
                assert http.get(f"{url}/a").json()[0]["key"] == "a"
    assert seen == [(), ("robot-7",)]


def _is_refused(connection: socket.socket) -> bool:
    with connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return not connection.recv(10)
        except ConnectionError:
            return True


def _is_served(url: str) -> bool:
    try:
        return _answer(url) == 200
    except httpx.NetworkError:
        return False
    except httpx.RemoteProtocolError:  # closed without an answer
        return False


def _answer(url: str) -> int:
    return httpx.get(f"{url}/health", trust_env=False, timeout=WAIT_S).status_code


def test_a_port_in_use_is_told() -> None:
    with served() as web, pytest.raises(LinkError, match=r"cannot serve .*in use; choose another"):
        start(web.session, {"http_port": web.address[1]})


def test_an_address_that_is_not_ours_is_told() -> None:
    with (
        elea.open(dict(ALONE)) as session,
        pytest.raises(LinkError, match=r"cannot serve http://192\.0\.2\.1:8000: .*assign"),
    ):
        start(session, {"http_port": "192.0.2.1:8000", "allow_open": True})


def test_https(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with served(tls_certificate=str(certificate), tls_private_key=str(key)) as web:
        assert web.rest.url.startswith("https://")
        answer = httpx.get(f"{web.rest.url}/health", verify=context, trust_env=False)
        assert answer.status_code == 200


def test_tls_handshakes_that_never_end_are_bounded(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    tls = {"tls_certificate": str(certificate), "tls_private_key": str(key)}
    with served(web_waiting_count=4, **tls) as web, contextlib.ExitStack() as closing:
        silent = [closing.enter_context(web.connect()) for _ in range(20)]
        for sock in silent[:15]:  # older than those which may wait
            sock.settimeout(WAIT_S)
            assert sock.recv(1) == b""
        answer = httpx.get(f"{web.rest.url}/health", verify=context, trust_env=False)
        assert answer.status_code == 200


def test_a_certificate_that_is_none_is_told(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    before = threading.active_count()
    section: dict[str, Value] = {
        "http_port": 0,
        "tls_certificate": missing,
        "tls_private_key": missing,
    }
    with (
        elea.open(dict(ALONE)) as session,
        pytest.raises(ConfigError, match="tls_certificate: it cannot be used"),
    ):
        start(session, section)
    assert eventually(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "prometheus_client"])
def test_without_its_packages_it_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [one for one in sys.modules if one.partition(".")[0] == package]
    ours = [one for one in sys.modules if one.startswith("elea.web.")]
    for name in (*names, *ours):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    service = importlib.import_module("elea.web.service")
    with elea.open(dict(ALONE)) as session, pytest.raises(MissingDependencyError) as caught:
        service.start(session, {"http_port": 0})
    assert "pip install 'elea[web]'" in str(caught.value)


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    with served() as web:
        web.http.put("/a", content=b"")
    assert eventually(lambda: threading.active_count() <= before)


def test_settings_have_the_defaults_of_the_reference() -> None:
    assert RestSettings().limits.web_body_len == 1024 * 1024
    assert RestSettings().limits.web_streams_count == 64
