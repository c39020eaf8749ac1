"""LinkPump: one link on a poller. Reads in chunks, writes in order, tells the end once.

Writes go straight to the link from whichever thread has something to send, as long as nothing
waits; only what the link does not take waits for the poller. Reading happens on the poller alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, cast

from elea.errors import ClosedError, LimitError, LinkError
from elea.fast.intake import MORE
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.base import BUFFERED, READ, WRITE, Buffer, Callback, Fed, Link
from elea.link.poller import Poller
from elea.link.socket_queue import unsent_len

PEER_CLOSED: Final = "the peer closed the link"
CLOSED_HERE: Final = "closed by this node"

_BUFFERS_COUNT_MAX: Final = 64  # handed to one write

OnData = Callable[[bytes, int], int | None]
OnClosed = Callable[[str], None]


class LinkPump:
    """Moves the octets of one link.

    All callbacks run on the poller, never inside a call of `send`, `close` or the like, and never
    with a lock held; so they may call anything.

    Args:
        link: the link; the pump owns it from here on.
        poller: the loop that watches it.
        on_data: given octets as they arrive, and the time; it may answer how many would be best
            next, or MORE: then it is called with none, soon, and nothing is read before. If it
            raises, the link is closed.
        on_closed: told once why the link ended.
        on_drained: told when everything that had to wait is written.
        limits: bounds of a read, a turn and the queue.
        clock: the monotonic time.
    """

    def __init__(
        self,
        link: Link,
        poller: Poller,
        *,
        on_data: OnData,
        on_closed: OnClosed,
        on_drained: Callback | None = None,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.link = link
        self.info = link.info
        self._poller = poller
        self.on_data = on_data  # may be replaced
        self._on_closed = on_closed
        self._on_drained = on_drained
        self._clock = clock
        self._limits = limits
        self._write = link.write
        self._wants = link.wants
        self._fd = link.fileno()
        self._stream = link.info.stream
        self._wanted_len = limits.link_read_len  # of the next read
        self._lock = threading.Lock()  # of what follows
        self._queue: deque[Buffer] = deque()
        self._queued_len = 0
        self._written_len = 0  # since ever
        self._moved_len = 0  # of those, what the other end had taken when somebody asked
        self._interest = READ
        self._paused = False
        self._behind = False  # what was read is not done with yet
        self._ending: str | None = None  # why it ends, once that is certain
        self._draining: str | None = None  # why it ends, after the queue is written
        self._broken: str | None = None  # why it ends, after everything that arrived is read
        self._parted = False  # nothing is written any more, and the peer's end is waited for
        self._started = False
        self._closed = False  # the descriptor is given up

    def start(self) -> None:
        """Begin to read; callbacks may run before this returns."""
        with self._lock:  # so that nobody changes the interest before it is registered
            self._started = True
            self._interest = self._watched()
            if self._fd >= 0:
                self._poller.register(self._fd, self._readable, self._writable, self._interest)
            else:
                # Only a link without descriptor of its own answers -1, and that is what Fed is.
                cast(Fed, self.link).attach(self._readable, self._writable)
        if self._wants(False) & BUFFERED:
            self._poller.call_soon_threadsafe(self._readable)

    @property
    def queued_len(self) -> int:
        """Octets that wait to be written."""
        return self._queued_len

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Write, or queue what cannot be written now. After the end it is dropped in silence.

        Args:
            buffers: octets in their order; on a link that is no stream each one is a batch.

        Returns:
            How many octets wait now; 0 if all were written.

        Raises:
            LimitError: if octets wait already and with these there would be more than
                `limits.link_queue_len`; nothing was taken then.
        """
        self._poller.said()
        with self._lock:
            if self._ends():
                return 0
            if self._queued_len:
                return self._enqueue(buffers)
            try:
                taken = self._write(buffers)
            except LinkError as error:
                self._break(str(error))
                return 0
            self._written_len += taken
            left = _after(buffers, taken)
            if left:
                self._queue.extend(left)
                self._queued_len = sum(map(len, left))
            if self._wants(bool(left)) & ~BUFFERED != self._interest:
                self._watch()
            return self._queued_len

    def has_moved(self) -> bool:
        """Whether the other end took something since this was last asked.

        What the system holds counts: it is a lot, and it tells of room when there is much.
        """
        moved_len = self._written_len - unsent_len(self._fd)
        moved = moved_len != self._moved_len
        self._moved_len = moved_len
        return moved

    def pause_reading(self) -> None:
        """Read no more for now, so that the peer feels it."""
        with self._lock:
            self._paused = True
            self._watch()

    def resume_reading(self) -> None:
        """Read again."""
        with self._lock:
            if not self._paused:
                return
            self._paused = False
            self._watch()
        self._soon(self._readable)  # octets inside the link would not be told of

    def close(self, reason: str = CLOSED_HERE, *, drain: bool = False) -> None:
        """End the link.

        Args:
            reason: for `on_closed`.
            drain: first write what waits, and let the peer read it: the link ends when the peer
                closes, too. A second call without it ends the wait.
        """
        with self._lock:
            if drain and self._ending is None and self._broken is None:
                if self._draining is None:
                    self._draining = reason
                if self._unwritten():
                    self._watch()
                    return
                if self._part():
                    return
            self._end(reason)

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptor in silence and tell nobody."""
        self._lock = threading.Lock()  # a thread of the parent may have held it
        self._closed = True
        self._ending = CLOSED_HERE
        self.link.abort()

    # On the poller.

    def _readable(self) -> None:
        if self._parted:
            if self.link.is_over():
                self._end_now(self._draining or CLOSED_HERE)
            return
        if self._queued_len and not self._wants(True) & WRITE:
            self._writable()  # a write that waits for something to read
        turn_len = self._limits.link_turn_len
        turn_count = self._limits.link_turn_datagrams_count
        until_ns = self._clock() + self._limits.link_turn_ns
        read_len = self._wanted_len
        while not self._deaf():
            try:
                data = self.link.read(read_len)
            except LinkError as error:
                self._end_now(self._broken or str(error))
                return
            if data is None:
                if self._broken is not None:
                    self._end_now(self._broken)
                    return
                break
            if not data:
                self._end_now(self._broken or PEER_CLOSED)
                return
            full = len(data) == read_len
            read_len = self._deliver(data)
            if read_len == MORE:
                self._behind = True
                self._soon(self._go_on)
                break
            self._wanted_len = read_len
            if not self._poller.in_loop():
                if self._broken is not None:
                    self._soon(self._readable)  # it is not watched any more
                return  # relieved meanwhile: another thread reads on
            turn_len -= len(data)
            turn_count -= not self._stream
            empty = self._stream and not full and not self._wants(False) & BUFFERED
            if empty and self._broken is None:
                break  # the socket is empty: asking once more would cost a call to learn it
            if turn_len <= 0 or turn_count <= 0 or self._clock() >= until_ns:
                if self._broken is not None or self._wants(False) & BUFFERED:
                    self._soon(self._readable)
                break
        if self._watched() != self._interest:
            with self._lock:
                self._watch()

    def _go_on(self) -> None:
        """With what was read before, after others have had their turn; then read on."""
        if self._ending is not None:
            return
        wanted_len = self._deliver(b"")
        if wanted_len == MORE:
            self._soon(self._go_on)
            return
        self._behind = False
        self._wanted_len = wanted_len
        with self._lock:
            self._watch()
        self._soon(self._readable)

    def _deliver(self, data: bytes) -> int:
        try:
            return self.on_data(data, self._clock()) or self._limits.link_read_len
        except BaseException:
            # The octets after these would be read without what these meant.
            self._end_now("an internal error; the log has the traceback")
            raise

    def _writable(self) -> None:
        waited = self._queued_len > 0
        with self._lock:
            if self._ending is not None or self._broken is not None:
                return
            try:
                self._flush()
            except LinkError as error:
                self._break(str(error))
                return
            drained = not self._queued_len
            if self._draining is not None and not self._unwritten():
                if not self._part():
                    self._end(self._draining)
                return
            self._watch()
        if waited and drained and self._on_drained is not None:
            self._on_drained()
        if not self._wants(False) & READ:
            self._readable()  # a read that waits until it can write

    def _flush(self) -> None:
        budget = self._limits.link_turn_len
        if not self._queue:
            self._write(())
        while self._queue and budget > 0:
            buffers = list(islice(self._queue, _BUFFERS_COUNT_MAX))
            taken = self._write(buffers)
            if not taken:
                return
            budget -= taken
            self._written_len += taken
            self._queued_len -= taken
            for _ in buffers:
                self._queue.popleft()
            self._queue.extendleft(reversed(_after(buffers, taken)))

    def _enqueue(self, buffers: Sequence[Buffer]) -> int:
        total = self._queued_len + sum(map(len, buffers))
        if total > self._limits.link_queue_len:
            raise LimitError("link_queue_len", total, self._limits.link_queue_len)
        self._queue.extend(filter(None, buffers))
        self._queued_len = total
        return total

    def _unwritten(self) -> bool:
        """Whether octets wait here, or in the link itself, which then wants to write."""
        return bool(self._queued_len or self._wants(False) & WRITE)

    def _watched(self) -> int:
        """What the descriptor is to be watched for now."""
        wanted = self._wants(bool(self._queued_len)) & ~BUFFERED
        return wanted & ~READ if self._deaf() else wanted

    def _deaf(self) -> bool:
        if self._parted:
            return self._ending is not None
        stopped = self._paused or self._behind
        return stopped or self._draining is not None or self._ending is not None

    def _part(self) -> bool:
        """With the lock, everything is written: wait for the peer's end; False if there is none."""
        if not self._parted and self._started and self._fd >= 0 and self.link.part():
            self._parted = True
            self._watch()
        return self._parted

    def _watch(self) -> None:
        wanted = self._watched()
        if wanted != self._interest and self._ending is None and self._broken is None:
            self._interest = wanted
            if self._fd >= 0:
                self._poller.modify(self._fd, wanted)

    def _ends(self) -> bool:
        """Whether nothing is written any more, apart from what is queued."""
        ends = self._ending is not None or self._draining is not None
        return ends or self._broken is not None

    def _break(self, reason: str) -> None:
        """With the lock: a write failed. A peer that closed after its last samples does that too.

        What it sent before has arrived, and the system gives it to readers still.
        """
        if self._draining is not None:
            self._end(reason)  # nothing is read any more
        elif self._ending is None and self._broken is None:
            self._broken = reason
            self._queue.clear()
            self._queued_len = 0
            self._soon(self._read_rest)

    def _read_rest(self) -> None:
        self._poller.unregister(self._fd)  # it would be ready for ever
        self._readable()

    def _end_now(self, reason: str) -> None:
        with self._lock:
            self._end(reason)

    def _end(self, reason: str) -> None:
        """With the lock: the end is certain; the rest happens on the poller, on its own."""
        if self._ending is None:
            self._ending = reason
            self._soon(self._teardown)

    def _soon(self, call: Callback) -> None:
        try:
            self._poller.call_soon_threadsafe(call)
        except ClosedError:
            if call in (self._teardown, self._read_rest):
                self._give_up()  # no loop is left to tell

    def _teardown(self) -> None:
        self._poller.unregister(self._fd)
        with self._lock:
            if self._closed:
                return
            self._give_up()
        self._on_closed(self._ending or CLOSED_HERE)

    def _give_up(self) -> None:
        self._closed = True
        self._queue.clear()
        self._queued_len = 0
        self.on_data = _ignore  # with it goes all that the link was for
        self.link.close()


def _ignore(data: bytes, now_ns: int) -> int:
    return 0


def _after(buffers: Sequence[Buffer], taken: int) -> list[Buffer]:
    """What remains of buffers when so many octets are gone from their front; no empty ones."""
    for index, buffer in enumerate(buffers):
        length = len(buffer)
        if taken < length:
            first = memoryview(buffer)[taken:] if taken else buffer
            return [first, *(rest for rest in buffers[index + 1 :] if rest)]
        taken -= length
    return []
