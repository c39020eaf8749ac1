"""Who may be a router or a peer of a router, and whose link state counts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import ask, client_of, options, root_of, running

import elea
from elea.daemon.daemon import Daemon
from elea.errors import ConfigError, LinkError

ONE_TRY_S = 0.0


def users_at(path: Path) -> str:
    file = path / "users"
    file.touch(0o600)
    file.write_text("anna:secret-of-anna\notto:secret-of-otto\n")
    return f'transport/auth/usrpwd/dictionary_file:"{file}"'


def connected(
    daemon: Daemon, mode: str, user: str | None = None, timeout_s: float = WAIT_S
) -> elea.Session:
    auth: dict[str, Any] = {}
    if user is not None:
        auth = {"auth": {"usrpwd": {"user": user, "password": f"secret-of-{user}"}}}
    connect = {
        "endpoints": [daemon.locators()[0]],
        "timeout_ms": int(timeout_s * 1_000),
        "exit_on_failure": True,
    }
    return elea.open(
        {
            "mode": mode,
            "listen": {"endpoints": []},
            "connect": connect,
            "scouting": {"multicast": {"enabled": False}},
            "transport": auth,
        }
    )


def refused(daemon: Daemon) -> int:
    assert daemon._driver is not None
    with daemon._driver.lock:
        return daemon._driver.node.stats.refused().get("role", 0)


def neighbours(daemon: Daemon) -> list[str]:
    [told] = ask(daemon.session, root_of(daemon)).values()
    return sorted(one["whatami"] for one in json.loads(told)["sessions"])


@pytest.mark.parametrize("role", ["router", "peer"])
def test_only_those_named_may_be_a_router_or_a_peer(tmp_path: Path, role: str) -> None:
    roles = {role: [{"usernames": ["otto"]}]}
    chosen = options(users_at(tmp_path), f"elea/roles:{json.dumps(roles)}")
    with running(chosen) as daemon:
        with pytest.raises(LinkError):
            connected(daemon, role, "anna", ONE_TRY_S)
        assert refused(daemon) >= 1
        with connected(daemon, role, "otto"), connected(daemon, "client", "anna"):
            assert eventually(lambda: neighbours(daemon) == sorted([role, "client"]))


def test_everybody_may_be_anything_without_the_section() -> None:
    with running(options()) as daemon, connected(daemon, "router"), connected(daemon, "peer"):
        assert eventually(lambda: neighbours(daemon) == ["peer", "router"])
        assert refused(daemon) == 0


def test_roles_go_by_interface_and_change_while_it_runs() -> None:
    with running(options(adminspace_permissions="rw")) as daemon:
        key = f"{root_of(daemon)}/config/elea/roles"
        with client_of(daemon) as client:
            for interface, may in (("eth9", False), ("lo", True)):
                client.put(key, json.dumps({"router": [{"interfaces": [interface]}]}))
                named = partial(_names, daemon, interface)
                assert eventually(named)
                if may:
                    connected(daemon, "router").close()
                else:
                    with pytest.raises(LinkError):
                        connected(daemon, "router", timeout_s=ONE_TRY_S)


def _names(daemon: Daemon, interface: str) -> bool:
    return interface in daemon.config.get_json("elea/roles")


def test_link_state_of_those_not_named_is_refused() -> None:
    with running(options("elea/roles:{linkstate:[]}")) as daemon, connected(daemon, "router"):
        assert daemon._driver is not None
        node = daemon._driver.node

        def refusals() -> list[str]:
            with daemon._driver.lock:  # type: ignore[union-attr]
                return [str(action) for _, _, action in node.guards.refused]

        assert eventually(lambda: "link_state" in refusals())


@pytest.mark.parametrize("roles", ["{client:[]}", "{router:[{zids:['1']}]}", "{router:{}}"])
def test_sections_that_are_not_legal(roles: str) -> None:
    with pytest.raises(ConfigError, match="elea/roles"):
        Daemon(options(f"elea/roles:{roles}"))
