"""Door: the logs that can be read over Arrow Flight, while there is a location for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from elea.errors import MissingDependencyError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.session.rights import Action, Excess, Identity, Rights, identity_of
from elea.session.session import Session
from elea.store.flight.counts import METRICS, Counts
from elea.store.flight.settings import FlightSettings
from elea.store.log.disk import Disk
from elea.store.log.ticket import Ticket

if TYPE_CHECKING:
    from elea.store.flight.server import Server

_LOG: Final = logging.getLogger("elea.store.flight")
USER: Final = "flight"  # what access rules call the holder of the token


class Door:
    """Logs by name; and, between `open` and `close`, a server that gives their rows.

    Example:
        >>> from elea.store.flight.settings import FlightSettings
        >>> door = Door()
        >>> door.open(FlightSettings.read({"location": "grpc://127.0.0.1:0"}))
        >>> (door.location or "").startswith("grpc://127.0.0.1:")
        True
        >>> door.close()
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.counts = Counts()
        self.settings: FlightSettings | None = None
        self.location: str | None = None  # what readers are told
        self._limits = limits
        self._logs: dict[str, Disk] = {}
        self._rights: Rights | None = None
        self._changing = threading.Lock()
        self._server: Server | None = None
        self._error: str | None = None

    def add(self, name: str, disk: Disk, session: Session | None = None) -> None:
        """Have a log read by this door, as the access rules of a session's node allow."""
        with self._changing:
            self._logs[name] = disk
            if session is not None and self._rights is None:
                self._rights = Rights(session)

    def remove(self, name: str, disk: Disk) -> None:
        """A log is not to be read any more; another one of its name is left."""
        with self._changing:
            if self._logs.get(name) is disk:
                del self._logs[name]

    def find(self, name: str) -> Disk | None:
        """Where the log of a name is."""
        return self._logs.get(name)

    def refusal(self, wanted: Ticket, address: str) -> str | None:
        """Why a reader at an address may not have these rows; None: it may."""
        if self._rights is None:
            return None
        return self._rights.refusal(self._reader(address), Action.QUERY, *_query(wanted))

    def excess(self, wanted: Ticket, address: str, length: int) -> Excess | None:
        """Count a call; why filters or quotas refuse it, or None.

        Args:
            length: Of the ticket or command.
        """
        if self._rights is None:
            return None
        reader = self._reader(address)
        return self._rights.excess(reader, Action.QUERY, *_query(wanted), length=length)

    def _reader(self, address: str) -> Identity:
        user = USER if self.settings is not None and self.settings.token is not None else None
        return identity_of("flight", address, user=user)

    def names(self) -> list[str]:
        """The logs."""
        return sorted(self._logs)

    @property
    def is_open(self) -> bool:
        """Whether rows can be read."""
        return self._server is not None

    def open(self, settings: FlightSettings) -> None:
        """Serve from now on.

        Raises:
            ConfigError: a certificate or key cannot be read.
            StoreError: the port cannot be had.
            MissingDependencyError: this Arrow has no Flight.
        """
        self.close()
        try:
            self._server = self._opened(settings)
            self.location = settings.told(self._server.port)
            _LOG.info("logs can be read at %s", self._server.bound)
        except Exception as error:
            self._error = str(error)
            raise
        finally:
            self.settings = settings  # last: whoever asks meanwhile sees no half of it

    def _opened(self, settings: FlightSettings) -> Server:
        try:
            # Late: it takes a third of a second, and not every Arrow has it.
            from elea.store.flight.server import Server
        except ImportError as error:
            raise MissingDependencyError("Arrow Flight", "arrow") from error
        return Server(self, settings, self._limits)

    def close(self) -> None:
        """Serve no more; streams are cut, and their readers know how far they came."""
        server, self._server = self._server, None
        self.settings = self.location = self._error = None
        if server is not None:
            server.stop()

    def status(self) -> dict[str, Json]:
        """Where it is, what it did, and what is wrong."""
        settings = self.settings
        counts: dict[str, Json] = dict(self.counts.by_name())
        return {
            "state": "Started" if self.is_open else "Failed",
            "location": None if settings is None else str(settings.location),
            "advertised": self.location,
            "token": settings is not None and settings.token is not None,
            "logs": list(self.names()),
            "counts": counts,
            "error": self._error,
        }

    def counted(self) -> Iterator[tuple[str, str, str, int]]:
        """Metrics: name, kind, meaning, value."""
        counts = self.counts.by_name()
        for name, (kind, counter, meaning) in METRICS.items():
            yield name, kind, meaning, counts[counter]


def _query(wanted: Ticket) -> tuple[str, str]:
    """Return the key and parameters of the query that would read the same rows over Zenoh."""
    keys = "|".join(wanted.key_exprs)
    if any(";" in one or "|" in one for one in wanted.key_exprs):
        keys = ""  # they make no parameter: as if all rows were wanted
    key = f"@elea/log/{wanted.log}/read/{wanted.shard or 0}"
    return key, f"keyexpr={keys}" if keys else ""
