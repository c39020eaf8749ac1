"""Member: what all threads of a fleet have in common, whatever protocol their robot speaks."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elea.demo.fleet import Fleet


class Member(threading.Thread):
    """One robot or device; if it fails, the whole fleet ends.

    Args:
        fleet: The fleet it belongs to.
        name: Its chunk in keys.

    Attributes:
        done: Set once everything was published, or the robot failed.
        failure: The error that ended it.
    """

    def __init__(self, fleet: Fleet, name: str) -> None:
        super().__init__(name=name)
        self.done = threading.Event()
        self.failure: Exception | None = None
        self._fleet = fleet

    def run(self) -> None:
        """Publish what the plan says."""
        try:
            self.live()
        except threading.BrokenBarrierError:
            return  # another member failed, and says why
        except Exception as error:
            self.failure = error
            self._fleet.is_ending.set()
            self._fleet.ready.abort()
        finally:
            self.done.set()

    def live(self) -> None:
        """Connect, wait for `fleet.ready`, and publish; each kind has its own."""
        raise AssertionError("each kind has its own")

    def waited(self, at_s: float) -> bool:
        """Wait for a time of the monotonic clock; return whether to go on."""
        return not self._fleet.is_ending.wait(max(0.0, at_s - time.monotonic()))
