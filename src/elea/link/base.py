"""What every link scheme provides, and what is known about a link. behaviour.md 1.1, wire.md 3.1.

A `Scheme` turns an endpoint into addresses, dials one of them, or listens on one. Both sides first
give a `PendingLink`, which is stepped until the `Link` is there: a TCP connection needs one step, a
TLS handshake several. All of them are descriptors that never block; a `Poller` watches them.

On a stream link (`LinkInfo.stream`) octets flow and batches carry their length. On any other link
one buffer is one batch: `write` takes a buffer whole or not at all, `read` gives one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from elea.link.address import Address
from elea.link.settings import LinkSettings
from elea.locator import Endpoint, Locator
from elea.node.ports import LinkInfo as LinkInfo

# What to watch a descriptor for. BUFFERED: octets wait inside the link, no descriptor will tell.
READ: Final = 1
WRITE: Final = 2
BUFFERED: Final = 4

Callback = Callable[[], None]
Buffer = bytes | memoryview


class Link(Protocol):
    """One conversation's octets. `read` and `write` may run in two threads at once."""

    @property
    def info(self) -> LinkInfo: ...

    def fileno(self) -> int:
        """The descriptor to watch; -1 if the link's listener watches it (see `Fed`)."""

    def wants(self, writing: bool) -> int:
        """What to watch for so that reading can go on, and writing if asked: the flags above."""

    def read(self, limit: int) -> bytes | None:
        """Up to `limit` octets of a stream, or one batch; b"" at the end, None if nothing is there.

        Raises:
            LinkError: if the link broke.
        """

    def write(self, buffers: Sequence[Buffer]) -> int:
        """How many octets were taken, from the first buffer on; 0 when there is no room.

        Without buffers it only passes on what the link itself still holds.

        Raises:
            LinkError: if the link broke.
        """

    def part(self) -> bool:
        """Say goodbye, and that nothing more is written; False if the scheme knows no such end.

        The peer reads everything that was written, and then closes too: see `is_over`. Closed
        before that, what it sends meanwhile would reset the link and what it has not read yet.
        """

    def is_over(self) -> bool:
        """After `part`: drop what has arrived; whether the peer has closed, too."""

    def close(self) -> None:
        """Say goodbye if the scheme knows how, and give up the descriptor. Legal twice."""

    def abort(self) -> None:
        """Give up the descriptor in silence: after a fork the conversation is the parent's."""


class Fed(Protocol):
    """A link without a descriptor: its listener calls when there is something to do."""

    def attach(self, on_readable: Callback, on_writable: Callback) -> None: ...


class Alarm(Protocol):
    """Something that will be called at its time."""

    def cancel(self) -> None:
        """Do not call it. Legal at any time."""


# Calls something on the poller, after so many nanoseconds.
Later = Callable[[int, Callback], Alarm]


@runtime_checkable
class Timed(Protocol):
    """A pending link or a listener that also has something to do when nothing arrives."""

    def use_timer(self, later: Later) -> None: ...


@runtime_checkable
class Lossy(Protocol):
    """A link or a listener that drops what noise has spoilt, and tells how many frames it was."""

    on_dropped: Callable[[int], None]


@runtime_checkable
class Lender(Protocol):
    """A listener whose descriptor its link has: another listener there has to wait for it."""

    def recall(self, reason: str) -> None:
        """End that link, at the loop's next turn."""


@runtime_checkable
class Leased(Protocol):
    """The link of a `Lender`."""

    on_recall: Callable[[str], None]  # closes the link, on its loop, for a reason


class PendingLink(Protocol):
    """A link in the making."""

    @property
    def source(self) -> str:
        """Who is at the other end, for admission and for messages: an IP address or a text."""

    def fileno(self) -> int:
        """The descriptor to watch; -1 if one step is enough."""

    def wants(self) -> int: ...

    def step(self) -> Link | None:
        """Go on as far as possible; None if it takes longer.

        Raises:
            LinkError: if there will be no link. It is not closed yet: a descriptor that is
                watched is closed by its owner, after it is no longer watched.
        """

    def close(self) -> None: ...


class Listener(Protocol):
    """Where links come in."""

    @property
    def locator(self) -> Locator:
        """Where it listens, with the port it was given."""

    def fileno(self) -> int:
        """The descriptor to watch, -1 for none now; `notify` tells when it is another one."""

    def wants(self) -> int: ...

    def accept(self) -> PendingLink | None:
        """The next newcomer, None if there is none now.

        Raises:
            LinkError: if this newcomer was lost, or no descriptor is left for it.
        """

    def notify(self, changed: Callback) -> None:
        """Call this, from any thread, when `wants` or `fileno` answers something else."""

    def writable(self) -> None:
        """The descriptor can be written, which `wants` had asked for."""

    def reload(self, settings: LinkSettings) -> None:
        """Read certificates again, as the settings say now; newcomers get the new ones.

        Raises:
            LinkError: if they cannot be used; the old ones stay.
        """

    def close(self) -> None:
        """Listen no more. Legal twice."""

    def abort(self) -> None:
        """Give up the descriptor and nothing else: after a fork the listener is the parent's."""


class Scheme(Protocol):
    """One protocol of locators, such as `tcp`."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        """Where the endpoint is. May look names up and so block: run it outside the loop.

        Raises:
            LinkError: if it leads nowhere.
            LocatorError: if the address is malformed.
        """

    def connect(
        self, endpoint: Endpoint, address: Address, settings: LinkSettings
    ) -> PendingLink: ...

    def listen(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> Listener: ...
