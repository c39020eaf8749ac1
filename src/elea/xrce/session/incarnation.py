"""Incarnations: does a device that opened again go on, or did it begin anew (8.3, A-14)?

An Open equal to the session's own is a duplicate: networks repeat datagrams late, and some peers
repeat their Open every few seconds. A device that lost power repeats it as well, and numbers its
messages from 0 again. So a duplicate leaves a doubt, until the numbers end it. The expected one
shows that the device goes on; number 0 shows that it does not, unless it is a wrap of the number
space, or an old number 0 that was sent again. A device with a nonce, or a proof with the time, says
it itself.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from elea.xrce.channel.conduits import IncomingConduit, Numbered, is_reliable
from elea.xrce.encode import encode
from elea.xrce.framing import Marked
from elea.xrce.message_records import (
    BatchedData,
    Declare,
    Pull,
    StreamData,
    Synch,
    WriteData,
)

SILENT_NS: Final = 500_000_000  # number 0 of long ago came again, and nothing else
WRAP_NS: Final = 5_000_000_000  # number 0 ahead of what is expected, and nothing in between
HELD_COUNT: Final = 64  # old numbers that came in doubt; more are asked for again

Arrival = tuple[Marked, int]  # a message, and the octets of its frame


class Verdict(Enum):
    """What a message says about its sender."""

    GOES_ON = auto()
    UNDECIDED = auto()
    HELD = auto()  # it is kept until there is a verdict
    ANEW = auto()


class Doubt:
    """What is known since the Open came again.

    An old number that was not asked for is a late copy, or a new message. It is held back, and not
    acknowledged: that would tell a new incarnation that its message has arrived.

    Args:
        copy_ns: For how long copies of a message may be under way.
    """

    __slots__ = ("_ahead", "_copy_ns", "_held", "decide_ns")

    def __init__(self, copy_ns: int) -> None:
        self.decide_ns: int | None = None  # when silence says that the device began anew
        self._copy_ns = copy_ns
        self._held: dict[int, Arrival] = {}  # of one conduit
        # Where number 0 is stored: those before it were lost, or never were.
        self._ahead: IncomingConduit | None = None

    def arrivals(self) -> list[Arrival]:
        """What a device that began anew has said so far."""
        stored = self._ahead.reliable.stored_from(0) if self._ahead is not None else []
        return [*self._held.values(), *stored]

    def judge(
        self, channel: IncomingConduit | None, marked: Marked, length: int, now_ns: int
    ) -> Verdict:
        """Look at a message before it is received."""
        message = marked.message
        if channel is None:
            return Verdict.UNDECIDED
        if isinstance(message, Synch):
            return self._synch(channel, message, now_ns)
        if not isinstance(message, Declare | StreamData | BatchedData | WriteData | Pull):
            return Verdict.UNDECIDED
        serial, receiver = channel.reliable.serial, channel.reliable
        if not is_reliable(message) or message.sn >= serial.modulus:
            return Verdict.UNDECIDED
        ahead = serial.distance(message.sn, receiver.expected_sn)
        if 0 <= ahead < serial.window_max:
            return self._new(channel, message.sn, ahead, now_ns)
        asked_ns = receiver.asked_ns
        if asked_ns is not None and now_ns - asked_ns <= self._copy_ns:
            return Verdict.UNDECIDED  # it was sent again, as we wanted
        return self._old(channel, message, (marked, length), now_ns)

    def _new(self, channel: IncomingConduit, sn: int, ahead: int, now_ns: int) -> Verdict:
        """A number that may come now: a wrap of the number space may be a beginning, too."""
        if sn == 0 and ahead:
            self._ahead, self.decide_ns = channel, now_ns + WRAP_NS
            return Verdict.UNDECIDED
        wraps = self._ahead is channel and channel.reliable.serial.distance(sn, 0) >= 0
        return Verdict.UNDECIDED if wraps else Verdict.GOES_ON

    def _old(
        self, channel: IncomingConduit, message: Numbered, arrival: Arrival, now_ns: int
    ) -> Verdict:
        """A number from before what is expected, which nobody asked for."""
        sn = message.sn
        cold = now_ns - channel.reliable.progress_ns > self._copy_ns
        copied = channel.is_copy(sn, encode(message))
        if sn == 0:
            if not copied:
                return Verdict.ANEW
            if cold:  # equal, as the first message of a device may well be: the next one decides
                self.decide_ns = now_ns + SILENT_NS
        elif sn == 1 and 0 in self._held and (cold or not copied):
            return Verdict.ANEW
        if len(self._held) < HELD_COUNT:
            self._held[sn] = arrival
        return Verdict.HELD

    def _synch(self, channel: IncomingConduit, message: Synch, now_ns: int) -> Verdict:
        serial, receiver = channel.reliable.serial, channel.reliable
        if not message.reliable or message.sn >= serial.modulus:
            return Verdict.UNDECIDED
        count = message.count or 0
        first = serial.after(message.sn, -count)
        if self._ahead is channel:  # what is not acknowledged begins at what we expect, or is new
            behind = serial.distance(first, receiver.expected_sn) <= 0
            return Verdict.GOES_ON if behind else Verdict.ANEW
        if receiver.is_restart(message.sn, now_ns):
            return Verdict.ANEW
        if 0 <= serial.distance(receiver.expected_sn, first) <= count:
            # Nothing new is acknowledged meanwhile, so that all of it would begin at 0.
            if first != 0:
                return Verdict.GOES_ON
            if 0 in self._held:  # a copy: our answers were lost, and this is another one
                self.decide_ns = None
                return Verdict.UNDECIDED
        if not self._held:
            return Verdict.UNDECIDED
        cold = now_ns - receiver.progress_ns > self._copy_ns
        if any(0 <= serial.distance(sn, first) < count for sn in self._held):
            return Verdict.ANEW if cold else Verdict.UNDECIDED
        known = serial.distance(message.sn, receiver.expected_sn) >= 0
        return Verdict.GOES_ON if known else Verdict.UNDECIDED
