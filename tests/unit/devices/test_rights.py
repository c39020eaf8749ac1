"""Access rules of the router hold for devices: by the id that they prove, or as users of XRCE."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.devices.rig import Served, client_of, served, subscriber
from tests.unit.devices.test_access import FREE, KEY, PID, keys_file

from elea.devices.device import Device, device_settings
from elea.xrce.status import RefusedError

MESSAGES = ["put", "delete", "declare_subscriber", "query", "reply"]
DENY = {"id": "deny", "permission": "deny", "messages": MESSAGES, "key_exprs": ["secret/**"]}


def rules(subject: dict[str, object]) -> str:
    access = {
        "enabled": True,
        "default_permission": "allow",
        "rules": [DENY],
        "subjects": [{"id": "one", **subject}],
        "policies": [{"rules": ["deny"], "subjects": ["one"]}],
    }
    return f"access_control:{json.dumps(access)}"


@pytest.fixture
def keys(tmp_path: Path) -> str:
    text = "".join(f"{one.hex()}: {KEY.hex()}\n" for one in (PID, FREE))
    return f"plugins/xrce/keys_file:{json.dumps(str(keys_file(tmp_path, text)))}"


def written(one: Served, pid: bytes, key: bytes | None) -> list[str]:
    """On which keys a device writes that tries a denied one and another."""
    with client_of(one) as client:
        took = subscriber(one, client, "**")
        with Device(one.udp, device_settings(pid, key=key)) as device:
            device.write_to("/secret/pin", b"1")
            device.write(device.resource("/open/last"), b"2")
            device.flush()
            found = [str(took.recv(timeout=20).key_expr)]
            while found[-1] != "open/last":
                found.append(str(took.recv(timeout=20).key_expr))
    return found


def test_a_device_that_proves_its_id_writes_no_key_that_is_denied_to_it(keys: str) -> None:
    with served(keys, rules({"usernames": [PID.hex()]})) as one:
        before = one.counts()["gateway_forbidden"]
        assert written(one, PID, KEY) == ["open/last"]
        assert one.counts()["gateway_forbidden"] == before + 1
        assert written(one, FREE, KEY) == ["secret/pin", "open/last"]


def test_a_device_that_proves_nothing_is_no_user() -> None:
    with served(rules({"usernames": [PID.hex()]})) as one:
        assert written(one, PID, None) == ["secret/pin", "open/last"]
    with served(rules({"link_protocols": ["xrce"]})) as one:
        assert written(one, PID, None) == ["open/last"]


@pytest.mark.parametrize("name", ["/secret/pin", "/secret/**", "/**"])
def test_a_device_reads_no_key_that_is_denied_to_it(keys: str, name: str) -> None:
    with served(keys, rules({"usernames": [PID.hex()]})) as one:
        with (
            Device(one.udp, device_settings(PID, key=KEY)) as device,
            pytest.raises(RefusedError),
        ):
            device.subscriber(name)
        with Device(one.udp, device_settings(FREE, key=KEY)) as device:
            device.subscriber(name)
