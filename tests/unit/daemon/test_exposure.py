"""What a configuration opens to others."""

from __future__ import annotations

import pytest

from elea.config.config import Config
from elea.daemon import exposure
from elea.errors import ConfigError
from elea.locator import Endpoint


def config_of(*listen: str, **more: object) -> Config:
    return Config.from_mapping({"mode": "router", "listen/endpoints": list(listen), **more})


@pytest.mark.parametrize(
    ("endpoint", "beyond"),
    [
        ("tcp/127.0.0.1:7447", False),
        ("tcp/127.9.9.9:7447", False),
        ("tcp/[::1]:7447", False),
        ("tcp/[::ffff:127.0.0.1]:7447", False),
        ("tcp/localhost:7447", False),
        ("udp/224.0.0.224:7446#iface=lo", False),
        ("unixsock-stream/run/elea.sock", False),
        ("tcp/0.0.0.0:7447", True),
        ("tcp/[::]:7447", True),
        ("tcp/10.0.0.1:7447", True),
        ("tls/10.0.0.1:7447", True),
        ("ws/host.example:80", True),
        ("udp/224.0.0.224:7446", True),
        ("serial//dev/ttyUSB0", True),
        ("vsock/VMADDR_CID_ANY:7447", True),
    ],
)
def test_who_can_reach_an_endpoint(endpoint: str, beyond: bool) -> None:
    assert exposure.is_beyond_host(Endpoint.parse(endpoint)) is beyond


def test_a_plain_port_beyond_this_host_needs_consent() -> None:
    config = config_of("tls/0.0.0.0:1", "tcp/127.0.0.1:2", "tcp/0.0.0.0:3")
    with pytest.raises(ConfigError, match=r"tcp/0\.0\.0\.0:3 is not encrypted.*--allow-plain"):
        exposure.check(config, allow_plain=False)
    assert [str(one) for one in exposure.check(config, allow_plain=True)] == ["tcp/0.0.0.0:3"]
    assert exposure.check(config_of("tls/0.0.0.0:1"), allow_plain=False) == []


def test_rules_that_do_not_fit_together_are_refused() -> None:
    config = config_of("tcp/127.0.0.1:1", access_control={"enabled": True})
    with pytest.raises(ConfigError, match="needs rules, subjects and policies"):
        exposure.check(config, allow_plain=True)


def test_access_control_is_told() -> None:
    config = config_of(
        "tcp/127.0.0.1:1",
        access_control={
            "enabled": True,
            "rules": [],
            "subjects": [{"id": "x", "zids": ["a1"]}],
            "policies": [],
        },
        low_pass_filter=[{"messages": ["put"], "key_exprs": ["**"], "size_limit": 1}],
        elea={"authorizer": "mine", "quotas": [{"declarations": 5}]},
    )
    told = [line for line in exposure.lines(config) if "tcp" not in line]
    assert told[1:6] == [
        "access control: on, 0 rules for 1 subject; what no rule decides is denied",
        "warning: subject x goes by zids, which nobody has to prove",
        "access control: mine is asked as well",
        "low_pass_filter: 1",
        "elea/quotas: 1",
    ]


def test_the_gravest_comes_first() -> None:
    config = config_of("tls/0.0.0.0:1", "tcp/127.0.0.1:2", "tcp/0.0.0.0:3")
    assert list(exposure.lines(config))[:4] == [
        "tcp/0.0.0.0:3: open to other hosts, not encrypted",
        "tcp/127.0.0.1:2: open to this host only, not encrypted",
        "tls/0.0.0.0:1: open to other hosts, encrypted",
        "who may connect: anybody who reaches a listener",
    ]


def test_who_may_connect_and_what_they_see() -> None:
    config = config_of(
        "tcp/0.0.0.0:3",
        **{
            "transport/auth/usrpwd/dictionary_file": "users",
            "transport/link/tls/enable_mtls": True,
            "adminspace": {"enabled": True, "permissions": {"read": True, "write": True}},
            "scouting/multicast/enabled": False,
        },
    )
    assert list(exposure.lines(config))[1:] == [
        "who may connect: users of the dictionary file, with their passwords",
        "warning: passwords are proven over a link that is not encrypted",
        "who may connect by TLS: holders of a certificate of the trusted authority",
        "access control: none, whoever is connected may read and write every key",
        "admin space: whoever is connected may read and write it",
        "multicast scouting: off",
    ]
    closed = config_of(adminspace={"enabled": True, "permissions": {"read": False}})
    assert "no listener: nobody can connect" in list(exposure.lines(closed))
    assert "admin space: whoever is connected may neither read nor write it" in list(
        exposure.lines(closed)
    )
    assert "admin space: off" in list(exposure.lines(config_of()))


def test_what_flight_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(**flight: str) -> list[str]:
        recorder = {"directory": "/logs", "flight": flight}
        config = config_of("tcp/127.0.0.1:7447", plugins={"recorder": recorder})
        config.insert_json5("plugins_loading/enabled", "true")
        return [line for line in exposure.lines(config) if line.startswith("Flight")]

    monkeypatch.delenv("ELEA_FLIGHT_TOKEN", raising=False)
    assert told(location="grpc://127.0.0.1:1") == [
        "Flight at grpc://127.0.0.1:1: open to this host only, not encrypted; anybody may read"
        " every log"
    ]
    tls = {"tls_certificate": "/c", "tls_private_key": "/k"}
    assert told(location="grpc+tls://0.0.0.0:1", **tls) == []  # it would not start
    monkeypatch.setenv("ELEA_FLIGHT_TOKEN", "a-token-that-is-long-enough")
    assert told(location="grpc+tls://0.0.0.0:1", **tls) == [
        "Flight at grpc+tls://0.0.0.0:1: open to other hosts, encrypted; holders of the token may"
        " read every log"
    ]


def test_what_xrce_opens() -> None:
    xrce: dict[str, object] = {"listen": ["udp/127.0.0.1:1", "tcp/0.0.0.0:2"]}
    config = config_of("tcp/127.0.0.1:7447", plugins={"xrce": xrce})
    config.insert_json5("plugins_loading/enabled", "true")
    may = "not encrypted; devices may read and write every key"
    assert [line for line in exposure.lines(config) if line.startswith("XRCE")] == [
        f"XRCE at udp/127.0.0.1:1: open to this host only, {may}",
        f"XRCE at tcp/0.0.0.0:2: open to other hosts, {may}",
    ]
    xrce |= {"listen": "udp/127.0.0.1:1", "keys_file": "keys", "access": {"*": {"read": "a"}}}
    kept = config_of("tcp/127.0.0.1:7447", plugins={"xrce": xrce})
    kept.insert_json5("plugins_loading/enabled", "true")
    assert (
        "XRCE at udp/127.0.0.1:1: open to this host only, not encrypted; devices that have their"
        " keys may read and write what plugins/xrce/access says" in exposure.lines(kept)
    )
    xrce["listen"] = 7
    broken = config_of("tcp/127.0.0.1:7447", plugins={"xrce": xrce})
    broken.insert_json5("plugins_loading/enabled", "true")
    assert not [line for line in exposure.lines(broken) if line.startswith("XRCE")]
