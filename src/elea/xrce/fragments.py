"""Fragments: a payload too long for one frame, cut and put together again (14).

Only StreamData and WriteData have fragments. Each is a whole message with a slice of the payload,
behind a Frag marker that names the first of them and says how many there are. A channel carries one
series at a time, so what is collected is bounded per channel and per session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from elea.errors import InvalidValueError
from elea.xrce.channel.serial import Serial
from elea.xrce.closing import CloseReason, violation
from elea.xrce.encode import encode
from elea.xrce.framing import Marked
from elea.xrce.message_records import Frag, StreamData, WriteData
from elea.xrce.properties import nat

Fragmentable: TypeAlias = StreamData | WriteData


@dataclass(slots=True, frozen=True)
class Slice:
    """One fragment: to be sent with the sequence number after the one before."""

    make: Callable[[int], Fragmentable]
    marker: Callable[[int], Frag] | None


def slices(
    message: Fragmentable, frame_len: int, serial: Serial, *, fragments: bool = True
) -> list[Slice]:
    """A message on conduit 0: whole if it fits, else cut, if the peer reads fragments.

    Returns:
        Nothing if it cannot be sent in frames of that length.
    """
    whole = _with(message, message.payload)
    if len(encode(whole(serial.modulus - 1))) <= frame_len:
        return [Slice(whole, None)]
    try:
        return cut(message, frame_len, serial) if fragments else []
    except InvalidValueError:
        return []


def cut(message: Fragmentable, frame_len: int, serial: Serial) -> list[Slice]:
    """The fragments of a message, or the message alone if it fits a frame.

    The sequence number of `message` does not matter; each slice gets its own. All are to be sent
    one after the other, with nothing else of their channel in between.

    Raises:
        InvalidValueError: The frames are too short for any payload, or it would take more fragments
            than there are sequence numbers to tell apart.
    """
    payload, last_sn = message.payload, serial.modulus - 1
    whole = _with(message, payload)
    if len(encode(whole(last_sn))) <= frame_len:
        return [Slice(whole, None)]
    bare_len = len(encode(_with(message, b"")(last_sn)))
    digits, count = 0, 1
    while count >= 128**digits:  # the marker says how many, in as many octets as that takes
        digits += 1
        marker = Frag(sn_base=last_sn, n=128**digits - 1)
        room = _payload_room(frame_len - bare_len - len(encode(marker)))
        if room < 1:
            needed = bare_len + len(encode(marker)) + 1
            raise InvalidValueError("frame length", f"{frame_len}; fragments need {needed} octets")
        count = -(-len(payload) // room)
    if count > serial.window_max:
        text = f"{len(payload)} octets are {count} fragments, at most {serial.window_max} are legal"
        raise InvalidValueError("payload", text)
    return [
        Slice(_with(message, payload[at * room : (at + 1) * room]), _marker(serial, at, count))
        for at in range(count)
    ]


def _payload_room(free_len: int) -> int:
    """How many octets of payload fit, if the first octet of their count has its place already."""
    room = free_len
    while room > 0 and room + len(nat(room)) - 1 > free_len:
        room -= 1
    return room


def _marker(serial: Serial, at: int, count: int) -> Callable[[int], Frag]:
    return lambda sn: Frag(sn_base=serial.after(sn, -at), n=count)


def _with(message: Fragmentable, payload: bytes) -> Callable[[int], Fragmentable]:
    if isinstance(message, StreamData):
        return lambda sn: StreamData(
            reliable=message.reliable,
            sync=message.sync,
            sn=sn,
            id=message.id,
            prid=message.prid,
            payload=payload,
        )
    return lambda sn: WriteData(
        reliable=message.reliable,
        sync=message.sync,
        sn=sn,
        resource=message.resource,
        payload=payload,
    )


@dataclass(slots=True)
class _Series:
    """Fragments of one message, in order so far."""

    base_sn: int
    count: int | None  # None: the first message that is not part of it ends it
    first: Fragmentable
    slices: list[bytes] = field(default_factory=list)
    length: int = 0
    broken: bool = False  # the rest is taken, and dropped
    begun_ns: int = 0


class Reassembly:
    """All series of one session. It is told every message that channels deliver, in their order.

    If it is strict, a reliable series that is too long is a violation; if not, it is dropped.
    """

    __slots__ = (
        "_idle_ns",
        "_kept_len",
        "_lost",
        "_message_len",
        "_serial",
        "_series",
        "_session_len",
        "_strict",
        "dropped_count",
        "unneeded_count",
    )

    def __init__(
        self,
        serial: Serial,
        *,
        message_len: int,
        session_len: int,
        idle_ns: int,
        strict: bool = True,
    ) -> None:
        self.dropped_count = 0
        self.unneeded_count = 0  # series of one
        self._serial = serial
        self._strict = strict
        self._message_len = message_len
        self._session_len = session_len
        self._idle_ns = idle_ns
        self._series: dict[tuple[int, bool], _Series] = {}  # by conduit and channel
        self._lost: dict[tuple[int, bool], int] = {}  # the series dropped last, counted once
        self._kept_len = 0

    def receive(self, marked: Marked, now_ns: int) -> list[Marked]:
        """A message of a channel; what is whole now, in order.

        Raises:
            RemoteProtocolError: A number is outside of its series (reason 255), or a reliable
                series is longer than may be kept (reason 3).
        """
        message = marked.message
        if not isinstance(message, StreamData | WriteData):
            return [marked]
        channel = marked.conduit, message.reliable
        series = self._series.get(channel)
        if series is not None and now_ns - series.begun_ns > self._idle_ns:
            self._drop(channel)
            series = None
        whole: list[Marked] = []
        if series is not None and not self._continues(series, marked, message):
            whole = self._end(channel, series, message.sn, marked.fragment)
            series = None
        if marked.fragment is None:
            return [*whole, marked]
        if series is None:
            series = self._begin(channel, marked.fragment, message, now_ns)
            if series is None:  # the middle of a series whose beginning was lost
                return whole
        series.begun_ns = now_ns
        kept = self._add(channel, series, message)
        if kept and series.count is not None and len(series.slices) == series.count:
            whole += self._finish(channel)
        return whole

    def synch(self, conduit: int, sn: int, *, reliable: bool) -> list[Marked]:
        """The peer says which number comes next: it may end a series that did not say how long."""
        channel = conduit, reliable
        series = self._series.get(channel)
        if series is None or series.count is not None:
            return []
        if self._place(series, sn) != len(series.slices):
            return []
        return self._finish(channel)

    def _begin(
        self, channel: tuple[int, bool], fragment: Frag, message: Fragmentable, now_ns: int
    ) -> _Series | None:
        base_sn, count = self._serial.check(fragment.sn_base), fragment.n
        place = self._serial.distance(message.sn, base_sn)
        if place < 0 or (count is not None and place >= count):
            text = f"sequence number {message.sn} in a series of {count} from {base_sn}"
            raise violation(CloseReason.GENERIC, text)
        if place > 0:
            if self._lost.get(channel) != base_sn:
                self._lost[channel] = base_sn
                self.dropped_count += 1
            return None
        series = _Series(base_sn, count, message, begun_ns=now_ns)
        if count == 1:
            self.unneeded_count += 1
        self._series[channel] = series
        return series

    def _continues(self, series: _Series, marked: Marked, message: Fragmentable) -> bool:
        if marked.fragment is None or marked.fragment.sn_base != series.base_sn:
            return False
        return self._place(series, message.sn) == len(series.slices)

    def _add(self, channel: tuple[int, bool], series: _Series, message: Fragmentable) -> bool:
        first_len = len(series.slices[0]) if series.slices else len(message.payload)
        last = series.count is not None and len(series.slices) == series.count - 1
        uneven = len(message.payload) != first_len and not (
            (last or series.count is None) and len(message.payload) <= first_len
        )
        if uneven or not _same(series.first, message):
            series.broken = True
        series.length += len(message.payload)
        self._kept_len += 0 if series.broken else len(message.payload)
        series.slices.append(b"" if series.broken else message.payload)
        if series.length <= self._message_len and self._kept_len <= self._session_len:
            return True
        self._drop(channel)
        if message.reliable and self._strict:
            text = f"fragments of {series.length} octets; at most {self._message_len} are kept"
            raise violation(CloseReason.RESOURCES, text)
        return False

    def _end(
        self, channel: tuple[int, bool], series: _Series, sn: int, fragment: Frag | None
    ) -> list[Marked]:
        """The next message is not part of the series: it ends there, or something is missing."""
        other = fragment is None or fragment.sn_base != series.base_sn
        if series.count is None and other and self._place(series, sn) == len(series.slices):
            return self._finish(channel)
        self._drop(channel)
        return []

    def _finish(self, channel: tuple[int, bool]) -> list[Marked]:
        series = self._take(channel)
        if series.broken:
            self.dropped_count += 1
            return []
        make = _with(series.first, b"".join(series.slices))
        last_sn = self._serial.after(series.base_sn, len(series.slices) - 1)
        return [Marked(make(last_sn), conduit=channel[0])]

    def _drop(self, channel: tuple[int, bool]) -> None:
        self.dropped_count += 1
        self._lost[channel] = self._take(channel).base_sn

    def _take(self, channel: tuple[int, bool]) -> _Series:
        series = self._series.pop(channel)
        self._kept_len -= sum(len(one) for one in series.slices)
        return series

    def _place(self, series: _Series, sn: int) -> int:
        return self._serial.distance(sn, series.base_sn)


def _same(first: Fragmentable, other: Fragmentable) -> bool:
    """Whether two fragments are of one message: same kind, same id or name."""
    if isinstance(first, StreamData) and isinstance(other, StreamData):
        return first.id == other.id and first.prid == other.prid
    if isinstance(first, WriteData) and isinstance(other, WriteData):
        return first.resource == other.resource
    return False
