"""Live: one connection of a browser, which asks for each frame.

The server keeps what a browser wants, never a queue of what it did not take: a slow browser, a bad
link or a hidden tab gets fewer frames, and nothing else changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import Final

from starlette.types import Receive, Scope, Send

from elea.json5 import Json
from elea.web.state import State
from elea.web.ui.frames import encode
from elea.web.ui.messages import Drop, Hello, Kind, Message, MessageError, Next, Want, parse
from elea.web.ui.network import Network
from elea.web.ui.paths import PROTOCOL
from elea.web.ui.tickets import Tickets
from elea.web.ui.views import Sources, View, view_of
from elea.web.ui.watch import Watch, Watched

NO_TICKET: Final = 4401  # close codes; 4000 and more are for applications
NOT_LEGAL: Final = 4400
SILENT: Final = 4408
ENDS: Final = 1001
_HEARTBEAT_S: Final = 1.0
_POLL_S: Final = 0.1  # until a view that had nothing new is asked again
_PAUSE_S: Final = 0.02
_REST: Final = 4  # of the time that parts took: whatever a browser wants, others are served


_WATCHING: Final = (Kind.ROWS, Kind.SERIES, Kind.VALUE)


class CloseError(Exception):
    """The connection ends, with a code and a reason for the browser."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Live:
    """One connection, from its first message to its end."""

    def __init__(self, state: State, network: Network, watch: Watch, tickets: Tickets) -> None:
        self._state = state
        self._network = network
        self._watch = watch
        self._tickets = tickets
        self._views: dict[int, View] = {}
        self._due_s: dict[int, float] = {}
        self._sources: Sources | None = None
        self._credits = 0
        self._asked_s = time.monotonic()
        self._changed = asyncio.Event()  # a message came
        self._wants_changed = False
        self._retry_s = math.inf  # keys that were left out
        self._sent_count = 0
        self._second = 0
        self._messages_count = 0

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it until either side has enough."""
        await send({"type": "websocket.accept", "subprotocol": PROTOCOL})
        self._state.metrics.ui_connections.inc()
        reading: asyncio.Task[None] | None = None
        try:
            await self._hello(scope, receive)
            reading = asyncio.create_task(self._read(receive))
            await self._write(send, reading)
        except CloseError as closed:
            if closed.code in (NO_TICKET, NOT_LEGAL):
                self._state.metrics.refusals.labels("live").inc()
            with contextlib.suppress(OSError, RuntimeError):
                await send(
                    {"type": "websocket.close", "code": closed.code, "reason": closed.reason[:120]}
                )
        except (OSError, TimeoutError):
            pass  # the browser is gone, or takes nothing
        finally:
            if reading is not None:
                reading.cancel()
            self._state.metrics.ui_connections.dec()
            self._leave_all()

    async def _hello(self, scope: Scope, receive: Receive) -> None:
        try:
            async with asyncio.timeout(self._state.limits.ui_hello_ns / 1e9):
                message = await self._next_message(receive)
        except TimeoutError:
            raise CloseError(NO_TICKET, "no hello in time") from None
        client = scope.get("client")
        host = "" if client is None else client[0]
        identity = None
        if isinstance(message, Hello):
            identity = self._tickets.take(message.ticket, host, time.monotonic_ns())
        if identity is None:
            raise CloseError(NO_TICKET, "the ticket is unknown, used or too old")
        self._sources = Sources(self._state, self._network, self._watch, identity)

    async def _read(self, receive: Receive) -> None:
        """Take what the browser says, until it is gone."""
        while True:
            self._take(await self._next_message(receive))
            self._changed.set()

    def _take(self, message: Message) -> None:
        assert self._sources is not None
        match message:
            case Next():
                self._credits = min(self._credits + 1, self._state.limits.ui_credits_count)
                self._asked_s = time.monotonic()
            case Want():
                count_max = self._state.limits.ui_wants_count
                if message.id not in self._views and len(self._views) >= count_max:
                    raise CloseError(NOT_LEGAL, f"more than {count_max} wants")
                self._drop(message.id)
                self._views[message.id] = view_of(message, self._sources)
                self._due_s[message.id] = 0.0
                self._wants_changed |= message.kind in _WATCHING
            case Drop():
                self._drop(message.id)
            case Hello():
                raise CloseError(NOT_LEGAL, "a second hello")

    def _drop(self, number: int) -> None:
        self._due_s.pop(number, None)
        view = self._views.pop(number, None)
        if view is not None:
            view.leave()
            self._wants_changed |= bool(view.watched())

    async def _next_message(self, receive: Receive) -> Message:
        event = await receive()
        if event["type"] != "websocket.receive":
            raise ConnectionError("gone")
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._messages_count = second, 0
        self._messages_count += 1
        if self._messages_count > self._state.limits.ui_messages_count:
            raise CloseError(NOT_LEGAL, "too many messages in a second")
        text = event.get("text")
        if not isinstance(text, str):
            raise CloseError(NOT_LEGAL, "expected text messages")
        try:
            return parse(text, self._state.limits)
        except MessageError as error:
            raise CloseError(NOT_LEGAL, str(error)) from None

    async def _write(self, send: Send, reading: asyncio.Task[None]) -> None:
        """Send a frame for each credit: at once if something is new, else with a heartbeat."""
        sent_s = 0.0
        while True:
            self._changed.clear()
            if reading.done():
                reading.result()  # raises why
            if self._state.stopping:
                raise CloseError(ENDS, "the router ends")
            await self._follow_wants()
            now_s = time.monotonic()
            if now_s - self._asked_s > self._state.limits.ui_silent_ns / 1e9:
                raise CloseError(SILENT, "no frame was asked for")
            asked = self._credits > 0
            parts = self._parts(now_s) if asked else []
            await asyncio.sleep(_REST * (time.monotonic() - now_s))
            if asked and (parts or now_s - sent_s >= _HEARTBEAT_S):
                self._credits -= 1
                sent_s = now_s
                await self._send(send, parts)
                continue
            wait_s = self._pause_s(sent_s) if self._credits else _HEARTBEAT_S
            changed = asyncio.create_task(self._changed.wait())
            await asyncio.wait(
                (changed, reading), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
            changed.cancel()

    def _parts(self, now_s: float) -> list[dict[str, Json]]:
        parts: list[dict[str, Json]] = []
        for number, view in self._views.items():
            if now_s < self._due_s[number]:
                continue
            part = view.part()
            if part is not None:
                parts.append({"w": number, **part})
            self._due_s[number] = now_s + (_POLL_S if part is None else view.period_s)
        return parts

    def _pause_s(self, sent_s: float) -> float:
        """How long nothing can be due, if no message comes."""
        due_s = min((sent_s + _HEARTBEAT_S, *self._due_s.values()))
        return min(max(due_s - time.monotonic(), _PAUSE_S), _HEARTBEAT_S)

    async def _send(self, send: Send, parts: list[dict[str, Json]]) -> None:
        self._sent_count += 1
        frame = encode(self._sent_count, time.time(), parts)
        self._state.metrics.ui_frames.inc()
        self._state.metrics.ui_bytes.inc(len(frame))
        async with asyncio.timeout(self._state.limits.web_stall_ns / 1e9):
            await send({"type": "websocket.send", "bytes": frame})

    async def _follow_wants(self) -> None:
        """Watch the keys in view, and no others; none if no frame was asked for lately."""
        sources = self._sources
        assert sources is not None
        idle_s = time.monotonic() - self._asked_s
        is_idle = idle_s > self._state.limits.ui_idle_ns / 1e9
        is_retried = time.monotonic() >= self._retry_s
        if not (self._wants_changed or is_retried) and not (is_idle and sources.values):
            return
        self._wants_changed = is_idle  # they are watched again when a frame is asked for
        wanted = set[str]()
        if not is_idle:
            keys = {key for view in self._views.values() for key in view.watched()}
            wanted.update(await self._state.call(lambda: set(filter(sources.may_watch, keys))))
        held = {key for key, one in sources.values.items() if not one.left_out}
        gone = [sources.values.pop(key) for key in list(sources.values.keys() - (wanted & held))]
        new = wanted - sources.values.keys()
        if gone or new:
            sources.values |= await self._state.call(lambda: self._exchange(gone, new))
        is_cut = any(one.left_out for one in sources.values.values())
        self._retry_s = time.monotonic() + _HEARTBEAT_S if is_cut else math.inf

    def _exchange(self, gone: list[Watched], new: set[str]) -> dict[str, Watched]:
        """Called by a worker."""
        for watched in gone:
            self._watch.leave(watched)
        return {key: self._watch.enter(key) for key in new}

    def _leave_all(self) -> None:
        for view in self._views.values():
            view.leave()
        if self._sources is not None and self._sources.values:
            gone, self._sources.values = list(self._sources.values.values()), {}
            self._state.later(lambda: self._exchange(gone, set()))
