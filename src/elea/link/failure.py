"""From an operating system's error to a LinkError that says what to do."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from elea.errors import LinkError

_ADVICE: Final = {
    errno.ECONNREFUSED: "nothing listens there; start the other node, or check host and port",
    errno.ECONNRESET: "the other side gave the link up; its log tells why",
    errno.EPIPE: "the other side gave the link up; its log tells why",
    errno.ETIMEDOUT: "no answer; check the address and the firewalls on the way",
    errno.EHOSTUNREACH: "no way to that host; check the address and the routes",
    errno.ENETUNREACH: "no way to that network; check the address and the routes",
    errno.EADDRINUSE: "something listens there already; choose another port, or 0 for a free one",
    errno.EADDRNOTAVAIL: "this host does not have that address; `ip address` lists those it has",
    errno.EACCES: "not permitted; ports under 1024 and foreign paths need rights",
    errno.EPERM: "not permitted; a firewall or missing rights",
    errno.EAGAIN: "the listener's queue is full; try again",
    errno.ENOENT: "no such path; start the listener first, or check the path",
    errno.ENODEV: "no such network interface; `ip link` lists those there are",
    errno.EMFILE: "this process has too many open; raise `ulimit -n`",
    errno.ENFILE: "this system has too many open; raise fs.file-max",
    errno.EAFNOSUPPORT: "this host does not speak that address family",
    errno.EMSGSIZE: "the batch is larger than the link carries",
}


def link_error(doing: str, error: OSError, of_scheme: Mapping[int, str] = _ADVICE) -> LinkError:
    """What failed, why, and what can be done, as the scheme says or as it is for all.

    Example:
        >>> str(link_error("accept", OSError(errno.EMFILE, "Too many files"))).split(": ")
        ['accept', 'Too many files (EMFILE)', 'this process has too many open; raise `ulimit -n`']
    """
    reason = error.strerror or str(error) or type(error).__name__
    code = error.errno or 0
    if code in errno.errorcode:
        reason = f"{reason} ({errno.errorcode[code]})"
    advice = of_scheme.get(code) or _ADVICE.get(code)
    return LinkError(f"{doing}: {reason}: {advice}" if advice else f"{doing}: {reason}")
