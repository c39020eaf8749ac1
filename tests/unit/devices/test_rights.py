"""Access rules of the router hold for devices: by the id that they prove, or as users of XRCE."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.devices.rig import Served, client_of, served, subscriber
from tests.unit.devices.test_access import FREE, KEY, PID, keys_file

from elea.devices.device import Device, device_settings
from elea.session.rights import Rights
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


def changed(one: Served, path: str, value: str) -> None:
    """Rules of the router change while it runs, as an operator changes them."""
    rights = Rights(one.session)
    before = rights.revision()
    one.session.put(f"@/{one.session.zid()}/router/config/{path}", value)
    assert eventually(lambda: rights.revision() is not before)


def heard(device: Device, one: Served, *keys: str) -> list[str]:
    """Which of some samples a device gets, the last of which it may get."""
    for key in keys:
        one.session.put(key, key)
    found: list[str] = []
    deadline_s = time.monotonic() + WAIT_S
    while keys[-1] not in found and time.monotonic() < deadline_s:
        received = device.receive(0.2)
        if received is not None:
            found.append(received.payload.decode())
    return found


def test_rules_that_change_apply_to_the_subscriptions_that_devices_have(keys: str) -> None:
    """A device that had subscribed before went on reading what is denied to it."""
    denied = rules({"usernames": [PID.hex()]}).partition(":")[2]
    off = json.dumps({**json.loads(denied), "enabled": False})
    with (
        served(keys, f"access_control:{off}", adminspace_permissions="rw") as one,
        Device(one.udp, device_settings(PID, key=KEY)) as device,
    ):
        device.subscriber("/secret/*")
        device.subscriber("/open/*")
        assert heard(device, one, "secret/pin", "open/1") == ["secret/pin", "open/1"]
        changed(one, "access_control/enabled", "true")
        assert heard(device, one, "secret/pin", "open/2") == ["open/2"]
        with Device(one.udp, device_settings(FREE, key=KEY)) as other:  # nor from another device
            other.write_to("/secret/pin", b"of another")
            other.flush()
        assert heard(device, one, "secret/pin", "open/3") == ["open/3"]
        changed(one, "access_control/enabled", "false")
        assert eventually(lambda: "secret/pin" in heard(device, one, "secret/pin", "open/4"))
