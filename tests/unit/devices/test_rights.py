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


FILTER = {"id": "f", "flows": ["ingress"], "messages": ["put", "delete"]}
SMALL = {**FILTER, "key_exprs": ["open/**"], "size_limit": 10}
SLOW = {**FILTER, "rules": [{"key_expr": "slow/**", "freq": 0.001}]}
FEW = {"id": "few", "bytes_per_second": 10}


def lengths(one: Served, pid: bytes, key: bytes | None, name: str, *sizes: int) -> list[int]:
    """What others get of samples that a device writes, by length."""
    with client_of(one) as client:
        took = subscriber(one, client, "**")
        with Device(one.udp, device_settings(pid, key=key)) as device:
            for size in sizes:
                device.write_to(name, b"x" * size)
            device.flush()
            found = []
            one.session.put("others/last", b"")
            while str((sample := took.recv(timeout=WAIT_S)).key_expr) != "others/last":
                found.append(len(sample.payload.to_bytes()))
    return found


def test_size_limits_and_down_sampling_hold_for_devices() -> None:
    cfg = (f"low_pass_filter:{json.dumps([SMALL])}", f"downsampling:{json.dumps([SLOW])}")
    with served(*cfg) as one:
        assert lengths(one, PID, None, "/open/t", 10, 11, 9) == [10, 9]
        assert one.counts()["gateway_limited"] == 1
        assert lengths(one, PID, None, "/slow/t", 1, 2, 3) == [1]
        assert one.counts()["gateway_limited"] == 3
        assert lengths(one, PID, None, "/other/t", 1, 20) == [1, 20]


def test_a_quota_holds_for_a_device_that_proves_its_id_and_for_no_other(keys: str) -> None:
    quota = {**FEW, "usernames": [PID.hex()]}
    with served(keys, f"elea/quotas:{json.dumps([quota])}") as one:
        assert lengths(one, PID, KEY, "/open/t", 2_000, 1, 1) == [2_000]
        assert one.counts()["gateway_limited"] == 2
        assert lengths(one, PID, KEY, "/open/t", 1) == []  # nor by beginning again
        assert lengths(one, FREE, KEY, "/open/t", 2_000, 1) == [2_000, 1]


def test_a_device_that_proves_nothing_gets_no_new_quota_by_another_id() -> None:
    quota = {**FEW, "link_protocols": ["xrce"]}
    with served(f"elea/quotas:{json.dumps([quota])}") as one:
        assert lengths(one, PID, None, "/open/t", 2_000, 1) == [2_000]
        assert lengths(one, FREE, None, "/open/t", 1) == []


def test_a_quota_holds_for_what_devices_ask() -> None:
    quota = {**FEW, "link_protocols": ["xrce"]}
    with served(f"elea/quotas:{json.dumps([quota])}") as one:
        asked: list[str] = []
        one.session.declare_queryable("open/**", lambda query: asked.append(str(query.key_expr)))
        with Device(one.udp, device_settings(PID)) as device:
            device.write_to("/open/t", b"x" * 2_000)
            assert device.pull(device.resource("/open/u")) == []
        assert asked == []
        assert one.counts()["gateway_limited"] == 1
