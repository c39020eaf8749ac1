"""A serial line of two pseudo-terminals: what one end writes the other one reads."""

from __future__ import annotations

import os
import select
import threading
import tty
from collections.abc import Callable
from contextlib import suppress

Change = Callable[[bytes], bytes]


class Line:
    """Two devices with a wire between them, moved by a thread.

    As on a real line nothing tells one end that the other one has closed its device. `to_far` and
    `to_near` are what the wire does to bytes on their way; they may be replaced at any time.
    """

    def __init__(self) -> None:
        self.to_far: Change = _same
        self.to_near: Change = _same
        self._masters: list[int] = []
        self._slaves: list[int] = []
        self.near, self.far = (self._terminal() for _ in range(2))
        self._stop, self._bell = os.pipe()
        self._thread = threading.Thread(target=self._move, daemon=True)
        self._thread.start()

    def _terminal(self) -> str:
        master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(master, False)
        self._masters.append(master)
        self._slaves.append(slave)  # held: a device that nobody has open must not hang up
        return os.ttyname(slave)

    def send_to_far(self, data: bytes) -> None:
        """As if the near end had written it, past `to_far`."""
        os.write(self._masters[1], data)

    def send_to_near(self, data: bytes) -> None:
        os.write(self._masters[0], data)

    def close(self) -> None:
        """Hang both devices up. Legal twice."""
        if self._thread.is_alive():
            os.close(self._bell)
            self._thread.join(20)
            os.close(self._stop)
            for fd in (*self._masters, *self._slaves):
                os.close(fd)

    def _move(self) -> None:
        near, far = self._masters
        waiting = {near: b"", far: b""}  # by where it goes
        other = {near: far, far: near}
        while True:
            # What was read waits until it is written: then the writer behind it waits, too.
            readable = [fd for fd in other if not waiting[other[fd]]]
            writable = [fd for fd in other if waiting[fd]]
            found, _, _ = select.select([self._stop, *readable], writable, [])
            if self._stop in found:
                return
            for fd in readable:
                with suppress(BlockingIOError):
                    data = os.read(fd, 4_096)
                    waiting[other[fd]] = self.to_far(data) if fd == near else self.to_near(data)
            for fd in other:
                with suppress(BlockingIOError):
                    waiting[fd] = waiting[fd][os.write(fd, waiting[fd]) :] if waiting[fd] else b""


def _same(data: bytes) -> bytes:
    return data
