"""Publication: the verbs of a session that publish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

from elea.errors import InvalidValueError
from elea.provenance import SourceInfo, TimestampInstrumentation
from elea.qos import CongestionControl, Locality, Priority
from elea.session.context import Context
from elea.session.convert import (
    IntoEncoding,
    IntoKeyExpr,
    IntoZBytes,
    checked,
    checked_or,
    key_text,
    nanoseconds,
    octets,
    octets_or_none,
    qos_octet,
    wire_encoding,
    wire_source,
    wire_stamp,
    without_drops,
)
from elea.session.promise import Promise
from elea.timestamp import Timestamp
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push

# What is imported from `ack` and `spool` below is imported late: few programs put with `ack`.
if TYPE_CHECKING:
    from elea.session.ack import Ack, Entry, StoredAck
    from elea.session.options import PutOptions
    from elea.session.spool import Spool


class Publication:
    """The verbs of a session that publish."""

    __slots__ = ()

    _context: Context
    _prefix: str

    @overload
    def put(
        self,
        /,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: None = None,
        **options: Unpack[PutOptions],
    ) -> None: ...
    @overload
    def put(
        self,
        /,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: Ack,
        timeout: float | None = None,
        **options: Unpack[PutOptions],
    ) -> StoredAck: ...
    def put(
        self,
        /,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> StoredAck | None:
        """Publish a value.

        Args:
            key_expr: Its key.
            payload: The value.
            encoding: How it is to be read.
            congestion_control: What happens where a queue is full.
            priority: Who goes first where a link is busy.
            express: Whether it does not wait to share a batch.
            attachment: What travels beside it.
            timestamp: When it was; else when it is put, if the session stamps.
            timestamp_instrumentation: Which nodes note when it passed.
            allowed_destination: Whether subscribers here, elsewhere or both get it.
            source_info: Who published it, and its number there. With `ack` it is the identity of
                the sample: put again with the same one, it is stored once.
            ack: "stored" waits until a recorder has it on disk, and returns where.
            timeout: How many seconds that may take; else as long as a query.

        Raises:
            KeyExprError: the key is none.
            ClosedError: the session is closed.
            NotStoredError: with `ack`: the recorder refused it, or the spool is full.
            NotRecordedError: with `ack`: nobody records the key, and there is no spool.
            AckTimeoutError: with `ack`: nobody answered in time, and there is no spool.
        """
        body = Put(
            octets(payload),
            wire_stamp(timestamp),
            wire_encoding(encoding),
            octets_or_none(attachment),
            wire_source(source_info),
        )
        if ack is not None or timeout is not None:
            from elea.session.ack import ACK_QUALITY, finish

            qos = qos_octet(priority, congestion_control, express, ACK_QUALITY)
            place = (allowed_destination, timestamp_instrumentation)
            return finish(self._context, self._begin(key_expr, body, qos, *place, ack, timeout))
        qos = qos_octet(priority, congestion_control, express)
        self._publish(key_expr, body, qos, allowed_destination, timestamp_instrumentation)
        return None

    def try_put(
        self,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
    ) -> bool:
        """Publish a value if there is room for it now; False, and nothing sent, if not.

        Raises:
            KeyExprError: the key is none.
            ClosedError: the session is closed.
        """
        stamp, attached = wire_stamp(timestamp), octets_or_none(attachment)
        body = Put(octets(payload), stamp, wire_encoding(encoding), attached)
        key = key_text(key_expr)
        qos, reliable, destination = self._configured(key, qos_octet(priority, None, express), None)
        return self._context.core.outbox.try_publish(
            key,
            Push(WireExpr(0, self._prefix + key), body, qos),
            reliable,
            destination is not Locality.REMOTE,
            destination is not Locality.SESSION_LOCAL,
        )

    @overload
    def delete(
        self, /, key_expr: IntoKeyExpr, *, ack: None = None, **options: Unpack[PutOptions]
    ) -> None: ...
    @overload
    def delete(
        self,
        /,
        key_expr: IntoKeyExpr,
        *,
        ack: Ack,
        timeout: float | None = None,
        **options: Unpack[PutOptions],
    ) -> StoredAck: ...
    def delete(
        self,
        /,
        key_expr: IntoKeyExpr,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> StoredAck | None:
        """Publish the end of a key's value; `ack`, `timeout` and errors as of `put`.

        Raises:
            KeyExprError: the key is none.
            ClosedError: the session is closed.
        """
        source = wire_source(source_info)
        body = Del(wire_stamp(timestamp), octets_or_none(attachment), source)
        if ack is not None or timeout is not None:
            from elea.session.ack import ACK_QUALITY, finish

            qos = qos_octet(priority, congestion_control, express, ACK_QUALITY)
            place = (allowed_destination, timestamp_instrumentation)
            return finish(self._context, self._begin(key_expr, body, qos, *place, ack, timeout))
        qos = qos_octet(priority, congestion_control, express)
        self._publish(key_expr, body, qos, allowed_destination, timestamp_instrumentation)
        return None

    def declare_spool(
        self,
        directory: Path | str | None = None,
        *,
        max_bytes: int | None = None,
        max_age: float | None = None,
        live: bool = True,
    ) -> Spool:
        """Have acknowledged puts wait here while no recorder is there, and forward them then.

        They keep their order for each key, their timestamp and their identity, so none is stored
        twice. A put that waits returns with `spooled` set. The spool ends with the session; what
        waits on disk is forwarded by the next spool in the same directory.

        It is declared and not configured: it holds a lock on its directory, is full one day and
        has counters, so a program has it in hand; and a configuration is given on to child
        processes and tasks, which would fight for the directory.

        Args:
            directory: Where they wait, safe from a crash, for one process at a time. None: in
                memory, and they are gone with the session.
            max_bytes: How much may wait; else 16 MiB in memory, 1 GiB on disk. Then puts fail.
            max_age: Samples that waited longer, in seconds, are given up and counted.
            live: Whether subscribers get samples at once although no recorder is there. Then one
                that is on its way when a recorder begins may be stored before those that wait; its
                timestamp tells. False: they get them as they are forwarded, and the order of the
                log is that of the puts.

        Raises:
            StoreError: another process has the directory, or it is no spool.
            InvalidValueError: there is a spool already, or a number is not positive.
            MissingDependencyError: a spool on disk needs the extra `arrow`.
            ClosedError: the session is closed.
        """
        from elea.session.ack import acks_of
        from elea.session.spool import declare_spool

        length = checked_or("max_bytes", max_bytes, int, 1)
        age_ns = nanoseconds("max_age", max_age, 1)
        if length < 1 or age_ns < 1:
            raise InvalidValueError(
                "spool", f"saw max_bytes={max_bytes}, max_age={max_age}; legal are positive ones"
            )
        acks = acks_of(self._context)
        if acks.spool is not None:
            raise InvalidValueError("spool", "the session has one already; undeclare that first")
        max_age_ns = None if max_age is None else age_ns
        return declare_spool(
            acks, directory, max_bytes, max_age_ns, live=checked("live", live, bool)
        )

    def _begin(
        self,
        key_expr: IntoKeyExpr,
        body: Put | Del,
        qos: int,
        allowed_destination: Locality | None,
        instrumentation: TimestampInstrumentation | None,
        ack: object,
        timeout: float | None,
    ) -> Promise[StoredAck]:
        context = self._context
        key = key_text(key_expr)
        destination = checked_or("allowed_destination", allowed_destination, Locality, Locality.ANY)
        overwrite = context.core.face.settings.publication.find(key)
        if overwrite is not None:
            qos = without_drops(overwrite.octet(qos))
            destination = overwrite.destination or destination
        from elea.session.ack import begin

        return begin(
            context,
            key,
            body,
            qos,
            destination=destination,
            stack=context.instrument(instrumentation),
            ack=ack,
            timeout=timeout,
        )

    def _begin_put(
        self,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes | None,
        encoding: IntoEncoding | None,
        options: PutOptions,
        ack: object,
        timeout: float | None,
    ) -> Promise[StoredAck]:
        """`put` and, without a payload, `delete` with an acknowledgement, for event loops."""
        from elea.session.ack import ACK_QUALITY

        stamp, source = options.get("timestamp"), options.get("source_info")
        attachment = octets_or_none(options.get("attachment"))
        body: Put | Del
        if payload is None:
            body = Del(wire_stamp(stamp), attachment, wire_source(source))
        else:
            known = wire_encoding(encoding)
            body = Put(octets(payload), wire_stamp(stamp), known, attachment, wire_source(source))
        qos = qos_octet(
            options.get("priority"),
            options.get("congestion_control"),
            options.get("express"),
            ACK_QUALITY,
        )
        place = (options.get("allowed_destination"), options.get("timestamp_instrumentation"))
        return self._begin(key_expr, body, qos, *place, ack, timeout)

    def _publish(
        self,
        key_expr: IntoKeyExpr,
        body: Put | Del,
        qos: int,
        allowed_destination: Locality | None,
        instrumentation: TimestampInstrumentation | None,
    ) -> int:
        key = key_text(key_expr)
        if allowed_destination is not None:
            checked("allowed_destination", allowed_destination, Locality)
        context = self._context
        stack = None if instrumentation is None else context.instrument(instrumentation)
        qos, reliable, destination = self._configured(key, qos, allowed_destination)
        return context.core.outbox.publish(
            key,
            Push(WireExpr(0, self._prefix + key), body, qos, None, 0, stack),
            reliable,
            destination is not Locality.REMOTE,
            destination is not Locality.SESSION_LOCAL,
        )

    def _configured(
        self, key: str, qos: int, destination: Locality | None
    ) -> tuple[int, bool, Locality | None]:
        """QoS octet, reliability and destination, as `qos/publication` overwrites them."""
        overwrite = self._context.core.face.settings.publication.find(key)
        if overwrite is None:
            return qos, True, destination
        reliable = overwrite.reliable is not False
        return overwrite.octet(qos), reliable, overwrite.destination or destination


def entry_of(
    key: str,
    payload: bytes | None,
    *,
    encoding: IntoEncoding | None = None,
    attachment: bytes | None = None,
    timestamp: Timestamp | None = None,
    source_info: SourceInfo | None = None,
    express: bool | None = None,
) -> Entry:
    """A sample that is to be stored: without a payload, a deletion."""
    from elea.session.ack import ACK_QUALITY, Entry

    stamp, source = wire_stamp(timestamp), wire_source(source_info)
    body: Put | Del = Del(stamp, attachment, source)
    if payload is not None:
        body = Put(payload, stamp, wire_encoding(encoding), attachment, source)
    return Entry(key_text(key), body, qos_octet(None, None, express, ACK_QUALITY))
