"""The section `plugins/xrce`."""

from __future__ import annotations

from pathlib import Path

import pytest

from elea.config.kinds import Value
from elea.devices.settings import SECTION, XrceSettings
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
    assert len(SECTION.keys) == 17


def test_sessions_with_keys_stay_where_they_are() -> None:
    assert XrceSettings.read({}).moves
    assert not XrceSettings.read({"keys_file": "keys"}).moves


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"listne": "udp/127.0.0.1:0"}, "nearest known one is plugins/xrce/listen"),
        ({"listen": "tls/127.0.0.1:0"}, "udp/HOST:PORT and tcp/HOST:PORT are legal"),
        ({"listen": 7447}, "expected udp/HOST:PORT or tcp/HOST:PORT, or several"),
        ({"listen": ["udp/127.0.0.1:0", 1]}, "expected udp/HOST:PORT or tcp/HOST:PORT, or several"),
        ({"shared_port": "yes"}, "expected true or false"),
        ({"resources": "lab/t"}, "expected {PID: {ID: name}}, got the text 'lab/t'"),
        ({"resources": {"tea": {"2": "a"}}}, "expected a pid of 1 to 16 bytes"),
        ({"resources": {"*": "a"}}, "expected {ID: name}, got the text 'a'"),
        ({"resources": {"*": {"3": "a"}}}, "expected an even id above 0, got '3'"),
        ({"resources": {"*": {"\u0662": "a"}}}, "expected an even id above 0"),
        ({"resources": {"*": {"2": 7}}}, "expected a name such as lab/t, got the number 7"),
        ({"resources": {"*": {"2": "a//b"}}}, "a//b"),
        ({"resources": {"*": {"2": "a/property"}}}, "read-only"),
        ({"group": "127.0.0.1:7447"}, "it is no group, such as 239.255.0.1:7447"),
        ({"group": "239.255.0.1"}, "plugins/xrce/group"),
        ({"interface": 1}, "expected names or addresses"),
        ({"lease_ms": 99}, "from 100 to 86400000"),
        ({"lease_ms": True}, "from 100 to 86400000"),
        ({"sessions_count": 0}, "from 1 to 1000000"),
        ({"key_exprs": "a//b"}, "plugins/xrce/key_exprs"),
        ({"keys_file": 1}, "expected a file of"),
        ({"access": "all"}, "expected pids with what they may read and write"),
        ({"access": {"tea": {}}}, "access/tea: expected a pid of 1 to 16 bytes"),
        ({"access": {"*": {"declare": "a"}}}, "expected an object with `read` and `write`"),
        ({"access": {"*": {"read": 1}}}, "expected a key expression, or several"),
        ({"access": {"*": {"read": ["a", 1]}}}, "expected a key expression, or several"),
        ({"access": {"c0": {"write": "a//b"}}}, "access/c0/write"),
    ],
)
def test_what_is_not_legal(section: dict[str, Value], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        XrceSettings.read(section)
