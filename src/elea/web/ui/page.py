"""Page: the requests of the page, and its live connections."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from elea import version
from elea.errors import KeyExprError, LimitError, SelectorError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.operate.checks import Diagnosis, diagnose
from elea.operate.payload_text import payload_lines
from elea.operate.text import escape
from elea.operate.walk import Step
from elea.selector import Selector
from elea.session.rights import Action, bucket_of, only_reads
from elea.timestamp import Timestamp
from elea.web.payloads import ERROR_KEY, Entry
from elea.web.problems import ProblemError
from elea.web.rest import ask, count, permit
from elea.web.state import State, identity_of
from elea.web.ui.assets import Assets
from elea.web.ui.history import History, json_of
from elea.web.ui.live import Live
from elea.web.ui.network import Network
from elea.web.ui.operating import Operating, may_operate
from elea.web.ui.paths import ABOUT, LIVE, PROTOCOL, ROOT, is_shell
from elea.web.ui.tickets import Tickets
from elea.web.ui.watch import Watch
from elea.zbytes import ZBytes

_NODES: Final = "@/*/*"
_LINES_COUNT: Final = 200  # lines of one reply
_WHYS_COUNT: Final = 2  # at once: each holds a worker for seconds
Endpoint = Callable[[Request], Awaitable[Response]]


class Page:
    """What a browser asks of the page.

    Args:
        state: Of the service.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.assets = Assets()
        self.tickets = Tickets(state.limits)
        self.network = Network(state)
        self.watch = Watch(state.session, state.limits)
        self.addresses: Counter[str] = Counter()  # live connections
        self._whys_count = 0
        self.history = History(state)
        self.operating = Operating(state)
        self._endpoints: dict[tuple[str, str], Endpoint] = {
            ("GET", ABOUT): self._about,
            ("POST", f"{ROOT}ticket"): self._ticket,
            ("GET", f"{ROOT}keyexpr"): self._keyexpr,
            ("POST", f"{ROOT}why"): self._why,
            ("POST", f"{ROOT}query"): self._query,
            ("POST", f"{ROOT}series"): self.history.answer,
            ("POST", f"{ROOT}put"): self.operating.put,
            ("POST", f"{ROOT}sql"): self.operating.sql,
        }

    async def answer(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            ProblemError: there is no such thing, or it is refused.
        """
        if is_shell(request.scope):
            if request.scope["path"] == "/":
                return self.assets.page(request)
            file = self.assets.file(request)
            if file is not None:
                return file
        method = "GET" if request.method == "HEAD" else request.method
        endpoint = self._endpoints.get((method, request.scope["path"]))
        if endpoint is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "the page has nothing of this name")
        return await endpoint(request)

    async def live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket whose origin was checked.

        Raises:
            ProblemError: it is no live connection of the page, or there are too many.
        """
        await receive()  # that it wants to connect
        if scope["path"] != LIVE or PROTOCOL not in scope.get("subprotocols", ()):
            raise ProblemError(
                HTTPStatus.NOT_FOUND, f"WebSockets are served at {LIVE}, protocol {PROTOCOL}"
            )
        client = scope.get("client")
        address = bucket_of("" if client is None else client[0])
        limits = self._state.limits
        if (
            self.addresses.total() >= limits.ui_connections_count
            or self.addresses[address] >= limits.ui_connections_per_address_count
            or self._state.stopping
        ):
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self.addresses[address]} pages of this address are connected",
                reason="pages",
                headers={"retry-after": "5"},
            )
        self.addresses[address] += 1
        try:
            connection = Live(self._state, self.network, self.watch, self.tickets)
            await connection.run(scope, receive, send)
        finally:
            self.addresses[address] -= 1
            if not self.addresses[address]:
                del self.addresses[address]

    async def _about(self, request: Request) -> Response:
        """What runs here; no data."""
        return JSONResponse(
            {
                "version": version.VERSION,
                "protocol": PROTOCOL,
                "base": self.assets.base,
                "needs_token": self._state.settings.viewing_needs_token,
                "may_operate": may_operate(self._state, identity_of(request.scope)),
            }
        )

    async def _ticket(self, request: Request) -> Response:
        identity = identity_of(request.scope)
        return JSONResponse({"ticket": self.tickets.issue(identity, time.monotonic_ns())})

    async def _keyexpr(self, request: Request) -> Response:
        """What a text is as a key expression."""
        text = request.query_params.get("text", "")
        try:
            key = KeyExpr.autocanonize(text)
        except (KeyExprError, LimitError) as error:
            return JSONResponse({"legal": False, "reason": escape(str(error))})
        legal = str(key) == text
        return JSONResponse({"legal": legal, "canonical": str(key), "shown": escape(str(key))})

    async def _why(self, request: Request) -> Response:
        key = str((await json_of(request, self._state)).get("key", ""))
        identity = identity_of(request.scope)
        await permit(self._state, identity, Action.QUERY, _NODES)
        if _is_legal(key):  # it is looked whether a sample comes
            await permit(self._state, identity, Action.DECLARE_SUBSCRIBER, key)
        if self._whys_count >= _WHYS_COUNT:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{_WHYS_COUNT} keys are being looked at; try again in some seconds",
                reason="pages",
                headers={"retry-after": "3"},
            )
        self._whys_count += 1
        try:
            found = await self._state.call(lambda: diagnose(self.network.space, key))
        finally:
            self._whys_count -= 1
        return JSONResponse(_diagnosis(found))

    async def _query(self, request: Request) -> Response:
        """Ask, with bounds: only what reads."""
        state, identity = self._state, identity_of(request.scope)
        text = str((await json_of(request, state)).get("selector", ""))
        try:
            selector = Selector(text)
        except (KeyExprError, LimitError, SelectorError) as error:
            raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error
        key, parameters = str(selector.key_expr), str(selector.parameters)
        if not only_reads(key):
            raise ProblemError(
                HTTPStatus.FORBIDDEN,
                f"a query on {escape(key)} may write; the page only reads",
                reason="access",
            )
        await permit(state, identity, Action.QUERY, key, parameters)
        await count(state, identity, Action.QUERY, key, parameters, length=0)
        rows: list[Json] = []
        length = left_out = 0
        timeout_s = state.settings.query_timeout_ms / 1e3
        async with aclosing(ask(state, identity, selector, timeout_s, None, None)) as entries:
            async for entry in entries:
                full = len(rows) >= state.limits.ui_replies_count
                if full or length >= state.limits.ui_replies_len:
                    left_out += 1
                    continue
                row, shown_len = _row(entry, state.limits.ui_value_len)
                rows.append(row)
                length += shown_len
        return JSONResponse({"rows": rows, "left_out": left_out})


def _is_legal(key: str) -> bool:
    try:
        KeyExpr(key)
    except (KeyExprError, LimitError):
        return False
    return True


def _row(entry: Entry, value_len: int) -> tuple[Json, int]:
    """A reply as it is shown, and how many characters that are."""
    payload = entry.payload[:value_len]
    _, lines = payload_lines(ZBytes(payload), entry.encoding)
    lines = [one[:4_000] for one in lines[:_LINES_COUNT]]
    row: dict[str, Json] = {
        "key": escape(entry.key),
        "error": entry.kind == ERROR_KEY,
        "encoding": escape(str(entry.encoding)),
        "timestamp": escape(_time(entry.timestamp)),
        "length": len(entry.payload),
        "lines": list(lines),
    }
    return row, sum(map(len, lines)) + len(entry.key)


def _time(stamp: str | None) -> str:
    """A timestamp as a time of day, which people read."""
    return "" if stamp is None else Timestamp.parse(stamp).to_string_rfc3339_lossy()


def _diagnosis(found: Diagnosis) -> Json:
    labels = found.labels
    ways: list[Json] = []
    for zid, steps in found.ways:
        assert labels is not None  # ways are of nodes
        rows: list[Json] = []
        for depth, step in steps:
            name = _step(step, labels.label(step.hop.zid, step.hop.role))
            rows.append([depth, name, step.takes, *_more(step)])
        ways.append({"from": escape(labels.label(zid)), "steps": rows})
    return {
        "key": escape(found.key),
        "verdict": {"state": found.verdict.state, "text": escape(found.verdict.text)},
        "checks": [[one.name, one.state, escape(one.text)] for one in found.checks],
        "ways": ways,
    }


def _step(step: Step, label: str) -> str:
    if step.hop.local:
        return "an application of the node itself"
    return "a multicast group" if step.hop.group else escape(label)


def _more(step: Step) -> list[Json]:
    return [escape(", ".join(step.hop.why)), escape(step.note), bool(step.hop.refused)]
