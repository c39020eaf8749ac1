"""State: what all requests of one service share.

The session's verbs may wait: for the node's lock, and for room at a neighbour. A few threads wait
in place of the event loop. `elea.aio` is no way around that: it would be a node of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from starlette.types import Scope

from elea.session.rights import Action, Flow, Identity, Rights
from elea.session.session import Session
from elea.web.feed import Budget, Feed
from elea.web.metrics import Collect, RestMetrics
from elea.web.payloads import Entry
from elea.web.settings import RestSettings

T = TypeVar("T")

_LONG_LEN: Final = 64 * 1024  # a millisecond or so to read and write as JSON
_STATE: Final = "elea.state"
_DEADLINE: Final = "elea.deadline"
_IDENTITY: Final = "elea.identity"


class State:
    """The session, the bounds, and what goes on."""

    def __init__(self, session: Session, settings: RestSettings) -> None:
        self.session = session
        self.settings = settings
        self.limits = settings.limits
        self.metrics = RestMetrics()
        self.rights = Rights(session)
        self.collect: Collect | None = None
        self.replies = Budget(self.limits.web_replies_len)
        self.waiting = Budget(self.limits.web_streams_len)
        self.streams: dict[Feed, str] = {}  # with the address of the subscriber
        self.stopping = False
        self._pool = ThreadPoolExecutor(self.limits.web_workers_count, "elea-rest")

    async def call(self, function: Callable[[], T]) -> T:
        """What a verb of the session gives, without waiting on the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def may_subscribe(self, identity: Identity, key: str) -> bool:
        """Whether a user may still have a subscription; one that ends is counted."""
        if self.rights.refusal(identity, Action.DECLARE_SUBSCRIBER, key) is None:
            return True
        self.metrics.refusals.labels("access").inc()
        return False

    def may_see(self, identity: Identity, action: Action, key: str) -> bool:
        """Whether a user may be given a sample or reply; one that is kept back is counted."""
        if self.rights.refusal(identity, action, key, flow=Flow.EGRESS) is None:
            return True
        self.metrics.refusals.labels("access").inc()
        return False

    async def shown(self, entry: Entry, form: Callable[[Entry], bytes]) -> bytes:
        """An entry in some form; a long one is not written on the loop."""
        if len(entry) <= _LONG_LEN:
            return form(entry)
        return await self.call(lambda: form(entry))

    def later(self, function: Callable[[], object]) -> None:
        """Have something done that nobody waits for."""
        if not self.stopping:
            self._pool.submit(function)
        else:
            function()  # the pool takes no more

    def stop(self) -> None:
        """End all streams; what is asked from now on is refused."""
        self.stopping = True
        for feed in list(self.streams):
            feed.close()

    def close(self) -> None:
        """Give up the threads."""
        self._pool.shutdown(cancel_futures=True)


def attach(scope: Scope, state: State, identity: Identity, deadline: asyncio.Timeout) -> None:
    """Let a request find the state, who sent it, and until when it has to be done."""
    scope[_STATE], scope[_IDENTITY], scope[_DEADLINE] = state, identity, deadline


def identity_of(scope: Scope) -> Identity:
    """Who sent a request."""
    identity = scope[_IDENTITY]
    assert isinstance(identity, Identity)
    return identity


def state_of(scope: Scope) -> State:
    """The state of a request."""
    state = scope[_STATE]
    assert isinstance(state, State)
    return state


def deadline_of(scope: Scope) -> asyncio.Timeout:
    """Until when a request has to be done; a stream lifts it."""
    deadline = scope[_DEADLINE]
    assert isinstance(deadline, asyncio.Timeout)
    return deadline
