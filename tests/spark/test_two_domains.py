"""`examples/two_domains.py` as a user runs it: two DDS domains, a subscriber and a Spark table.

In a process of its own with a Java of its own: Cyclone's typed binding and the bridge do not share
one.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.dds.peers import next_domain
from tests.meta.tree import ROOT

line = pytest.mark.line


@line("D-937", "D-639")
def test_what_is_written_in_one_domain_is_in_the_other_and_in_a_table() -> None:
    domains = [str(next_domain()), str(next_domain())]
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/two_domains.py"), "--domains", *domains],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2_000:]
    assert ran.stdout.splitlines() == [
        f"written in domain {domains[0]}: 5 samples",
        "listener in the other domain: 5 samples, equal",
        "subscriber of Zenoh: 5 samples, equal",
        "Spark table: 5 samples, equal",
    ]
