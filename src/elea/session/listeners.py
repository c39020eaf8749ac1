"""The reading half of every entity that receives, and the smallest of them: matching listeners."""

from __future__ import annotations

from typing import Generic, Self, TypeVar, cast, final

from elea.session.context import Context, Declared
from elea.session.handlers import AnyHandler, Delivery, Handler
from elea.session.matching import MatchingStatus, Writer

T = TypeVar("T")
H_co = TypeVar("H_co", covariant=True)


class Listening(Declared, Generic[H_co]):
    """A declared entity with a handler, whose verbs work on the entity itself too.

    That goes for a channel, and for any object with such verbs that was given beside a callback.
    """

    __slots__ = ("_handler", "_outlet")

    _handler: H_co

    def __init__(self, context: Context, delivery: Delivery[T]) -> None:
        super().__init__(context, in_background=delivery.in_background)
        self._handler = cast(H_co, delivery.handler)
        self._outlet = delivery.outlet

    def __enter__(self) -> Self:
        return self

    def undeclare(self, /) -> None:
        """End it. What its channel still holds is kept only by who took the `handler` before.

        Raises:
            ClosedError: it was undeclared before.
        """
        super().undeclare()
        # A query that waits in a channel is finished when the last reference to it goes.
        del self._handler, self._outlet
        self._forget()

    def _forget(self) -> None:
        """Drop what else refers to the channel."""

    @property
    def handler(self) -> H_co:
        """The handler that was given, or the `Handler` of its channel."""
        self._check()
        return self._handler

    def try_recv(self: Listening[Handler[T]], /) -> T | None:
        """What was received next, or None if there is nothing now.

        Raises:
            ClosedError: the entity is undeclared, or nothing will come any more.
        """
        return self.handler.try_recv()

    def recv(self: Listening[Handler[T]], /, timeout: float | None = None) -> T:
        """What is received next; wait for it, at most `timeout` seconds if given.

        Raises:
            ClosedError: the entity is undeclared, or nothing will come any more.
            TimeoutError: nothing came in time.
        """
        # A handler of the application's own may have the verb of zenoh-python, without a timeout.
        return self.handler.recv() if timeout is None else self.handler.recv(timeout)

    def drain(self: Listening[Handler[T]]) -> list[T]:
        """All that was received and not read, without waiting."""
        return self.handler.drain()

    def __iter__(self: Listening[Handler[T]]) -> Handler[T]:
        return iter(self.handler)

    @property
    def dropped_count(self) -> int:
        """How many values its channel had no room for."""
        self._check()
        handler = self._handler
        return handler.dropped_count if isinstance(handler, Handler) else 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@final
class MatchingListener(Listening[H_co]):
    """Is told when the first match of a publisher or querier comes and when the last goes."""

    __slots__ = ("_id", "_writer")

    _kind = "matching listener"

    def __init__(
        self, context: Context, delivery: Delivery[MatchingStatus], writer: Writer, id: int
    ) -> None:
        super().__init__(context, delivery)
        self._writer = writer
        self._id = id

    def _end(self) -> None:
        core = self._context.core
        core.end_listener(self._writer, self._id)


def listen_to_matches(
    context: Context, writer: Writer, handler: AnyHandler[MatchingStatus]
) -> MatchingListener[object]:
    """Declare a matching listener."""
    delivery = Delivery(handler, context.pressure)
    core = context.core
    listener_id = context.call(lambda: core.listen_to_matches(writer, delivery.outlet))
    return MatchingListener(context, delivery, writer, listener_id)
