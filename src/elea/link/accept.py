"""AcceptLoop: one listener on a poller, from the newcomer to the link.

The loop never sleeps and never waits for anybody: handshakes go on beside it, each with its ticket
and its deadline.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final

from elea.errors import ClosedError, LinkError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.admission import Admission, Ticket
from elea.link.base import Callback, Link, Listener, Lossy, PendingLink, Timed
from elea.link.guests import GuestError
from elea.link.poller import Poller
from elea.link.timers import Timer, Timers
from elea.node.stats import Refusal

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RECOVERY_NS: Final = 100_000_000  # without descriptors: let others close some, then look again

OnLink = Callable[[Link, Ticket], None]
OnFailure = Callable[[str, LinkError], None]


class AcceptLoop:
    """Takes newcomers and hands over their links, on the poller.

    Args:
        listener: owned from here on.
        poller: the loop.
        timers: of that loop.
        admission: shared by all listeners of a node.
        on_link: given a link whose own handshake is done, and its ticket. The ticket is settled by
            the receiver when the session is open or the link is lost; until then the deadline runs
            and it can be evicted, so the receiver replaces its `on_evicted`.
        on_failure: told of newcomers that came to nothing: who, and why.
        limits: of newcomers per turn, and the time of a whole handshake.
        clock: the monotonic time.
    """

    def __init__(
        self,
        listener: Listener,
        poller: Poller,
        timers: Timers,
        admission: Admission,
        *,
        on_link: OnLink,
        on_failure: OnFailure,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.listener = listener
        self._poller = poller
        self._timers = timers
        self._admission = admission
        self._on_link = on_link
        self._on_failure = on_failure
        self._limits = limits
        self._clock = clock
        self._fd = listener.fileno()
        self._handshakes: set[_Handshake] = set()
        self._resting = False
        self._closed = False

    def start(self) -> None:
        """Begin to listen."""
        self.listener.notify(self._watch)
        if isinstance(self.listener, Timed):
            self.listener.use_timer(self._later)
        if isinstance(self.listener, Lossy):
            self.listener.on_dropped = self._dropped
        self._register()

    def close(self) -> None:
        """Listen no more; call it on the poller. Handshakes are ended, links are not."""
        if self._closed:
            return
        self._closed = True
        self._poller.unregister(self._fd)
        self.listener.close()
        for handshake in list(self._handshakes):
            handshake.ticket.evict("the listener was closed")

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptors and tell nobody."""
        self._closed = True
        self.listener.abort()
        for handshake in self._handshakes:
            handshake.pending.close()

    def _readable(self) -> None:
        for _ in range(self._limits.accept_turn_count):
            try:
                pending = self.listener.accept()
            except LinkError as error:
                self._on_failure(str(self.listener.locator), error)
                if isinstance(error.__cause__, OSError) and error.__cause__.errno in _EXHAUSTED:
                    self._rest()
                return
            if pending is None or self._closed:
                return
            self._begin(pending)

    def _begin(self, pending: PendingLink) -> None:
        handshake = _Handshake(self, pending)
        self._handshakes.add(handshake)
        # Before the first step: it may be pushed out by the very next newcomer.
        handshake.ticket = self._admission.admit(pending.source, handshake.evicted)
        deadline_ns = self._clock() + self._limits.accept_handshake_ns
        try:
            handshake.timer = self._timers.call_at(deadline_ns, handshake.late)
        except ClosedError:
            self._refuse_late(handshake)
            return
        if self._timers.stopped:
            self._refuse_late(handshake)
            return
        handshake.step()

    def _refuse_late(self, handshake: _Handshake) -> None:
        """The loop is being stopped: close a link that came too late."""
        self._handshakes.discard(handshake)
        handshake.pending.close()

    def _rest(self) -> None:
        self._resting = True
        self._poller.modify(self._fd, 0)
        self._timers.call_at(self._clock() + _RECOVERY_NS, self._rested)

    def _rested(self) -> None:
        self._resting = False
        self._watch()

    def _watch(self) -> None:
        if self._closed:
            return
        if self._fd != self.listener.fileno():
            self._poller.unregister(self._fd)
            self._fd = self.listener.fileno()
            self._register()
        elif not self._resting:
            self._poller.modify(self._fd, self.listener.wants())

    def _register(self) -> None:
        if self._fd >= 0:
            self._poller.register(
                self._fd, self._readable, self.listener.writable, self.listener.wants()
            )

    def _later(self, delay_ns: int, call: Callback) -> Timer:
        return self._timers.call_at(self._clock() + delay_ns, call)

    def _dropped(self, count: int) -> None:
        self._admission.stats.refuse(Refusal.LINE, count)

    def _done(self, handshake: _Handshake, link: Link) -> None:
        self._handshakes.discard(handshake)
        self._on_link(link, handshake.ticket)

    def _failed(self, handshake: _Handshake, error: LinkError) -> None:
        self._handshakes.discard(handshake)
        self._on_failure(handshake.pending.source, error)


class _Handshake:
    """A newcomer on the poller until there is a link."""

    __slots__ = ("_fd", "_loop", "pending", "ticket", "timer")

    def __init__(self, loop: AcceptLoop, pending: PendingLink) -> None:
        self._loop = loop
        self._fd = -1  # the descriptor that is watched
        self.pending = pending
        self.ticket: Ticket
        self.timer: Timer

    def step(self) -> None:
        try:
            link = self.pending.step()
        except GuestError as guest:
            self._hand_over(guest)
            return
        except LinkError as error:
            self._give_up()
            self.ticket.fail()
            self._loop._failed(self, error)
            return
        poller = self._loop._poller
        if link is None:
            fd = self.pending.fileno()
            if self._fd < 0:
                self._fd = fd
                poller.register(fd, self.step, self.step, self.pending.wants())
            else:
                poller.modify(fd, self.pending.wants())
            return
        self._stop_watching()
        # From here on the receiver ends it; the deadline stays until the ticket is settled.
        self.ticket.on_evicted = lambda reason: link.close()
        self._loop._done(self, link)

    def _hand_over(self, guest: GuestError) -> None:
        self.timer.cancel()
        self._stop_watching()
        self.ticket.settle()
        self._loop._handshakes.discard(self)
        guest.take()

    def evicted(self, reason: str) -> None:
        self._give_up()
        self._loop._failed(self, LinkError(f"handshake with {self.pending.source}: {reason}"))

    def late(self) -> None:
        seconds = self._loop._limits.accept_handshake_ns / 1e9
        self.ticket.evict(f"it took longer than {seconds:g} s")

    def _give_up(self) -> None:
        self.timer.cancel()
        self._stop_watching()
        self.pending.close()

    def _stop_watching(self) -> None:
        if self._fd >= 0:
            self._loop._poller.unregister(self._fd)
            self._fd = -1
