"""What the system holds of a socket's octets because the other end has not taken them yet."""

from __future__ import annotations

from struct import unpack
from typing import Final

try:
    import fcntl
    import termios

    _REQUEST = termios.TIOCOUTQ
except ImportError:  # not on this platform
    _REQUEST = 0

_INT: Final = bytes(4)


def unsent_len(fd: int) -> int:
    """Octets that were written to a descriptor and not acknowledged; 0 where nobody knows."""
    if fd < 0 or not _REQUEST:
        return 0
    try:
        length: int = unpack("i", fcntl.ioctl(fd, _REQUEST, _INT))[0]
    except OSError:
        return 0
    return length
