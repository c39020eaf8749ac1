"""What a transport takes from the configuration of its node."""

from __future__ import annotations

from elea.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """How this side of a transport sends.

    Attributes:
        keep_alives: How many fit into our lease: KEEP_ALIVE is sent after that part of silence.
        batching: Whether messages share batches.
        queue_lens: Bytes that may be queued, by priority; None: `Limits.tx_queue_len` for each.
    """

    keep_alives: int = 4
    batching: bool = True
    queue_lens: tuple[int, ...] | None = None


DEFAULT_SETTINGS = TransportSettings()
