"""Two ends of a link on loopback, turned by hand: every wait is bounded and none sleeps."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.link.line import Line

from elea.errors import LinkError
from elea.link.base import READ, WRITE, Link, Listener, PendingLink, Scheme
from elea.link.settings import LinkSettings
from elea.locator import Endpoint

PATIENCE_S = 20.0  # for what takes milliseconds; only a hang gets here


@dataclass(frozen=True)
class Case:
    """One scheme as the suite runs it."""

    name: str
    scheme: Scheme
    listen: Callable[[Path], str]
    settings: LinkSettings = field(default_factory=LinkSettings)
    connect: Callable[[str], str] = str  # from the listener's locator to what is dialled
    hello: bytes = b""  # what a datagram listener must hear before there is a link
    line: bool = False  # over a serial line; its paths stand where the others have none

    def __str__(self) -> str:
        return self.name


@dataclass
class Rig:
    """A listener and whatever was connected to it."""

    case: Case
    folder: Path
    closing: list[Link | PendingLink | Listener | Line] = field(default_factory=list)
    line: Line | None = None

    def listen(self) -> Listener:
        where = self.case.listen(self.folder)
        if self.case.line:
            self.line = Line()
            self.closing.append(self.line)
            where = where.format(self.line.far)
        endpoint = Endpoint.parse(where)
        [address, *_] = self.case.scheme.resolve(endpoint, listening=True)
        listener = self.case.scheme.listen(endpoint, address, self.case.settings)
        self.closing.append(listener)
        return listener

    def dial(self, listener: Listener, settings: LinkSettings | None = None) -> PendingLink:
        where = self.case.connect(str(listener.locator))
        endpoint = Endpoint.parse(where if self.line is None else where.format(self.line.near))
        [address, *_] = self.case.scheme.resolve(endpoint, listening=False)
        made = self.case.scheme.connect(endpoint, address, settings or self.case.settings)
        self.closing.append(made)
        return made

    def pair(self) -> Pair:
        listener = self.listen()
        near, far = self.meet(listener, self.dial(listener))
        return Pair(self, listener, near, far)

    def meet(self, listener: Listener, dialled: PendingLink) -> tuple[Link, Link]:
        """Both ends of a connection, once both have them."""
        near: Link | None = None
        far: Link | None = None
        accepted: PendingLink | None = None
        for _ in turns():
            if near is None:
                near = dialled.step()
                if near is not None:
                    self.closing.append(near)
                    if self.case.hello:
                        assert near.write([self.case.hello]) == len(self.case.hello)
            if accepted is None:
                accepted = listener.accept()
            elif far is None:
                far = accepted.step()
            if near is not None and far is not None:
                self.closing.append(far)
                return near, far
            watched: list[PendingLink | Listener] = [dialled, listener]
            if accepted is not None:
                watched.append(accepted)
            wait([(one.fileno(), one.wants()) for one in watched])
        raise AssertionError("no connection")

    def close(self) -> None:
        for one in reversed(self.closing):
            with suppress(LinkError):
                one.close()


@dataclass
class Pair:
    """Two connected ends: `near` dialled, `far` was accepted."""

    rig: Rig
    listener: Listener
    near: Link
    far: Link

    def turn(self, *writing: Link) -> None:
        """Wait until something can go on, and let the listener hand over what came in."""
        watched = [(one.fileno(), one.wants(one in writing)) for one in (self.near, self.far)]
        wait([*watched, (self.listener.fileno(), self.listener.wants())])
        for one in (self.near, self.far):
            if one.wants(False) & WRITE:
                one.write([])  # what the link itself holds
        if self.far.fileno() < 0:
            self.listener.accept()  # where one socket serves all, this is what feeds the links

    def read(self, link: Link, length: int) -> bytes:
        """That many octets, or fewer if the end comes first."""
        got = bytearray()
        while len(got) < length:
            data = self.next(link)
            if not data:
                break
            got += data
        return bytes(got)

    def next(self, link: Link) -> bytes:
        """What one read gives, as soon as it gives something."""
        for _ in turns():
            data = link.read(65_536)
            if data is not None:
                return data
            self.turn()
        raise AssertionError("nothing arrived")

    def write(self, link: Link, data: bytes) -> None:
        """All of it."""
        left = memoryview(data)
        for _ in turns():
            left = left[link.write([left]) :]
            if not left:
                return
            self.turn(link)
        raise AssertionError("nothing was taken")


def turns() -> Iterator[None]:
    """Again and again, until patience ends."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        yield


def wait(watched: list[tuple[int, int]]) -> None:
    """Until one of these descriptors is ready; shortly, as some links have none."""
    poll = select.poll()
    for fd, wants in watched:
        if fd >= 0:
            mask = (select.POLLIN if wants & READ else 0) | (select.POLLOUT if wants & WRITE else 0)
            poll.register(fd, mask)
    poll.poll(20)
