"""Rules change while a router runs: what was subscribed before is checked again, by every service.

A client, a browser, a device and a reader of the log begin while everything is allowed. Then rules
deny `secret/**` to them, and nothing of it reaches them any more.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target, until
from attack.users import answers, client, guarded, login, secret
from tests.ports import free_port

import elea
from elea.devices.device import Device, device_settings

THREAT: Final = "rules that change"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 1, "full": 10}  # times that rules change and change back
CLIENT: Final = login("anna")
_PID: Final = b"\xc0\xff\xee"
_KEY: Final = bytes(range(16))
_TOKEN: Final = "token-of-mallory-1"
_TEXT: Final = elea.Encoding.TEXT_PLAIN
_XRCE_PORT: Final = free_port()


def services(folder: Path, port: int) -> dict[str, object]:
    """As `guarded`, with devices, users of REST, and rules that are not in effect yet."""
    made = guarded(folder, port)
    access = made["access_control"]
    assert isinstance(access, dict)
    subject = {"id": "mallory", "usernames": ["mallory", _PID.hex()]}
    keys = secret(folder / "keys", f"{_PID.hex()}: {_KEY.hex()}\n")
    users = {"mallory": secret(folder / "mallory", _TOKEN)}
    return {
        **made,
        "access_control": {**access, "enabled": False, "subjects": [subject]},
        "adminspace/permissions/write": True,
        "plugins/rest": {"http_port": port, "users": users},
        "plugins/xrce": {"listen": [f"udp/127.0.0.1:{_XRCE_PORT}"], "keys_file": keys},
    }


SERVICES: Final = services


class Browser:
    """A subscription over REST, read in a thread."""

    def __init__(self, port: int) -> None:
        self.got = b""
        self.is_over = False
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        headers = {"accept": "text/event-stream", "authorization": f"Bearer {_TOKEN}"}
        self._connection.request("GET", "/secret/**", headers=headers)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while chunk := self._answer.read1(65_536):
            self.got += chunk
        self.is_over = True

    def close(self) -> None:
        self._connection.close()


def attack(target: Target, size: int) -> list[Check]:
    """Subscribe everywhere, deny, and see what still arrives."""
    deaf = leaked = 0
    with client(target, "anna") as anna, client(target, "mallory") as mallory:
        for number in range(size):
            missed, seen = _change(target, anna, mallory, number)
            deaf += missed
            leaked += seen
    return [Check("deaf_before", deaf, 0), Check("leaked_after", leaked, 0)]


def _change(
    target: Target, anna: elea.Session, mallory: elea.Session, number: int
) -> tuple[int, int]:
    got: list[str] = []
    with (
        mallory.declare_subscriber("secret/**", lambda one: got.append(str(one.payload))),
        Device(f"udp/127.0.0.1:{_XRCE_PORT}", device_settings(_PID, key=_KEY)) as device,
    ):
        device.subscriber("/secret/*")
        device.subscriber("/open/*")
        browser = Browser(target.http_port)
        before, after = f"before {number}", f"after {number}"
        anna.put("secret/pin", before, encoding=_TEXT, ack="stored")
        heard = until(lambda: before in got and before.encode() in browser.got)
        missed = int(not heard) + (before not in _received(device, before))
        missed += not answers(mallory, "@elea/log/all/read/0?lo=0;hi=1")
        [node] = answers(anna, "@/*/router")
        config = f"@/{json.loads(node)['zid']}/router/config/access_control/enabled"
        anna.put(config, "true")
        until(lambda: not answers(mallory, "secret/pin"))
        anna.put("secret/pin", after, encoding=_TEXT, ack="stored")
        anna.put("open/last", after)
        seen = int(after in _received(device, after, until_open=True))
        seen += len(answers(mallory, "@elea/log/all/read/0?lo=0;hi=1"))
        until(lambda: browser.is_over)
        seen += after.encode() in browser.got
        seen += after in got
        browser.close()
        anna.put(config, "false")
        until(lambda: answers(mallory, "secret/pin"))
    return missed, seen


def _received(device: Device, text: str, *, until_open: bool = False) -> list[str]:
    """What a device gets on secret keys, until a text, or a sample on an open key, has come."""
    found: list[str] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        one = device.receive(0.2)
        if one is None:
            continue
        if "open" in one.path:
            if until_open:
                break
            continue
        found.append(one.payload.decode())
        if not until_open and text in found:
            break
    return found
