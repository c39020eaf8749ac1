"""The section `plugins/xrce`."""

from __future__ import annotations

from pathlib import Path

import pytest

from elea.config.kinds import Value
from elea.devices.settings import KEYS, XrceSettings
from elea.errors import ConfigError


def test_what_nobody_said() -> None:
    assert XrceSettings.read({}) == XrceSettings()


def test_all_of_it() -> None:
    read = XrceSettings.read(
        {
            "listen": "udp/127.0.0.1:0",
            "shared_port": False,
            "scouting": True,
            "group": "239.255.0.2:7448",
            "interface": "lo",
            "lease_ms": 5_000,
            "transient": False,
            "persistent": "place",
            "key_exprs": ["a/**", "b"],
            "interest_always": True,
            "sessions_count": 7,
            "sessions_host_count": 5,
            "keys_file": "keys",
            "moves": True,
            "access": {"*": {"read": "a/**"}},
            "resources": {"c0ffee": {"2": "lab/t", "4": "/lab/**"}, "*": {"2": "x#transient"}},
            "__required__": True,
        }
    )
    assert [str(one) for one in read.listen] == ["udp/127.0.0.1:0"]
    assert read.persistent == Path("place")
    assert read.key_exprs == ("a/**", "b")
    assert read.lease_ns == 5_000_000_000
    assert (read.keys_file, read.moves, read.sessions_host_count) == (Path("keys"), True, 5)
    assert read.access is not None
    assert {id_: one.resource.path for id_, one in read.resources.of(b"\xc0\xff\xee").items()} == {
        2: "lab/t",
        4: "lab/**",
    }
    assert [one.resource.spelled() for one in read.resources.of(b"x").values()] == [
        "xrce://x#transient"
    ]
    assert len(KEYS) == 17


def test_sessions_with_keys_stay_where_they_are() -> None:
    assert XrceSettings.read({}).moves
    assert not XrceSettings.read({"keys_file": "keys"}).moves


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"listne": "udp/127.0.0.1:0"}, "nearest known one is plugins/xrce/listen"),
        ({"listen": "tls/127.0.0.1:0"}, "udp/HOST:PORT and tcp/HOST:PORT are legal"),
        ({"listen": 7447}, "a text, or several, is legal"),
        ({"listen": ["udp/127.0.0.1:0", 1]}, "a text, or several, is legal"),
        ({"shared_port": "yes"}, "true and false are legal"),
        ({"resources": "lab/t"}, "expected {PID: {ID: name}}, got 'lab/t'"),
        ({"resources": {"tea": {"2": "a"}}}, "expected a pid of 1 to 16 bytes"),
        ({"resources": {"*": "a"}}, "expected {ID: name}, got 'a'"),
        ({"resources": {"*": {"3": "a"}}}, "expected an even id above 0, got '3'"),
        ({"resources": {"*": {"\u0662": "a"}}}, "expected an even id above 0"),
        ({"resources": {"*": {"2": 7}}}, "expected a name such as lab/t, got 7"),
        ({"resources": {"*": {"2": "a//b"}}}, "a//b"),
        ({"resources": {"*": {"2": "a/property"}}}, "read-only"),
        ({"group": "127.0.0.1:7447"}, "such as 239.255.0.1:7447 is legal"),
        ({"group": "239.255.0.1"}, "plugins/xrce/group"),
        ({"interface": 1}, "a text is legal"),
        ({"lease_ms": 99}, "legal are 100 to 86400000"),
        ({"lease_ms": True}, "legal are 100 to 86400000"),
        ({"sessions_count": 0}, "legal are 1 to 1000000"),
        ({"key_exprs": "a//b"}, "plugins/xrce/key_exprs"),
        ({"keys_file": 1}, "a text is legal"),
        ({"access": "all"}, "pids with what they may read and write are legal"),
        ({"access": {"tea": {}}}, "access/tea: a pid of 1 to 16 octets"),
        ({"access": {"*": {"declare": "a"}}}, "`read` and `write` are legal"),
        ({"access": {"*": {"read": 1}}}, "a key expression, or several, is legal"),
        ({"access": {"*": {"read": ["a", 1]}}}, "a key expression, or several, is legal"),
        ({"access": {"c0": {"write": "a//b"}}}, "access/c0/write"),
    ],
)
def test_what_is_not_legal(section: dict[str, Value], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        XrceSettings.read(section)
