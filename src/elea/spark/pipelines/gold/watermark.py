"""Until when windows are complete: a watermark that follows who is alive.

Each device has a position: the time of its latest row. A window is closed once every device has
passed it that may still send rows for it. That is each one but

- those that are dead: they had a liveliness token, and it is gone;
- those that are silent: their position is more than `late` behind the time of the log.

A clock may be wrong: a position counts as at most `drift` ahead of the time of the log.

The time of the log is when its latest row was received. It does not go on when nothing is received,
nor run ahead of a pipeline that has to catch up: so the same rows close the same windows, however
late they are read. Who knows that nothing is missing may give the time of day instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

DRIFT_US: Final = 1_000_000  # how far ahead of the time of the log a device's clock is believed

Device: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Life:
    """What tokens tell of a device.

    Args:
        is_alive: Whether it has a token now.
        since_us: When the last one appeared.
    """

    is_alive: bool
    since_us: int


def watermark(
    positions: Mapping[Device, int],
    lives: Mapping[Device, Life],
    now_us: int,
    late_us: int,
    drift_us: int = DRIFT_US,
) -> int:
    """The time that every device has passed that counts.

    Args:
        positions: By device, the time of its latest row.
        lives: By device, what is known of its tokens; one that is not here is taken for alive.
        now_us: The time of the log.
        late_us: How long a silent one is waited for.
        drift_us: How far ahead of the time of the log a position is believed.

    Example:
        >>> watermark({("a",): 90, ("b",): 100}, {}, now_us=100, late_us=20)
        90
        >>> watermark({("a",): 70, ("b",): 100}, {}, now_us=100, late_us=20)
        100
        >>> watermark({("a",): 90, ("b",): 100}, {("a",): Life(False, 0)}, 100, 20)
        100
        >>> watermark({("a",): 9_000}, {}, now_us=100, late_us=20, drift_us=5)
        105
    """
    waited: list[int] = []
    for device in {*positions, *lives}:
        life = lives.get(device)
        if life is not None and not life.is_alive:
            continue
        position = positions.get(device, 0)
        if life is not None:
            position = max(position, life.since_us)
        position = min(position, now_us + drift_us)
        if now_us - position <= late_us:
            waited.append(position)
    if waited:
        return max(now_us - late_us, min(waited))
    all_dead = bool(lives) and all(
        device in lives and not lives[device].is_alive for device in positions
    )
    return now_us if all_dead else now_us - late_us
