"""serial: a serial line by termios; one frame is one batch. wire.md 3.5.

The device has one owner at a time: the listener until a conversation begins, then its link, then
the listener again. Only the standard library is needed. The protocol is in `serial_framing`.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from elea.errors import LinkError
from elea.limits import SERIAL_BATCH_LEN_MAX, SERIAL_OFFERED_LEN
from elea.link.address import Address
from elea.link.base import (
    BUFFERED,
    READ,
    WRITE,
    Alarm,
    Buffer,
    Callback,
    Later,
    Link,
    LinkInfo,
    PendingLink,
)
from elea.link.failure import link_error
from elea.link.serial_device import ADVICE, SerialDevice, SerialOptions
from elea.link.serial_framing import RESET, LineState, SerialLine, encode_frame
from elea.link.settings import (
    LinkSettings,
    flag_option,
    priorities_option,
)
from elea.link.stream import Outbox, Ready
from elea.locator import Endpoint

_LOG: Final = logging.getLogger("elea.link")
_NAME: Final = "serial"
_WRITE_LEN: Final = 16 * SERIAL_BATCH_LEN_MAX  # of one call
_DIAL_NS: Final = 1_000_000_000  # after which INIT is sent once more: noise may have spoilt it
_REOPEN_NS: Final = 1_000_000_000  # between attempts to find a device that was unplugged


class Serial:
    """The scheme `serial`; the address is the path of a device."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        return [Address(0, endpoint.address)]

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        return SerialDialling(endpoint, address.host)

    def listen(
        self, endpoint: Endpoint, address: Address, settings: LinkSettings
    ) -> SerialListener:
        return SerialListener(endpoint)


class SerialDialling:
    """A PendingLink: INIT, until the other end answers with INIT and ACK.

    With a timer INIT is sent once more now and then: a line may lose it, or its answer.
    """

    def __init__(self, endpoint: Endpoint, path: str) -> None:
        self._endpoint = endpoint
        self._doing = f"connect to {endpoint.locator()}"
        self._options = SerialOptions.of(endpoint)
        self.source = f"{_NAME} {path}"
        self._line = SerialLine(listens=False)
        self._later: Later | None = None
        self._alarm: Alarm | None = None
        self._device: SerialDevice | None = None
        try:
            self._device = SerialDevice(path, self._options)
            self._outbox = Outbox(self._device.send)
            self._dial()
        except OSError as error:
            self.close()
            raise link_error(self._doing, error, ADVICE) from error

    def use_timer(self, later: Later) -> None:
        self._later = later
        self._wait(_DIAL_NS)

    def fileno(self) -> int:
        return -1 if self._device is None else self._device.fileno()

    def wants(self) -> int:
        return READ | WRITE if self._outbox.unsent else READ

    def step(self) -> Link | None:
        if self._device is None:
            raise LinkError(f"{self._doing}: it was closed")
        try:
            self._outbox.send()
            data = self._device.read()
        except OSError as error:
            raise link_error(self._doing, error, ADVICE) from error
        if data is None:
            return None
        if not data:
            raise LinkError(f"{self._doing}: the line was hung up; is the cable plugged in?")
        batches = self._line.receive(data)
        if self._line.is_over:
            raise LinkError(
                f"{self._doing}: the other end sent INIT, too: the line is looped back, or both"
                " ends connect; let one of them listen"
            )
        if self._line.state is LineState.RESTING:
            self._wait(self._options.tout_ns)
        if self._line.state is not LineState.OPEN:
            return None
        device, self._device = self._device, None
        self.close()  # only the alarm is left
        info = _info(self._endpoint)
        return SerialLink(device, self._line, self._outbox, batches, info, SerialDevice.close)

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._later = None
        if self._device is not None:
            self._device.close()
            self._device = None

    def _dial(self) -> None:
        if not self._outbox.unsent:
            self._line.dial()
        self._outbox.send(self._line.take_output())

    def _wait(self, delay_ns: int) -> None:
        if self._later is None:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._later(delay_ns, self._again)

    def _again(self) -> None:
        if self._device is None:
            return
        with suppress(OSError):  # the next step tells of it
            self._dial()
        self._wait(_DIAL_NS)


class SerialLink:
    """A conversation on a line. Frames that noise spoils are dropped and counted.

    Args:
        device: The line; given to `release` when the link is closed.
        line: The conversation, which is open.
        outbox: What the device has not taken.
        batches: What has come already.
        info: Of the link.
        release: Called once with the device.
    """

    __slots__ = (
        "_device",
        "_dropped_count",
        "_inbox",
        "_line",
        "_lock",
        "_outbox",
        "_release",
        "info",
        "on_dropped",
        "on_recall",
    )

    def __init__(
        self,
        device: SerialDevice,
        line: SerialLine,
        outbox: Outbox,
        batches: list[bytes],
        info: LinkInfo,
        release: Callable[[SerialDevice], None],
    ) -> None:
        self.info = info
        self.on_dropped: Callable[[int], None] = _nothing
        self.on_recall: Callable[[str], None] = _not_recalled
        self._device: SerialDevice | None = device
        self._line = line
        self._outbox = outbox
        self._inbox = deque(batches)
        self._release = release
        self._lock = threading.Lock()  # of the outbox
        self._dropped_count = 0  # that `on_dropped` was told of

    def fileno(self) -> int:
        return -1 if self._device is None else self._device.fileno()

    def wants(self, writing: bool) -> int:
        flags = READ | WRITE if writing or self._outbox.unsent else READ
        return flags | BUFFERED if self._inbox or self._line.is_over else flags

    def read(self, limit: int) -> bytes | None:
        if not (self._inbox or self._line.is_over):
            try:
                data = self._held("read from").read()
                if not data:
                    return data
                self._inbox.extend(self._line.receive(data))
                with self._lock:
                    self._outbox.send(self._line.take_output())
            except LinkError:
                raise
            except OSError as error:
                raise link_error(f"read from {self.info.remote}", error, ADVICE) from error
            self._tell_dropped()
        if self._inbox:
            return self._inbox.popleft()
        if self._line.is_over:  # now: no descriptor tells of it
            raise LinkError(f"read from {self.info.remote}: {_END[self._line.state]}")
        return None

    def write(self, buffers: Sequence[Buffer]) -> int:
        try:
            with self._lock:
                self._held("write to")
                self._outbox.send()
                taken = 0
                for buffer in buffers:
                    if self._outbox.unsent or taken >= _WRITE_LEN:
                        break
                    if len(buffer) > SERIAL_BATCH_LEN_MAX:
                        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
                    if buffer:
                        self._outbox.send(encode_frame(0, bytes(buffer)))
                        taken += len(buffer)
                return taken
        except LinkError:
            raise
        except OSError as error:
            raise link_error(f"write to {self.info.remote}", error, ADVICE) from error

    def recall(self, reason: str) -> None:
        """Tell the other end that the conversation is over, and close the link on its loop."""
        with self._lock, suppress(OSError):
            if self._device is not None:
                self._outbox.send(encode_frame(RESET))
        self.on_recall(reason)

    def part(self) -> bool:
        return False  # a line has no end

    def is_over(self) -> bool:
        return True

    def close(self) -> None:
        with self._lock:
            device, self._device = self._device, None
        if device is not None:
            self._tell_dropped()
            self._release(device)

    def abort(self) -> None:
        if self._device is not None:
            self._device.abort()
            self._device = None

    def _held(self, doing: str) -> SerialDevice:
        if self._device is None:
            raise LinkError(f"{doing} {self.info.remote}: the link is closed")
        return self._device

    def _tell_dropped(self) -> None:
        dropped_count = self._line.dropped_count
        if dropped_count > self._dropped_count:
            self.on_dropped(dropped_count - self._dropped_count)
            self._dropped_count = dropped_count


class SerialListener:
    """A device that waits for INIT; one conversation at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.locator = endpoint.locator()
        self.on_dropped: Callable[[int], None] = _nothing
        self._endpoint = endpoint
        self._options = SerialOptions.of(endpoint)
        self._changed: Callback = _no_change
        self._later: Later | None = None
        self._alarm: Alarm | None = None
        self._lock = threading.Lock()  # of the device: links are closed by any thread
        self._is_closed = False
        self._link: SerialLink | None = None  # that has the device
        self._line = SerialLine(listens=True)
        try:
            self._device: SerialDevice | None = SerialDevice(endpoint.address, self._options)
        except OSError as error:
            raise link_error(f"listen on {self.locator}", error, ADVICE) from error

    def use_timer(self, later: Later) -> None:
        self._later = later

    def fileno(self) -> int:
        """The device; -1 while a link has it, and while it is unplugged."""
        return -1 if self._device is None else self._device.fileno()

    def wants(self) -> int:
        return READ

    def notify(self, changed: Callback) -> None:
        self._changed = changed

    def writable(self) -> None:
        """Nothing of it waits."""

    def reload(self, settings: LinkSettings) -> None:
        """There are no certificates."""

    def recall(self, reason: str) -> None:
        if self._link is not None:
            self._link.recall(reason)

    def accept(self) -> PendingLink | None:
        device, line = self._device, self._line
        if device is None:
            return None
        outbox = Outbox(device.send)
        dropped_count = line.dropped_count
        try:
            data = device.read()
            if data is None:
                return None
            batches = line.receive(data)
            outbox.send(line.take_output())
        except OSError as error:
            self._lose(device, str(link_error(f"listen on {self.locator}", error, ADVICE)))
            return None
        if not data:
            self._lose(device, f"listen on {self.locator}: the line was hung up")
            return None
        if line.dropped_count > dropped_count:
            self.on_dropped(line.dropped_count - dropped_count)
        if line.state is not LineState.OPEN:
            return None
        self._device = None
        self._changed()  # before the link is watched, which has the same descriptor
        info = _info(self._endpoint)
        link = SerialLink(device, line, outbox, batches, info, self._take_back)
        self._link = link
        return Ready(link, f"{_NAME} {self._endpoint.address}")

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            device, self._device = self._device, None
        if self._alarm is not None:
            self._alarm.cancel()
        if device is not None:
            device.close()

    def abort(self) -> None:
        self._is_closed = True
        if self._device is not None:
            self._device.abort()
            self._device = None

    def _take_back(self, device: SerialDevice) -> None:
        """A conversation is over, and the next one may begin."""
        self._link = None
        if device.has_failed:
            self._lose(device, f"listen on {self.locator}: the device is gone or was hung up")
            return
        with self._lock:
            if not self._is_closed:
                self._line = SerialLine(listens=True)
                self._device = device
        if self._device is device:
            self._changed()
        else:
            device.close()

    def _lose(self, device: SerialDevice, why: str) -> None:
        with self._lock:
            self._device = None
        self._changed()
        device.close()
        if not self._is_closed:
            _LOG.warning("%s; looking for it every %g s", why, _REOPEN_NS / 1e9)
            self._look_later()

    def _look_later(self) -> None:
        if self._later is not None and not self._is_closed:
            self._alarm = self._later(_REOPEN_NS, self._look)

    def _look(self) -> None:
        if self._is_closed:
            return
        try:
            device = SerialDevice(self._endpoint.address, self._options)
        except OSError:
            self._look_later()
            return
        _LOG.info("listens at %s again", self.locator)
        self._take_back(device)


_END: Final = {
    LineState.RESTARTED: "the other end began anew; its next INIT is answered",
    LineState.REFUSED: "the other end does not know this conversation (RESET); it was restarted",
    LineState.LOOPED: "the line is looped back",
}


def _info(endpoint: Endpoint) -> LinkInfo:
    device = endpoint.locator()  # of both ends: for logs and rules, the other one has no name
    reliable = flag_option(endpoint, "rel")
    return LinkInfo(
        scheme=_NAME,
        local=device,
        remote=device,
        stream=False,
        reliable=False if reliable is None else reliable,
        batch_len_max=SERIAL_OFFERED_LEN,
        leaves_host=True,
        interfaces=(os.path.basename(endpoint.address),),
        priorities=priorities_option(endpoint),
    )


def _nothing(count: int) -> None:
    """Nobody counts."""


def _not_recalled(reason: str) -> None:
    """Nobody has taken it over."""


def _no_change() -> None:
    """Nobody watches it yet."""
