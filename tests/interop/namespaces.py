"""Programs in a network namespace of their own: a host with loopback only, or with one card.

Whatever they send stays there, so their nodes may have default configurations.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from tests.meta.tree import ROOT

from elea.config_file import NO_SCOUTING_ENV

CARD = "10.99.0.1"
_UP = "ip link set lo up"
# One end of a cable whose other end nobody has.
_CABLE = "ip link add v0 type veth peer name v1 && ip link set v1 up && ip link set v0 up"
SETUPS = {
    "loopback": _UP,
    "loopback with multicast": f"{_UP} multicast on && ip route add 224.0.0.0/4 dev lo",
    "card": f"{_UP} && {_CABLE} && ip addr add {CARD}/24 dev v0",
}
LIMIT_S = 120  # only a hang takes as long


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--net", *user]


def host(setup: str, *flags: str) -> list[str]:
    """What to write before a command so that it runs on such a host, which ends with it."""
    if sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("network namespaces need Linux, unshare and ip")
    started = [*_unshare(), *flags, "sh", "-c"]
    made = subprocess.run([*started, SETUPS[setup]], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no network namespace for {setup!r} can be made here: {made.stderr.strip()}")
    return [*started, f'{SETUPS[setup]} && exec "$0" "$@"']


def inside(setup: str, program: str, *arguments: str) -> Any:
    """Run a Python program on such a host; what it printed last, as JSON."""
    environment = {name: value for name, value in os.environ.items() if name != NO_SCOUTING_ENV}
    ended = subprocess.run(
        [*host(setup), sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert ended.returncode == 0, ended.stderr[-4_000:]
    return json.loads(ended.stdout.splitlines()[-1])
