"""`examples/one_sample.py` as a user runs it: one DDS sample, seen by eight observers.

In a process of its own with a Java of its own: Cyclone's typed binding and the bridge do not share
one.
"""

from __future__ import annotations

import subprocess
import sys

from tests.meta.tree import ROOT

from elea.demo.dds_robot import reserved_domain

OBSERVERS = [
    *("DDS reader", "XRCE device", "Elea", "Eclipse Zenoh", "REST", "log", "Spark table"),
    "ROS 2 node",
]


def test_one_sample_is_seen_by_all() -> None:
    with reserved_domain() as domain:
        ran = subprocess.run(
            [sys.executable, str(ROOT / "examples/one_sample.py"), "--domain", str(domain)],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    sent, _, _, *rows, _, last = ran.stdout.splitlines()
    assert sent == "sent by a DDS writer: x=1.5 y=-2.25 z=40.0"
    assert [row[:15].strip() for row in rows] == OBSERVERS
    assert all(row.split()[-3:] == ["1.5", "-2.25", "40.0"] for row in rows)
    assert last == "8 of 8 saw the same sample"
