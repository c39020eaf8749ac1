"""Every way to reach `elea router` that Eclipse Zenoh has, and who is not let in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import zenoh
from tests.interop.daemon import Router, answered, elea_router, linked
from tests.interop.ends import ECLIPSE, exchange, free_port, session
from tests.link.certificates import certificates

LARGE_LEN = 1_000_000
DATAGRAMS_LEN = 100_000  # fragments too, but few enough for the buffer of any socket
line = pytest.mark.line
BLOCK = zenoh.CongestionControl.BLOCK
TLS = "transport/link/tls"
LOW_LATENCY: dict[str, object] = {
    "transport/unicast/lowlatency": True,
    "transport/unicast/qos/enabled": False,
}
COMPRESSION: dict[str, object] = {"transport/unicast/compression/enabled": True}


def client(endpoint: str, more: Mapping[str, object] | None = None) -> Any:
    return session(ECLIPSE, "client", connect=endpoint, more=more)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Paths of certificates and keys, by the name of their setting."""
    made = certificates()
    texts = {
        "root_ca_certificate": made.root_text,
        "listen_certificate": made.server.certificate_text,
        "listen_private_key": made.server.key_text,
        "connect_certificate": made.client.certificate_text,
        "connect_private_key": made.client.key_text,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def of_router(files: Mapping[str, str], *, mutual: bool) -> dict[str, object]:
    names = ["listen_certificate", "listen_private_key", *(["root_ca_certificate"] * mutual)]
    told: dict[str, object] = {f"{TLS}/{name}": files[name] for name in names}
    return {**told, f"{TLS}/enable_mtls": mutual}


def of_client(files: Mapping[str, str], *, mutual: bool) -> dict[str, object]:
    own = ["connect_certificate", "connect_private_key"] if mutual else []
    told: dict[str, object] = {
        f"{TLS}/{name}": files[name] for name in ["root_ca_certificate", *own]
    }
    return {**told, f"{TLS}/enable_mtls": mutual}


def talk(one: Any, other: Any, large_len: int = LARGE_LEN) -> None:
    """Everything that a link must carry: both ways, large, questions and answers."""
    exchange(one, other, "k")
    got = linked(one, other, "large")
    large = bytes(range(250)) * (large_len // 250)
    one.put("large", large, congestion_control=BLOCK)
    assert got.reach(1)
    assert got.payloads == [large]
    other.declare_queryable("q", lambda query: query.reply("q", "answer"))
    assert answered(one, "q", ["answer"])


# Links.


@pytest.fixture(params=["tcp", "tcp6", "ws", "udp", "unixsock-stream"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Router]:
    """A router that listens on TCP, and on one kind of link more."""
    place = {
        "tcp6": "tcp/[::1]:0",
        "udp": "udp/127.0.0.1:0",
        "unixsock-stream": f"unixsock-stream/{tmp_path}/s",
    }.get(request.param, f"{request.param}/127.0.0.1:0")
    with elea_router(listen=["tcp/127.0.0.1:0", place]) as router:
        yield router


def test_links(plain: Router) -> None:
    """One client on the link, one on TCP: what is said passes between them."""
    with client(plain.endpoints[1]) as there, client(plain.endpoint) as here:
        large_len = DATAGRAMS_LEN if plain.endpoints[1].startswith("udp") else LARGE_LEN
        talk(here, there, large_len)
        talk(there, here, large_len)


@line("E33", "E34")
@pytest.mark.parametrize("mutual", [False, True])
def test_tls(mutual: bool, files: dict[str, str]) -> None:
    listen = ["tcp/127.0.0.1:0", "tls/127.0.0.1:0"]
    with (
        elea_router(listen=listen, more=of_router(files, mutual=mutual)) as router,
        client(router.endpoint) as here,
        client(router.endpoints[1], of_client(files, mutual=mutual)) as there,
    ):
        talk(here, there)
        talk(there, here)


@line("E34")
def test_without_a_certificate_nobody_comes_in(files: dict[str, str]) -> None:
    with elea_router(listen="tls/127.0.0.1:0", more=of_router(files, mutual=True)) as router:
        with (
            pytest.raises(zenoh.ZError),
            client(router.endpoint, of_client(files, mutual=False)),
        ):
            pass
        told = of_client(files, mutual=True)
        with client(router.endpoint, told) as one, client(router.endpoint, told) as other:
            exchange(one, other, "k")


def test_routers_meet_over_tls(files: dict[str, str]) -> None:
    ours, theirs = of_router(files, mutual=True), of_client(files, mutual=True)
    listen = ["tls/127.0.0.1:0", "tcp/127.0.0.1:0"]
    with (
        elea_router(listen=listen, more=ours) as router,
        session(ECLIPSE, "router", connect=router.endpoint, more=theirs) as beside,
        client(router.endpoints[1]) as below,
    ):
        talk(beside, below)


# What is agreed on a link.


VARIANTS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "shared memory offered": ({}, {"transport/shared_memory/enabled": True}),
    "compression on both sides": (COMPRESSION, COMPRESSION),
    "compression offered by the client": ({}, COMPRESSION),
    "low latency on both sides": (LOW_LATENCY, LOW_LATENCY),
    "no priorities": ({}, {"transport/unicast/qos/enabled": False}),
    "small batches": ({}, {"transport/link/tx/batch_size": 2_048}),
    "8-bit sequence numbers": ({}, {"transport/link/tx/sequence_number_resolution": "8bit"}),
    "another lease": ({}, {"transport/link/tx/lease": 60_000}),
    "a region name": ({}, {"region_name": "south"}),
}


@line("E12")
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(variant: str) -> None:
    ours, theirs = VARIANTS[variant]
    with (
        elea_router(more=ours) as router,
        client(router.endpoint, theirs) as one,
        client(router.endpoint, theirs if ours is not COMPRESSION else {}) as other,
    ):
        if "low latency" in variant:  # which has no fragments
            exchange(one, other, "k")
        else:
            talk(one, other)
            talk(other, one)


# Accounts.


def account(user: str, password: str) -> dict[str, object]:
    return {"transport/auth/usrpwd/user": user, "transport/auth/usrpwd/password": password}


@line("E32")
def test_accounts(tmp_path: Path) -> None:
    (tmp_path / "accounts").write_text("one:secret\ntwo:other secret\n")
    (tmp_path / "accounts").chmod(0o600)
    asks = {
        "transport/auth/usrpwd/dictionary_file": str(tmp_path / "accounts"),
        **account("router", "its own"),
    }
    with elea_router(more=asks) as router:
        with (
            client(router.endpoint, account("one", "secret")) as one,
            client(router.endpoint, account("two", "other secret")) as two,
        ):
            exchange(one, two, "k")
            for wrong in ({}, account("one", "wrong"), account("nobody", "secret")):
                with pytest.raises(zenoh.ZError), client(router.endpoint, wrong):
                    pass
            exchange(one, two, "k")
        assert "secret" not in router.said()


@line("E17")
def test_the_limit_of_sessions_refuses_newcomers() -> None:
    with (
        elea_router(more={"transport/unicast/max_sessions": 2}) as router,
        client(router.endpoint) as one,
        client(router.endpoint) as two,
    ):
        with pytest.raises(zenoh.ZError), client(router.endpoint):
            pass
        exchange(one, two, "k")


def test_two_kinds_of_link_to_one_client_are_one_session() -> None:
    listen = ["tcp/127.0.0.1:0", f"udp/127.0.0.1:{free_port()}"]
    with (
        elea_router(listen=listen) as router,
        session(ECLIPSE, "client", connect=router.endpoints) as one,
        client(router.endpoint) as other,
    ):
        exchange(one, other, "k")
        assert len(list(one.info.routers_zid())) == 1
