"""FlightPlace: a log whose rows come over Arrow Flight; what it has and commits go over Zenoh.

The recorder says where its door is (`@elea/log/NAME/info`), or the option `flight` does. A client
belongs to the process that made it: workers of Spark are forked, and gRPC does not survive that.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import flight

from elea.config_file import read_token
from elea.errors import ConfigError, StoreError
from elea.spark.options import Flight, Reach
from elea.spark.places import AGAIN, Rows
from elea.spark.served import ServedPlace
from elea.store.log.location import TOKEN_ENV, Location
from elea.store.log.ranges import ALL_TIME, Span
from elea.store.log.reader import Bounds
from elea.store.log.refusal import told_by
from elea.store.log.ticket import Ticket

_AGAIN_S: Final = 0.05  # until who was busy, or away, is asked again
_SHOWN_LEN: Final = 200  # of what Flight says of an error
_CHANNEL: Final = (
    ("grpc.enable_http_proxy", 0),  # what is on loopback stays there
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Servers take no more; a host that is gone is noticed after this and the next.
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 30_000),
)
_CLIENTS: Final[dict[tuple[int, Location, Flight], _Client]] = {}
_OPENING: Final = threading.Lock()


class _Client:
    """A connection, and the token for it."""

    def __init__(self, location: Location, given: Flight) -> None:
        token = read_token(given.token_file, TOKEN_ENV, "option flightTokenFile")
        if token is not None:
            _check_safe(location, given)
        self._headers = (
            [] if token is None else [(b"authorization", b"Bearer " + token.reveal().encode())]
        )
        roots = None if given.roots_file is None else _read_roots(given.roots_file)
        self.calls = flight.FlightClient(
            str(location), tls_root_certs=roots, generic_options=list(_CHANNEL)
        )

    def options(self, timeout_s: float | None = None) -> flight.FlightCallOptions:
        """For one call; a stream takes as long as it takes."""
        return flight.FlightCallOptions(timeout=timeout_s, headers=self._headers)


def _check_safe(location: Location, given: Flight) -> None:
    """A token is shown to who was named, and not on a way where others see it."""
    if not (location.is_encrypted or location.is_this_host):
        reason = f"{location} is not encrypted: the token would be seen; legal is grpc+tls"
        raise ConfigError("option flight", reason)
    if given.location is None and not (location.is_encrypted and given.roots_file):
        # Whoever answers for a log in the data space could otherwise have the token.
        reason = (
            f"a token is not sent to {location}, of which a recorder told; name it by the option"
            " flight, or have it proven by the option flightRoots"
        )
        raise ConfigError("option flight", reason)


def _read_roots(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError("option flightRoots", f"{file}: {error.strerror}") from error


def _client(location: Location, given: Flight) -> _Client:
    """The client of this process."""
    key = (os.getpid(), location, given)
    with _OPENING:
        found = _CLIENTS.get(key)
        if found is None:
            found = _CLIENTS[key] = _Client(location, given)
        return found


class FlightPlace:
    """A log that a recorder serves by Arrow Flight: `elea.store.flight`."""

    def __init__(self, reach: Reach, name: str, given: Flight, *, lossy: bool) -> None:
        self._reach = reach
        self._name = name
        self._given = given
        self._lossy = lossy
        self._zenoh: ServedPlace | None = None
        self._location = given.location or self._told_location()
        self.log_id = self._told_id()

    def is_current(self) -> bool:
        served = self._zenoh
        return served is None or (served.is_current() and served.log_id == self.log_id)

    def bounds(self) -> list[Bounds]:
        found = self._served().bounds()
        if not self.is_current():  # it changed before it was asked for over Zenoh
            raise StoreError(f"{self._name} is not log {self.log_id} any more: {AGAIN}")
        return found

    def seek(self, time: int) -> list[int]:
        return self._served().seek(time)

    def cut(self, shard: int, first: int, end: int, octets_count: int) -> int:
        return self._served().cut(shard, first, end, octets_count)

    def committed(self, consumer: str) -> Mapping[int, int] | None:
        return self._served().committed(consumer)

    def commit(self, consumer: str, offsets: Mapping[int, int], lease_s: int) -> None:
        self._served().commit(consumer, offsets, lease_s)

    def read(
        self,
        shard: int,
        first: int,
        end: int,
        columns: Sequence[str],
        key_exprs: Sequence[str] = (),
        span: Span = ALL_TIME,
    ) -> Rows:
        """One stream; where it breaks, because somebody was busy or went, another goes on."""
        ticket = Ticket(
            log=self._name,
            log_id=self.log_id,
            shard=shard,
            end=end,
            columns=(*columns, *(() if "seq" in columns else ("seq",))),
            key_exprs=tuple(key_exprs),
            span=span,
            lossy=self._lossy,
        )
        deadline_s = time.monotonic() + self._reach.timeout_s
        at, asked_at, schema = first, -1, None
        while at < end:
            if at != asked_at:
                asked_at, deadline_s = at, time.monotonic() + self._reach.timeout_s
            try:
                stream = self._stream(replace(ticket, first=at))
                try:
                    schema = stream.schema
                    for chunk in stream:
                        seqs = chunk.data.column("seq")
                        low = at if ticket.is_filtered else seqs[0].as_py()
                        high = seqs[-1].as_py() + 1
                        yield low, high, chunk.data.select(list(columns))
                        at = high
                finally:
                    stream.cancel()  # a task may have enough before the end
                break
            except pa.ArrowException as error:
                self._wait(error, shard, at, deadline_s)
        if ticket.is_filtered and at < end:  # rows that are not wanted, or lost
            yield at, end, pa.RecordBatch.from_pylist([], schema).select(list(columns))

    def _stream(self, ticket: Ticket) -> flight.FlightStreamReader:
        client = _client(self._location, self._given)
        return client.calls.do_get(flight.Ticket(ticket.encode()), client.options())

    def _served(self) -> ServedPlace:
        """Who knows more than rows; tasks do not ask."""
        if self._zenoh is None:
            self._zenoh = ServedPlace(self._reach, self._name, lossy=self._lossy)
        return self._zenoh

    def _told_location(self) -> Location:
        told = self._served().flight()
        if told is None:
            raise StoreError(
                f"who serves {self._name} tells of no Flight: start the recorder with --flight,"
                f" give the option flight, or read zenoh:{self._name}"
            )
        return Location.parse(told)

    def _told_id(self) -> uuid.UUID:
        wanted = flight.FlightDescriptor.for_command(Ticket(log=self._name).encode())
        deadline_s = time.monotonic() + self._reach.timeout_s
        while True:
            left_s = max(_AGAIN_S, deadline_s - time.monotonic())
            client = _client(self._location, self._given)
            try:
                info = client.calls.get_flight_info(wanted, client.options(left_s))
            except pa.ArrowException as error:
                self._wait(error, 0, 0, deadline_s)
                continue
            found = Ticket.decode(info.endpoints[0].ticket.ticket).log_id
            assert found is not None
            return found

    def _wait(self, error: pa.ArrowException, shard: int, first: int, deadline_s: float) -> None:
        """Return when it is time to ask again.

        Raises:
            OffsetError: rows were trimmed.
            StoreError: asking again does not mend it, or did not in time.
        """
        where = f"{self._name} at {self._location}"
        if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
            legal = f"the option flightTokenFile or the variable {TOKEN_ENV}"
            raise StoreError(f"{where} wants another token; legal is {legal}") from error
        told = getattr(error, "extra_info", b"")
        reason = told_by(told, shard, first) if told else str(error)[:_SHOWN_LEN]
        if time.monotonic() > deadline_s:
            raise StoreError(f"{where}, from row {first} of shard {shard} on: {reason}") from error
        threading.Event().wait(_AGAIN_S)
        if self._given.location is None and not told:  # a recorder may be back at another port
            with suppress(StoreError):
                self._location = self._told_location()
