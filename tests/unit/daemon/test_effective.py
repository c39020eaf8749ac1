"""Where the configuration of a daemon comes from, and what it is when nobody says anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elea.config_file import NO_SCOUTING_ENV
from elea.daemon.effective import DEFAULT, Effective, Options
from elea.errors import ConfigError
from elea.ids import WhatAmI

SCOUTING = "scouting/multicast/enabled"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here opens a socket."""
    monkeypatch.delenv(NO_SCOUTING_ENV)


def listening(effective: Effective) -> list[str]:
    return [str(one) for group in effective.config.endpoints("listen") for one in group]


def test_a_router_on_loopback_that_describes_itself() -> None:
    effective = Effective.of(Options())
    assert effective.config.mode is WhatAmI.ROUTER
    assert listening(effective) == ["tcp/127.0.0.1:7447"]
    assert effective.config.value("adminspace/enabled", bool)
    assert not effective.config.value("adminspace/permissions/write", bool)
    assert effective.config.value(SCOUTING, bool)
    assert effective.origin("listen/endpoints") == "elea router: loopback"
    assert effective.origin("scouting/timeout") == DEFAULT


@pytest.mark.parametrize(
    ("given", "path", "json", "origin"),
    [
        ({"id": "a1"}, "id", '"a1"', "--id"),
        ({"listen": ("tcp/[::1]:1",)}, "listen/endpoints", '["tcp/[::1]:1"]', "--listen"),
        ({"connect": ("tcp/h:1",)}, "connect/endpoints", '["tcp/h:1"]', "--connect"),
        ({"no_timestamp": True}, "timestamping/enabled", "false", "--no-timestamp"),
        ({"no_multicast_scouting": True}, SCOUTING, "false", "--no-multicast-scouting"),
        (
            {"rest_http_port": "8000"},
            "plugins",
            '{"rest":{"http_port":"8000","__required__":true}}',
            "--rest-http-port",
        ),
        (
            {"ui": True},
            "plugins",
            '{"rest":{"http_port":"0","dashboard":true,"operate_link":true,"__required__":true}}',
            "--ui",
        ),
        (
            {"ui": True, "rest_http_port": "8000"},
            "plugins",
            '{"rest":{"http_port":"8000","__required__":true,"dashboard":true,"operate_link":true}}',
            "--ui",
        ),
        (
            {"xrce": ("udp/127.0.0.1:1",)},
            "plugins",
            '{"xrce":{"listen":["udp/127.0.0.1:1"],"__required__":true}}',
            "--xrce",
        ),
        (
            {"plugin": ("a", "b:/c")},
            "plugins",
            '{"a":{"__required__":true},"b":{"__required__":true,"__path__":"/c"}}',
            "--plugin",
        ),
        ({"cfg": ("scouting/timeout:7",)}, "scouting/timeout", "7", "--cfg scouting/timeout"),
    ],
)
def test_every_option_sets_its_key(
    given: dict[str, Any], path: str, json: str, origin: str
) -> None:
    effective = Effective.of(Options(**given))
    assert effective.config.get_json(path) == json
    assert effective.origin(path) == origin


@pytest.mark.parametrize(
    ("word", "read", "write"),
    [("r", True, False), ("w", False, True), ("rw", True, True), ("none", False, False)],
)
def test_permissions_of_the_admin_space(word: str, read: bool, write: bool) -> None:
    config = Effective.of(Options(adminspace_permissions=word)).config
    assert config.value("adminspace/permissions/read", bool) is read
    assert config.value("adminspace/permissions/write", bool) is write


def test_permissions_that_are_none() -> None:
    with pytest.raises(ConfigError, match="saw 'x'; legal are r, w, rw, none"):
        Effective.of(Options(adminspace_permissions="x"))


def test_rest_is_off_when_it_is_said_to_be() -> None:
    assert Effective.of(Options(rest_http_port="None")).config.get_json("plugins") == "{}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.json5", '{listen: {endpoints: ["tcp/[::1]:1"]}, mode: "peer"}'),
        ("r.yaml", "listen: {endpoints: ['tcp/[::1]:1']}\nmode: peer\n"),
        ("r.toml", 'mode = "peer"\n[listen]\nendpoints = ["tcp/[::1]:1"]\n'),
    ],
)
def test_options_win_over_the_file_and_cfg_over_both(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    effective = Effective.of(Options(config=str(file)))
    assert (listening(effective), effective.config.mode) == (["tcp/[::1]:1"], WhatAmI.PEER)
    assert effective.origin("mode") == f"file {file}"
    options = Options(config=str(file), listen=("tcp/[::1]:2",))
    assert listening(Effective.of(options)) == ["tcp/[::1]:2"]
    options = Options(
        config=str(file), listen=("tcp/[::1]:2",), cfg=('listen/endpoints:["tcp/[::1]:3"]',)
    )
    assert listening(Effective.of(options)) == ["tcp/[::1]:3"]


def test_the_empty_key_is_the_whole_configuration(tmp_path: Path) -> None:
    file = tmp_path / "r.json5"
    file.write_text('{metadata: {name: "x"}}')
    effective = Effective.of(Options(config=str(file), cfg=(":{scouting: {timeout: 7}}",)))
    assert effective.config.get_json("metadata") == "null"
    assert effective.config.get_json("scouting/timeout") == "7"
    assert effective.origin("scouting/timeout") == "--cfg :"


def test_listeners_of_another_role_say_nothing_about_this_one() -> None:
    effective = Effective.of(Options(cfg=('listen/endpoints:{peer: ["tcp/[::]:9"]}',)))
    assert listening(effective) == ["tcp/127.0.0.1:7447"]
    nowhere = Effective.of(Options(cfg=("listen/endpoints:[]",)))
    assert listening(nowhere) == []


def test_a_router_that_others_reach_is_not_found_by_multicast_unless_told() -> None:
    exposed = Options(listen=("tcp/[::]:7447",))
    effective = Effective.of(exposed)
    assert not effective.config.value(SCOUTING, bool)
    assert effective.origin(SCOUTING) == "elea router: it listens beyond this host"
    told = Options(listen=("tcp/[::]:7447",), cfg=(f"{SCOUTING}:true",))
    assert Effective.of(told).config.value(SCOUTING, bool)


def test_the_environment_is_named_where_it_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_SCOUTING_ENV, "1")
    effective = Effective.of(Options())
    assert not effective.config.value(SCOUTING, bool)
    assert effective.origin(SCOUTING) == NO_SCOUTING_ENV


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ("scouting/timeout", "--cfg takes KEY:VALUE"),
        ("scouting/timeot:1", "scouting/timeout"),
        ("mode:router", "texts need quotes"),
    ],
)
def test_settings_that_are_none(cfg: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Effective.of(Options(cfg=(cfg,)))


def test_a_key_that_is_removed_is_the_default_again() -> None:
    effective = Effective.of(Options(cfg=("scouting/timeout:7",)))
    copy = effective.copy()
    copy.remove("scouting/timeout")
    assert (copy.config.get("scouting/timeout"), copy.origin("scouting/timeout")) == (
        3_000,
        DEFAULT,
    )
    assert effective.config.get("scouting/timeout") == 7
