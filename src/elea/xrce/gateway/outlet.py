"""The way to one device: what its window does not take waits here, in order (12.3, 19.2).

A device that takes batches gets samples of one id that are ready together in one message (12.1):
they are held until `release`, or until something else is to be sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from elea.limits import Limits
from elea.xrce.batches import Batch
from elea.xrce.channel.conduits import Numbered
from elea.xrce.channel.serial import Serial
from elea.xrce.closing import CloseReason, violation
from elea.xrce.declaration_records import Declaration
from elea.xrce.encode import encode
from elea.xrce.fragments import slices
from elea.xrce.message_records import (
    Declare,
    Frag,
    StreamData,
    WriteData,
)
from elea.xrce.names import Resource, Style
from elea.xrce.samples.sample import Sample

NAMED_AFTER: Final = 3  # samples with a full name; then the name gets an id
_LETTER_LEN: Final = 32  # what one that waits takes besides its octets
NAMES_COUNT: Final = 1_024  # names without an id that are counted


class Way(Protocol):
    """How messages reach a device."""

    def send(
        self,
        make: Callable[[int], Numbered],
        now_ns: int,
        *,
        fragment: Callable[[int], Frag] | None = None,
    ) -> bool:
        """Send a message; False if the window of the reliable channel is full."""

    def reads_fragments(self) -> bool:
        """Whether the device reads fragments."""


@dataclass(slots=True)
class _Letter:
    make: Callable[[int], Numbered]
    fragment: Callable[[int], Frag] | None
    length: int


_NO_LETTERS: Final[list[_Letter]] = []  # shared by all without, and never changed


class Outlet:
    """Messages to one device.

    Args:
        way: How they leave.
        bits: The length of sequence numbers.
        frame_len: The longest frame that the device takes.
        message_len: The longest payload that it puts together from fragments, if it says so.
        named: Whether names are given ids, which a device of another vendor may not follow.
        batches: Whether it reads batches.
    """

    __slots__ = (
        "_batch",
        "_frame_len",
        "_letters",
        "_limits",
        "_message_len",
        "_serial",
        "_unnamed",
        "_waiting_len",
        "_way",
        "is_named",
        "sent_count",
        "style",
        "too_long_count",
        "uses_prids",
    )

    def __init__(
        self,
        way: Way,
        *,
        bits: int,
        frame_len: int,
        batches: bool,
        named: bool,
        message_len: int | None,
        limits: Limits,
    ) -> None:
        self.style = Style.XRCE
        self.uses_prids = named  # the ids of resources say something to the device
        self.too_long_count = 0  # samples that no frame takes, or the device cannot keep
        self.sent_count = 0
        self._way = way
        self._serial = Serial.of(bits)
        self._frame_len = frame_len
        self.is_named = named  # whether names are given ids
        self._message_len = message_len
        self._batch = Batch(frame_len, self._serial) if batches else None
        self._limits = limits
        self._letters = _NO_LETTERS  # short: a deque takes 760 octets, for each device
        self._waiting_len = 0
        self._unnamed: OrderedDict[str, int] | None = None  # samples sent by name

    @property
    def is_clear(self) -> bool:
        """Whether nothing waits."""
        return not self._letters

    @property
    def is_holding(self) -> bool:
        """Whether samples wait for others."""
        return bool(self._batch)

    @property
    def is_pressed(self) -> bool:
        """Whether so much waits that others should not write more."""
        count_max, len_max = self._limits.xrce_outbox_count, self._limits.xrce_outbox_len
        return 2 * len(self._letters) >= count_max or 2 * self._waiting_len >= len_max

    def release(self, now_ns: int) -> None:
        """Send the samples that wait for others."""
        if self._batch:
            reliable = self._batch.reliable
            self._post(self._batch.take(), now_ns, reliable=reliable)

    def flush(self, now_ns: int) -> bool:
        """Send what waits; whether all of it could be sent."""
        while self._letters:
            letter = self._letters[0]
            if not self._way.send(letter.make, now_ns, fragment=letter.fragment):
                return False
            self._letters.pop(0)
            self._waiting_len -= letter.length
        return True

    def fits(self, declarations: tuple[Declaration, ...]) -> bool:
        """Whether declarations go into one frame."""
        last_sn = self._serial.modulus - 1
        said = Declare(sync=False, committed=False, sn=last_sn, declarations=declarations)
        return len(encode(said)) <= self._frame_len

    def declare(
        self, declarations: tuple[Declaration, ...], now_ns: int, *, committed: bool = False
    ) -> None:
        """Send declarations."""
        self.release(now_ns)
        self._post(
            lambda sn: Declare(sync=False, committed=committed, sn=sn, declarations=declarations),
            now_ns,
        )

    def sample(
        self,
        id_: int,
        sample: Sample,
        now_ns: int,
        *,
        wild: bool,
        reliable: bool,
        rid: int | None = None,
    ) -> str | None:
        """Send a sample for a subscriber; the name that deserves an id by now, if it has none.

        `rid` is the id of its resource, for a subscriber of a pattern.

        Raises:
            RemoteProtocolError: More waits than may; the session is to end with reason 3.
        """
        name = None
        message: StreamData | WriteData
        if wild and rid is None:
            name = Resource(sample.path).spelled(self.style).encode()
            message = WriteData(
                reliable=reliable, sync=False, sn=0, resource=name, payload=sample.payload
            )
        else:
            message = StreamData(
                reliable=reliable, sync=False, sn=0, id=id_, prid=rid, payload=sample.payload
            )
        self._data(message, now_ns)
        often = name is not None and self.is_named and self._counted(sample.path)
        return sample.path if often else None

    def end_of_pull(self, id_: int, now_ns: int) -> None:
        """Say that a Pull has all that there is (A-26)."""
        self._data(StreamData(reliable=True, sync=False, sn=0, id=id_, prid=0, payload=b""), now_ns)

    def _data(self, message: StreamData | WriteData, now_ns: int) -> None:
        if self._holds(message, now_ns):
            return
        self.release(now_ns)
        cut = slices(message, self._frame_len, self._serial, fragments=self._way.reads_fragments())
        # One that the device cannot keep would end its session.
        long = self._message_len is not None and len(message.payload) > self._message_len
        if not cut or (long and len(cut) > 1):
            self.too_long_count += 1
            return
        self._check_room(message)
        self.sent_count += 1
        for one in cut:
            self._post(one.make, now_ns, fragment=one.marker, reliable=message.reliable)

    def _holds(self, message: StreamData | WriteData, now_ns: int) -> bool:
        """Whether a sample is held, for others or behind others that are."""
        if self._batch is None or not isinstance(message, StreamData) or message.prid == 0:
            return False
        self._check_room(message)
        if not self._batch.takes(message):
            self.release(now_ns)
            if not self._batch.takes(message):
                return False
        self._batch.add(message)
        self.sent_count += 1
        return True

    def _post(
        self,
        make: Callable[[int], Numbered],
        now_ns: int,
        *,
        fragment: Callable[[int], Frag] | None = None,
        reliable: bool = True,
    ) -> None:
        if not reliable:
            self._way.send(make, now_ns, fragment=fragment)
            return
        if not self._letters and self._way.send(make, now_ns, fragment=fragment):
            return
        length = _LETTER_LEN + len(encode(make(0)))
        self._letters = self._letters or []
        self._letters.append(_Letter(make, fragment, length))
        self._waiting_len += length

    def _check_room(self, message: StreamData | WriteData) -> None:
        """One sample may always wait, however many fragments it has."""
        limits = self._limits
        if (
            message.reliable
            and self._letters
            and (
                len(self._letters) >= limits.xrce_outbox_count
                or self._waiting_len + len(message.payload) > limits.xrce_outbox_len
            )
        ):
            text = f"{len(self._letters)} messages wait, and {self._waiting_len} octets"
            raise violation(CloseReason.RESOURCES, text)

    def _counted(self, path: str) -> bool:
        unnamed = self._unnamed = OrderedDict() if self._unnamed is None else self._unnamed
        count = unnamed.pop(path, 0) + 1
        unnamed[path] = count
        if len(unnamed) > NAMES_COUNT:
            unnamed.popitem(last=False)
        return count == NAMED_AFTER + 1
