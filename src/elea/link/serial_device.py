"""A serial device by termios: what an endpoint says of it, and its bytes."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
from contextlib import suppress
from typing import Final, Self

from elea.errors import ConfigError
from elea.link.settings import flag_option, int_option
from elea.locator import Endpoint
from elea.records import dataclass

_READ_LEN: Final = 4_096  # what the system keeps of a line
_CLOSE_S: Final = 1.0  # of unsent bytes on the line; closing waits in the kernel until they are out
_INT: Final = struct.Struct("i")

# As Eclipse has them.
_BAUDRATE: Final = 9_600
_TOUT_US: Final = 250_000  # as zenoh-pico; Eclipse's listener takes 100 ms until it listens again

ADVICE: Final = {
    errno.ENOENT: "no such device; plug it in or check the path, /dev/serial/by-id lists adapters",
    errno.ENODEV: "no such device; plug it in or check the path, /dev/serial/by-id lists adapters",
    errno.ENXIO: "nothing is behind that device; plug it in, /dev/serial/by-id lists adapters",
    errno.EACCES: "not permitted; add the user to the group of the device, often dialout",
    errno.EBUSY: "another program uses it; `fuser -v` with the path names it",
    errno.EAGAIN: "another program uses it; `fuser -v` with the path names it",
    errno.ENOTTY: "it is no serial device; check the path",
    errno.EIO: "the device is gone or was hung up; plug it in again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialOptions:
    """What an endpoint says of its line.

    Example:
        >>> SerialOptions.of(Endpoint.parse("serial//dev/ttyUSB0#baudrate=115200")).baudrate
        115200
    """

    baudrate: int = _BAUDRATE
    exclusive: bool = True
    tout_ns: int = _TOUT_US * 1_000

    @classmethod
    def of(cls, endpoint: Endpoint) -> Self:
        """The options of an endpoint.

        Raises:
            ConfigError: if one has no legal value, or the system knows no such speed.
        """
        baudrate = int_option(endpoint, "baudrate")
        exclusive = flag_option(endpoint, "exclusive")
        tout_us = int_option(endpoint, "tout")
        baudrate = _BAUDRATE if baudrate is None else baudrate
        if _speed(baudrate) is None:
            known = ", ".join(map(str, _speeds()))
            raise ConfigError(f"{endpoint}", f"baudrate is one of {known}, saw {baudrate}")
        return cls(
            baudrate=baudrate,
            exclusive=True if exclusive is None else exclusive,
            tout_ns=(_TOUT_US if tout_us is None else tout_us) * 1_000,
        )


class SerialDevice:
    """An open device: 8 data bits, no parity, 1 stop bit, no flow control, nothing translated.

    Args:
        path: Of the device.
        options: Of the endpoint.

    Raises:
        OSError: if it cannot be opened, is no serial device, or is in use.
    """

    def __init__(self, path: str, options: SerialOptions) -> None:
        self._baudrate = options.baudrate
        self._exclusive = options.exclusive
        self.has_failed = False
        self._fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if options.exclusive:
                # Other users of flock keep out, and by TIOCEXCL everybody but root.
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._configure()
            if options.exclusive:
                fcntl.ioctl(self._fd, termios.TIOCEXCL)
        except termios.error as error:  # which is no OSError
            os.close(self._fd)
            raise OSError(*error.args) from error
        except OSError:
            os.close(self._fd)
            raise

    def _configure(self) -> None:
        attributes = termios.tcgetattr(self._fd)
        control = attributes[6]
        control[termios.VMIN] = 1  # so that nothing to read is EAGAIN, and b"" a hang-up
        control[termios.VTIME] = 0
        cflag = attributes[2] & termios.HUPCL
        speed = _speed(self._baudrate)
        cflag |= termios.CS8 | termios.CREAD | termios.CLOCAL
        termios.tcsetattr(self._fd, termios.TCSANOW, [0, 0, cflag, 0, speed, speed, control])
        termios.tcflush(self._fd, termios.TCIOFLUSH)

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes | None:
        """What has arrived; None if nothing has, b"" if the line was hung up.

        Raises:
            OSError: if the device is gone.
        """
        try:
            data = os.read(self._fd, _READ_LEN)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            self.has_failed = True
            raise
        self.has_failed = not data
        return data

    def send(self, data: bytes) -> int:
        """How many bytes were taken.

        Raises:
            OSError: if there is no room now, or the device is gone.
        """
        try:
            return os.write(self._fd, data)
        except (BlockingIOError, InterruptedError):
            raise
        except OSError:
            self.has_failed = True
            raise

    def close(self) -> None:
        """Give the device up. Legal twice."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        with suppress(OSError, termios.error):
            waiting = _INT.unpack(fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(_INT.size)))[0]
            if waiting * 10 > self._baudrate * _CLOSE_S:
                termios.tcflush(fd, termios.TCOFLUSH)
            if self._exclusive:
                fcntl.ioctl(fd, termios.TIOCNXCL)
        os.close(fd)

    def abort(self) -> None:
        """Give up the descriptor and change nothing: the device is the parent's."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _speed(baudrate: int) -> int | None:
    """What termios calls a speed."""
    found = getattr(termios, f"B{baudrate}", None) if baudrate else None
    return found if isinstance(found, int) else None


def _speeds() -> list[int]:
    """The speeds of this system."""
    names = (name[1:] for name in dir(termios) if name[:1] == "B" and name[1:].isdigit())
    return sorted(speed for speed in map(int, names) if speed)
