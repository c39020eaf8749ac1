"""The files of the demo: a router and a pipeline, as a user would write them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

ROUTER: Final = "router.json5"
PIPELINE: Final = "pipeline.yaml"
NAMES: Final = (ROUTER, PIPELINE, "PoseStamped.msg")
ENDPOINT: Final = "tcp/127.0.0.1:7447"  # in the files; others are put in its place
GATEWAY: Final = "udp/127.0.0.1:7447"


def text(name: str) -> str:
    """One of them, as it is written."""
    return (files("elea.demo") / "data" / name).read_text(encoding="utf-8")


def lay_out(directory: Path, endpoint: str = ENDPOINT, gateway: str = GATEWAY) -> None:
    """Write all of them to a directory, for a router that is at an endpoint.

    Args:
        gateway: And serves tiny devices there.
    """
    for name in NAMES:
        placed = text(name).replace(ENDPOINT, endpoint).replace(GATEWAY, gateway)
        (directory / name).write_text(placed, encoding="utf-8")
