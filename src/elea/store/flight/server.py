"""Server: logs by Arrow Flight, for any of its clients; the one module that imports it here.

    list_flights      one for each log
    get_flight_info   what is wanted of a log, as tickets: one for each shard
    do_get            the rows of a ticket, in order

Each stream reads for itself, as fast as it is read. Whatever is refused is told as JSON in the
error's `extra_info`, as over Zenoh (`elea.store.logserver`).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow as pa
from pyarrow import flight

from elea.config_file import read_secret
from elea.errors import ConfigError, EleaError, InvalidValueError, StoreError
from elea.limits import Limits
from elea.secret import Secret
from elea.session.rights import Reason
from elea.store.flight.connections import Address, cut, peer_of
from elea.store.flight.counts import Counts
from elea.store.flight.settings import PATH, FlightSettings
from elea.store.log.disk import Disk
from elea.store.log.ranges import rows_of
from elea.store.log.reader import LogReader
from elea.store.log.refusal import ABSENT, BUSY, refusal_of
from elea.store.log.schema import POSITION, SCHEMA
from elea.store.log.ticket import Ticket
from elea.store.rows import compacted

if TYPE_CHECKING:
    from elea.store.flight.door import Door

_LOG: Final = logging.getLogger("elea.store.flight")
_FIELDS: Final = {field.name: field for field in (*SCHEMA, *POSITION)}
_DETAIL_LEN: Final = 1_000  # an error travels in headers, which are short
_STOP_S: Final = 30.0  # how long an end waits for streams that were cut


class Server(flight.FlightServerBase):  # type: ignore[misc]  # Arrow has no types
    """Serves the logs of a door until `stop`."""

    def __init__(self, door: Door, settings: FlightSettings, limits: Limits) -> None:
        self._door = door
        self._counts = door.counts
        self._limits = limits
        self._streams: set[_Stream] = set()
        self._stopping = threading.Event()
        token = settings.token
        bearer = None if token is None else {"bearer": _Bearer(token, self._counts)}
        try:
            super().__init__(
                str(settings.location), tls_certificates=_certificates(settings), middleware=bearer
            )
        except (pa.ArrowException, OSError) as error:
            reason = f"cannot listen at {settings.location}: is the port in use? ({error})"
            raise StoreError(reason) from error
        self.bound = str(settings.location._replace(port=self.port))
        self._watch = threading.Thread(target=self._let_go, name="flight-watch", daemon=True)
        self._watch.start()

    def stop(self) -> None:
        """Take no more calls, and cut those that there are."""
        self._stopping.set()
        # It returns when all calls have ended, so it begins before they are cut.
        ending = threading.Thread(target=self.shutdown, name="flight-end", daemon=True)
        ending.start()
        deadline_s = time.monotonic() + _STOP_S
        while ending.is_alive() and time.monotonic() < deadline_s:
            cut(self.port)
            ending.join(0.05)
        if ending.is_alive():
            _LOG.error("calls at %s do not end; they are left", self.bound)
        self._watch.join(_STOP_S)

    # What Flight calls, by threads of its own.

    def list_flights(
        self, context: flight.ServerCallContext, criteria: bytes
    ) -> Iterator[flight.FlightInfo]:
        with self._refusing():
            self._count(Ticket(log="*"), context, len(criteria))
            for name in self._door.names():
                wanted = Ticket(log=name)
                if self._door.refusal(wanted, _host(context)) is None:
                    yield self._info(wanted, flight.FlightDescriptor.for_path(name))

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        with self._refusing():
            wanted = self._wanted(descriptor)
            self._permit(wanted, _host(context))
            self._count(wanted, context, len(descriptor.command or b""))
            return self._info(wanted, descriptor)

    def do_get(
        self, context: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.FlightDataStream:
        with self._refusing():
            wanted = Ticket.decode(ticket.ticket, self._limits.flight_ticket_len)
            if wanted.shard is None or wanted.first is None or wanted.end is None:
                reason = "shard, lo or hi is missing; legal is what get_flight_info gives"
                raise InvalidValueError("ticket", reason)
            self._permit(wanted, _host(context))
            self._count(wanted, context, len(ticket.ticket))
            stream = _Stream(peer_of(context.peer()), context.is_cancelled)
            rows = self._rows(wanted, stream, _host(context))
            return flight.GeneratorStream(_schema(wanted), rows)

    def do_put(self, *_: object) -> NoReturn:
        self._read_only()

    def do_exchange(self, *_: object) -> NoReturn:
        self._read_only()

    def do_action(self, *_: object) -> NoReturn:
        self._read_only()

    def list_actions(self, *_: object) -> list[flight.ActionType]:
        return []

    # What that is made of.

    def _permit(self, wanted: Ticket, host: str) -> None:
        """Access rules hold for readers over Flight as for those over Zenoh."""
        why = self._door.refusal(wanted, host)
        if why is not None:
            self._counts.add(refused=1)
            raise flight.FlightUnauthorizedError(why[:_DETAIL_LEN])

    def _count(self, wanted: Ticket, context: flight.ServerCallContext, length: int) -> None:
        """Filters and quotas hold for readers over Flight as for those over Zenoh.

        Raises:
            StoreError: the call is longer than filters let pass.
            _LaterError: there were too many.
        """
        excess = self._door.excess(wanted, _host(context), length)
        if excess is None:
            return
        if excess.reason is Reason.LOW_PASS:
            raise StoreError(excess.why)
        raise _LaterError(BUSY, f"{excess.why}; ask again later")

    def _read_only(self) -> NoReturn:
        with self._refusing():
            raise StoreError("logs are read here, and nothing else; consumers commit over Zenoh")
        raise AssertionError

    def _wanted(self, descriptor: flight.FlightDescriptor) -> Ticket:
        if descriptor.descriptor_type is flight.DescriptorType.CMD:
            return Ticket.decode(descriptor.command, self._limits.flight_ticket_len)
        path = [one.decode("utf-8", "replace") for one in descriptor.path or ()]
        if len(path) != 1:
            reason = f"saw the path {path!a}; legal is the name of a log, or a command"
            raise InvalidValueError("descriptor", reason)
        return Ticket(log=path[0])

    def _disk(self, wanted: Ticket) -> Disk:
        disk = self._door.find(wanted.log)
        if disk is None:
            there = ", ".join(self._door.names()) or "none"
            raise _LaterError(ABSENT, f"no log {wanted.log[:80]!a} is here; there are: {there}")
        return disk

    def _reader(self, wanted: Ticket) -> LogReader:
        """A reader of a stream's own: one is not for two threads."""
        tell = partial(_LOG.error, "log %s is read although damaged: %s", wanted.log)
        reader = LogReader(self._disk(wanted), tell if wanted.lossy else None)
        if wanted.log_id not in (None, reader.log_id):
            reason = f"rows of log {wanted.log_id} are wanted; {wanted.log} is log {reader.log_id}"
            raise StoreError(reason)
        count = reader.shards_count
        if wanted.shard is not None and wanted.shard >= count:
            raise InvalidValueError("shard", f"saw {wanted.shard}; legal are 0 to {count - 1}")
        return reader

    def _info(self, wanted: Ticket, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        reader = self._reader(wanted)
        shards = range(reader.shards_count) if wanted.shard is None else [wanted.shard]
        endpoints, rows_count = [], 0
        for shard in shards:
            bounds = reader.bounds(shard)
            first = bounds.first if wanted.first is None else wanted.first
            end = bounds.end if wanted.end is None else wanted.end
            one = replace(wanted, log_id=reader.log_id, shard=shard, first=first, end=end)
            endpoints.append(flight.FlightEndpoint(one.encode(), []))  # at this connection
            rows_count += max(0, end - first)
        known = -1 if wanted.is_filtered else rows_count
        return flight.FlightInfo(_schema(wanted), descriptor, endpoints, known, -1)

    def _rows(self, wanted: Ticket, stream: _Stream, host: str) -> Iterator[pa.Table]:
        """The rows of a stream. It has its place from the first to the last, however it ends."""
        with self._refusing(), self._place(stream):
            assert wanted.shard is not None
            assert wanted.first is not None
            assert wanted.end is not None
            reader, columns = self._reader(wanted), list(wanted.columns)
            found = rows_of(
                reader,
                *(wanted.shard, wanted.first, wanted.end, columns),
                *(wanted.key_exprs, wanted.span),
            )
            for _, _, batch in found:
                if stream.is_cancelled():  # of rows that nobody wants many may be passed
                    return
                if self._stopping.is_set():
                    raise flight.FlightUnavailableError("the recorder ends; ask again later")
                self._permit(wanted, host)  # rules may have changed since the last block
                for part in self._parts(compacted(batch) if wanted.key_exprs else batch):
                    self._counts.add(rows=part.num_rows, octets=part.nbytes)
                    stream.waits_since_ns = time.monotonic_ns()
                    # A table, not a batch: Flight sends no dictionaries of single batches.
                    yield pa.Table.from_batches([part])
                    stream.waits_since_ns = None

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in messages of bounded length."""
        step = batch.num_rows * self._limits.flight_batch_len // max(1, batch.nbytes)
        step = max(1, step)  # rows as long as that are few
        for at in range(0, batch.num_rows, step):
            yield batch.slice(at, step)

    @contextmanager
    def _place(self, stream: _Stream) -> Iterator[None]:
        with self._counts.lock:
            is_free = len(self._streams) < self._limits.flight_streams_count
            if is_free:
                self._streams.add(stream)
        if not is_free:
            count = self._limits.flight_streams_count
            raise _LaterError(BUSY, f"{count} ranges are being read; ask again later")
        self._counts.add(streams=1, open=1)
        try:
            yield
        finally:
            with self._counts.lock:
                self._streams.discard(stream)
            self._counts.add(open=-1)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """What goes wrong is told, without what only we understand."""
        try:
            yield
        except flight.FlightError:
            raise
        except Exception as error:
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> flight.FlightError:
        told = refusal_of(error)
        detail = told["detail"] = str(told["detail"])[:_DETAIL_LEN]
        if isinstance(error, _LaterError):
            told["error"] = error.kind
        is_busy = told["error"] == BUSY
        self._counts.add(busy=is_busy, refused=not is_busy)
        kind = flight.FlightUnavailableError if is_busy else flight.FlightServerError
        return kind(detail, json.dumps(told).encode())

    def _let_go(self) -> None:
        """By a thread: cut who takes nothing; a reader that lives asks for the rest."""
        stall_ns = self._limits.flight_stall_ns
        while not self._stopping.wait(stall_ns / 4e9):
            with self._counts.lock:
                streams = list(self._streams)
            for stream in streams:
                since_ns = stream.waits_since_ns
                if since_ns is None or time.monotonic_ns() - since_ns < stall_ns:
                    continue
                if stream.peer is not None and cut(self.port, stream.peer):
                    stream.waits_since_ns = None
                    self._counts.add(stalled=1)


class _Stream:
    """One range that is read."""

    def __init__(self, peer: Address | None, is_cancelled: Callable[[], bool]) -> None:
        self.peer = peer
        self.is_cancelled = is_cancelled
        self.waits_since_ns: int | None = None  # for its reader


class _LaterError(EleaError):
    """What may be better later."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class _Bearer(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # Arrow has no types
    """Lets in who shows the token."""

    def __init__(self, token: Secret, counts: Counts) -> None:
        super().__init__()
        self._token = token
        self._counts = counts

    def start_call(self, info: object, headers: dict[str, list[str]]) -> None:
        found = [one for name, one in headers.items() if name.lower() == "authorization"]
        scheme, _, given = (found[0][0] if found and found[0] else "").partition(" ")
        if scheme.lower() == "bearer" and Secret(given.strip()) == self._token:  # in equal time
            return
        self._counts.add(unauthenticated=1)
        reason = "this needs the header authorization: Bearer TOKEN, with the token of the recorder"
        raise flight.FlightUnauthenticatedError(reason)


def _host(context: flight.ServerCallContext) -> str:
    peer = peer_of(context.peer())
    return "" if peer is None else str(peer[0])


def _schema(wanted: Ticket) -> pa.Schema:
    return pa.schema([_FIELDS[name] for name in wanted.columns])


def _certificates(settings: FlightSettings) -> list[tuple[str, str]] | None:
    if settings.tls_certificate is None or settings.tls_private_key is None:
        return None
    try:
        key = read_secret(settings.tls_private_key).reveal()
    except ConfigError as error:
        raise ConfigError(f"{PATH}/tls_private_key", error.reason) from None
    try:
        with open(settings.tls_certificate, encoding="ascii") as file:
            return [(file.read(), key)]
    except (OSError, UnicodeDecodeError) as error:
        reason = f"{settings.tls_certificate}: {error}"
        raise ConfigError(f"{PATH}/tls_certificate", reason) from None
