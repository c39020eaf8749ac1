"""What a Flight door counts, and the metrics of it: name, kind, which counter, meaning."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

METRICS: Final[dict[str, tuple[str, str, str]]] = {
    "elea_flight_streams_open": ("gauge", "open", "Ranges of logs that are being read"),
    "elea_flight_streams": ("counter", "streams", "Ranges of logs that were begun to be read"),
    "elea_flight_rows": ("counter", "rows", "Rows that were given to readers"),
    "elea_flight_octets": ("counter", "octets", "Octets of those rows, in memory"),
    "elea_flight_busy": ("counter", "busy", "Ranges that were refused: too many are being read"),
    "elea_flight_unauthenticated": (
        "counter",
        "unauthenticated",
        "Calls that were refused: without the token of the door",
    ),
    "elea_flight_refused": (
        "counter",
        "refused",
        "Calls that were refused: not legal, or of rows that are trimmed or damaged",
    ),
    "elea_flight_stalled": (
        "counter",
        "stalled",
        "Streams that were cut: their reader took nothing for long",
    ),
}


@dataclass(slots=True)
class Counts:
    """What became of the calls of a door; calls come by many threads."""

    open: int = 0
    streams: int = 0
    rows: int = 0
    octets: int = 0
    busy: int = 0
    unauthenticated: int = 0
    refused: int = 0
    stalled: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **more: int) -> None:
        """Count."""
        with self.lock:
            for name, count in more.items():
                setattr(self, name, getattr(self, name) + count)

    def by_name(self) -> dict[str, int]:
        """All of them."""
        return {name: getattr(self, name) for _, name, _ in METRICS.values()}
