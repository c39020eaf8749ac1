"""ArrowBatches: samples as Arrow record batches rather than one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, final

from elea.errors import InvalidValueError, MissingDependencyError
from elea.limits import DEFAULT_LIMITS
from elea.sample import Sample
from elea.session.context import Context
from elea.session.handlers import AnyHandler, Delivery, Handler
from elea.session.outlet import CallbackOutlet, Channel
from elea.session.ports import CallbackThread

if TYPE_CHECKING:
    import pyarrow as pa

    from elea.session.columns import Columns, ColumnsOutlet, Haste
    from elea.store.log.single import Single

_NS_PER_MS: Final = 1_000_000


class Shortcut(Protocol):
    """Takes hasty rows in the thread that received them: a change of threads takes as long."""

    def begin(self) -> bool:
        """Whether it takes the next one. Under the node's lock."""

    def take(self, row: Single) -> None:
        """The row, after `begin`. As any function of an application it may take long."""


@final
class ArrowBatches:
    """A handler for subscribers: what is received, as `pyarrow.RecordBatch`es.

    No object is made for a sample: rows are written where a frame is read. The columns are `key`,
    `kind` (0 put, 1 delete), `payload`, `attachment`, `encoding`, `ts` and `hlc` and `hlc_id` (the
    timestamp: its time, its 64 bits, its clock), `zid`, `eid` and `sn` (who published it, and its
    number there), `qos` (as one octet) and `recv_ts` (when it was received). Read them with `recv`,
    `try_recv` or a loop, as any channel; a reader that is behind holds up the network.

    Args:
        rows: A batch has at most so many rows.
        ms: And its first row waits at most so many milliseconds.
        capacity: So many batches may wait for the reader.
        haste: Whose rows do not wait; a row that is alone is handed over as a `Single`.
        shortcut: Is offered such a row while the reader has nothing to do.

    Raises:
        MissingDependencyError: when a subscriber is declared, without `pip install 'elea[arrow]'`.

    Example:
        >>> handler = ArrowBatches(rows=1_000, ms=20)
        >>> handler.rows, handler.ms
        (1000, 20)
    """

    __slots__ = ("capacity", "haste", "ms", "rows", "shortcut")

    def __init__(
        self,
        rows: int = 8_192,
        ms: float = 50,
        *,
        capacity: int = 8,
        haste: Haste | None = None,
        shortcut: Shortcut | None = None,
    ) -> None:
        if rows < 1 or ms < 0 or capacity < 1:
            raise InvalidValueError(
                "ArrowBatches",
                f"rows={rows}, ms={ms}, capacity={capacity}; legal are rows and capacity from 1, "
                "ms from 0",
            )
        self.rows = rows
        self.ms = ms
        self.capacity = capacity
        self.haste = haste
        self.shortcut = shortcut

    def __repr__(self) -> str:
        return f"ArrowBatches(rows={self.rows}, ms={self.ms}, capacity={self.capacity})"


def sample_delivery(
    context: Context, handler: AnyHandler[Sample] | ArrowBatches
) -> Delivery[Sample]:
    """What a subscriber makes of its handler."""
    if not isinstance(handler, ArrowBatches):
        return Delivery(handler, context.pressure)
    try:
        from elea.session.arrow import record_batch, single
        from elea.session.columns import Columns, ColumnsOutlet
    except ImportError as error:
        raise MissingDependencyError("ArrowBatches", "arrow") from error

    # Batches are large: few may wait beyond the capacity, until reading from links has stopped.
    channel = Channel(handler.capacity, is_ring=False, overrun_count=handler.capacity)
    channel.pressure = context.pressure
    outlet = ColumnsOutlet(
        channel, handler.rows, DEFAULT_LIMITS.arrow_batch_len, context.driver.wall_ns
    )
    outlet.haste = haste = handler.haste
    outlet.on_first = _Patience(context, outlet, int(handler.ms * _NS_PER_MS)).begin

    def converted(value: object) -> pa.RecordBatch | Single:
        assert isinstance(value, Columns)
        if value.rows_count == 1 and haste is not None:
            return single(value)
        return record_batch(value)

    shortcut = handler.shortcut
    on_io = context.driver.callback_thread is CallbackThread.IO
    if haste is not None and shortcut is not None and on_io:

        def take(value: object) -> None:
            assert isinstance(value, Columns)
            shortcut.take(single(value))

        taking = CallbackOutlet(take, None, indirect=True)

        def hand(rows: Columns) -> bool:
            begins = shortcut.begin()
            if begins:
                context.core.inbox.emit(taking, rows)
            return begins

        haste.hand = hand
    return Delivery.of(outlet, Handler[object](channel, converted))


class _Patience:
    """Under the lock: the first row of a batch does not wait for ever.

    One timer at a time, however many batches are handed over before theirs would be due.
    """

    __slots__ = ("_context", "_delay_ns", "_due_ns", "_newest", "_outlet")

    def __init__(self, context: Context, outlet: ColumnsOutlet, delay_ns: int) -> None:
        self._context = context
        self._outlet = outlet
        self._delay_ns = delay_ns
        self._due_ns = 0
        self._newest: Columns | None = None  # None: no timer is set

    def begin(self, rows: Columns) -> None:
        """A batch has its first row."""
        face = self._context.core.face
        is_set = self._newest is not None
        self._newest = rows
        self._due_ns = face.now_ns() + self._delay_ns
        if not is_set:
            face.call_at(self._due_ns, self._look)

    def _look(self) -> None:
        face, newest = self._context.core.face, self._newest
        if self._due_ns > face.now_ns():  # of a batch that came later
            face.call_at(self._due_ns, self._look)
            return
        self._newest = None
        assert newest is not None
        self._outlet.seal_if(newest)
