"""Server-sent events: a subscription that lasts as long as the connection.

Each has a bounded queue that keeps the newest samples. A browser that is slow loses the oldest, is
told how many by the event `DROPPED`, and disturbs nobody else; one that takes nothing is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from http import HTTPStatus
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elea.errors import ClosedError
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.session.handlers import Callback
from elea.session.rights import Action, Identity, bucket_of
from elea.session.subscriber import Subscriber
from elea.web.feed import Feed
from elea.web.payloads import Entry
from elea.web.problems import ProblemError
from elea.web.state import State

KEEP_ALIVE_S: Final = 15.0  # proxies let go of a connection that is silent for a minute
_KEEP_ALIVE: Final = b": keep-alive\n\n"


async def subscribe(
    state: State, identity: Identity, key: KeyExpr, deadline: asyncio.Timeout
) -> Response:
    """Declare a subscriber, and answer with those of its samples that a user may see.

    Raises:
        ProblemError: there are enough of them.
    """
    limits = state.limits
    address = bucket_of(identity.links[0].address)
    own_count = sum(one == address for one in state.streams.values())
    if len(state.streams) >= limits.web_streams_count or state.stopping:
        raise _too_many(f"{len(state.streams)} subscriptions are open", "streams_count")
    if own_count >= limits.web_streams_per_address_count:
        what = f"{own_count} subscriptions of {address} are open"
        raise _too_many(what, "streams_per_address_count")
    feed = Feed(
        limits.web_stream_queue_count,
        limits.web_stream_queue_len,
        ring=True,
        budget=state.waiting,
    )
    state.streams[feed] = address

    def received(sample: Sample) -> None:
        # Rules may have changed since it was declared: the stream ends, and its client is told why
        # when it asks again.
        if not state.may_subscribe(identity, str(key)):
            feed.end()
            return
        action = Action.PUT if sample.kind is SampleKind.PUT else Action.DELETE
        if state.may_see(identity, action, str(sample.key_expr)):
            feed.offer(Entry.of_sample(sample))

    try:
        subscriber = await state.call(
            lambda: state.session.declare_subscriber(
                key, Callback(received, feed.end, indirect=False)
            )
        )
    except BaseException:
        del state.streams[feed]
        raise
    deadline.reschedule(None)
    return EventStream(state, feed, subscriber)


def _too_many(what: str, key: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"{what}; plugins/rest/{key} sets how many may be",
        reason="streams",
        headers={"retry-after": "5"},
    )


class EventStream(Response):
    """Sends what comes in until one side has enough."""

    def __init__(self, state: State, feed: Feed, subscriber: Subscriber[None]) -> None:
        super().__init__(headers={"content-type": "text/event-stream", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._state = state
        self._feed = feed
        self._subscriber = subscriber
        self._told_count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run it."""
        self._state.metrics.streams.inc()
        watching = asyncio.create_task(self._until_gone(receive))
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await self._send(send, start)
            while (chunk := await self._next()) is not None:
                await self._send(
                    send, {"type": "http.response.body", "body": chunk, "more_body": True}
                )
                # Neither sending nor taking has to wait: let the loop tell that the peer is gone.
                await asyncio.sleep(0)
            await self._send(send, {"type": "http.response.body", "body": b""})
        except TimeoutError:
            raise ConnectionError("it takes nothing") from None
        finally:
            watching.cancel()
            self._finish()

    async def _next(self) -> bytes | None:
        """What is to be sent next; None at the end."""
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                entry = await self._feed.take()
        except TimeoutError:
            return _KEEP_ALIVE
        if entry is None:
            return None
        self._state.metrics.stream_samples.inc()
        return self._dropped() + await self._state.shown(entry, Entry.as_event)

    def _dropped(self) -> bytes:
        """Word of what was lost since the last time."""
        lost_count = self._feed.dropped_count - self._told_count
        if not lost_count:
            return b""
        self._told_count += lost_count
        self._state.metrics.stream_dropped.inc(lost_count)
        return b"event: DROPPED\ndata: %b\n\n" % json.dumps({"count": lost_count}).encode()

    async def _send(self, send: Send, message: dict[str, object]) -> None:
        async with asyncio.timeout(self._state.limits.web_stall_ns / 1e9):
            await send(message)

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._feed.close()

    def _finish(self) -> None:
        state = self._state
        self._feed.close()
        self._dropped()
        state.streams.pop(self._feed, None)
        state.metrics.streams.dec()

        def undeclare() -> None:
            with contextlib.suppress(ClosedError):
                self._subscriber.undeclare()

        state.later(undeclare)
