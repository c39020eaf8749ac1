"""Definitions kept beside a log, as `ros2-types.json`: hash to name, text and source (R2-324)."""

from __future__ import annotations

import json
from typing import Final

KEPT: Final = "ros2-types.json"
_NAMES: Final = ("name", "text", "source")

Entries = dict[str, dict[str, str]]


def parse_kept(text: str) -> Entries:
    """What such a file holds; what is none of it is left out.

    Example:
        >>> parse_kept('{"RIHS01_ab": {"name": "p/msg/A", "text": "", "source": "x"}, "b": 1}')
        {'RIHS01_ab': {'name': 'p/msg/A', 'text': '', 'source': 'x'}}
    """
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(told, dict):
        return {}
    return {
        str(hash): {name: str(entry[name]) for name in _NAMES}
        for hash, entry in told.items()
        if isinstance(entry, dict) and all(name in entry for name in _NAMES)
    }


def kept_text(entries: Entries) -> str:
    """The text of such a file."""
    return json.dumps(entries, indent=1, sort_keys=True)
