"""What a verb imports before it does something: modules that few need are imported late."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Slow to import, and needed by few runs of these verbs.
LATE = (
    "asyncio",
    "email",
    "encodings.idna",
    "importlib.metadata",
    "ssl",
    "elea.session.ack",
    "elea.session.advanced_subscriber",
    "elea.session.since",
    "elea.session.spool",
    "elea.store",
)
RUN = """
import sys
from elea.cli.main import main
code = main(sys.argv[1:])
print(code, *(name for name in {late!r} if name in sys.modules))
"""


@pytest.mark.parametrize(
    "verb", [["put", "a", "b"], ["get", "a"], ["sub", "a"], ["delete", "a"]], ids=lambda one: one[0]
)
def test_common_verbs_imported_what_they_do_not_need(verb: list[str]) -> None:
    """A tenth of the time of `elea put` went into entry points, Unicode names and spools."""
    nowhere = ["-m", "client", "-e", "tcp/127.0.0.1:1", "--no-multicast-scouting"]
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(late=LATE), *verb, *nowhere],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "ELEA_NO_SCOUTING": "1"},
        check=True,
    )
    assert "Connection refused" in done.stderr  # it went as far as a connection
    assert done.stdout.split() == ["1"]


@pytest.mark.parametrize("verb", ["router", "doctor", "log", "ros2"])
def test_verbs_imported_numpy_and_bridges_to_print_their_help(verb: str) -> None:
    """`elea router` imported numpy, DDS and asyncio by the ROS formats, without any bridge."""
    code = RUN.format(late=("numpy", "cyclonedds", "elea.dds.settings", "elea.xrce"))
    done = subprocess.run(
        [sys.executable, "-c", code, verb, "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split()[-1] == "0"
