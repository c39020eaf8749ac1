"""The files of the demo: a router and a pipeline, as a user would write them."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROUTER: Final = "router.json5"
PIPELINE: Final = "pipeline.yaml"
NAMES: Final = (ROUTER, PIPELINE, "PoseStamped.msg")
ENDPOINT: Final = "tcp/127.0.0.1:7447"  # in the files; others are put in its place
GATEWAY: Final = "udp/127.0.0.1:7447"
DOMAIN: Final = "domain: 93"
_SQL_PART: Final = re.compile(r"^ *sql: .*\n", re.MULTILINE)
_DDS_PART: Final = re.compile(r"^ *// DDS .*\n(?: *//.*\n)* *dds: .*\n", re.MULTILINE)


def has_page() -> bool:
    """Whether the packages of the page are installed."""
    return all(
        find_spec(one) for one in ("starlette", "uvicorn", "websockets", "prometheus_client")
    )


def has_sql() -> bool:
    """Whether questions in SQL can be answered."""
    return find_spec("duckdb") is not None


def text(name: str) -> str:
    """One of them, as it is written."""
    return (files("elea.demo") / "data" / name).read_text(encoding="utf-8")


def lay_out(
    directory: Path,
    endpoint: str = ENDPOINT,
    gateway: str = GATEWAY,
    *,
    domain: int | None = None,
) -> None:
    """Write all of them to a directory, for a router that is at an endpoint.

    Args:
        gateway: And serves tiny devices there.
        domain: The DDS domain that it bridges; None: it bridges none.
    """
    for name in NAMES:
        placed = text(name).replace(ENDPOINT, endpoint).replace(GATEWAY, gateway)
        if not has_sql():
            placed = _SQL_PART.sub("", placed)
        if domain is None:
            placed = _DDS_PART.sub("", placed)
        else:
            placed = placed.replace(DOMAIN, f"domain: {domain}")
        (directory / name).write_text(placed, encoding="utf-8")
