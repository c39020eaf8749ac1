"""Keys over HTTP: what Eclipse Zenoh's REST plugin does, verb by verb.

    GET, POST        ask; the body of POST is the payload of the query
    PUT, PATCH       publish the body
    DELETE           publish a delete

The path is a key expression, the query string the parameters of a selector; both are
percent-decoded, and `&` separates parameters as `;` does. `@/local` means this node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from elea.encoding import Encoding
from elea.errors import InvalidValueError, SelectorError
from elea.keyexpr.keyexpr import KeyExpr
from elea.parameters import Parameters
from elea.query import ConsolidationMode
from elea.sample import Reply
from elea.selector import Selector, time_range_of
from elea.session.cancellation import CancellationToken
from elea.session.handlers import Callback
from elea.session.rights import Action, Identity, Reason
from elea.web.feed import Feed
from elea.web.payloads import BINARY, Entry
from elea.web.problems import ProblemError
from elea.web.state import State, deadline_of, identity_of, state_of
from elea.web.stream import subscribe
from elea.web.target import key_of, parameters_of

RAW: Final = "_raw"
TIMEOUT: Final = "_timeout"  # seconds; ours, and not passed on
_EVENTS: Final = "text/event-stream"
_HTML: Final = "text/html"
_CUT: Final = b"replies were dropped: too many wait to be sent"


async def keys(request: Request) -> Response:
    """Whatever is asked of a key."""
    reading = request.method in ("GET", "HEAD", "POST")
    return await (answer(request) if reading else publish(request))


async def answer(request: Request) -> Response:
    """GET and POST: ask, or subscribe."""
    state, identity = state_of(request.scope), identity_of(request.scope)
    key = key_of(request.scope, state.session.zid())
    accepted = request.headers.get("accept", "").partition(",")[0].partition(";")[0].strip()
    if accepted == _EVENTS and request.method != "HEAD":
        await permit(state, identity, Action.DECLARE_SUBSCRIBER, str(key))
        return await subscribe(state, identity, key, deadline_of(request.scope))
    parameters = parameters_of(request.scope)
    timeout_s = _timeout(parameters, state.settings.query_timeout_ms / 1e3)
    selector = _selector(key, parameters)
    body = await body_of(request, state)
    encoding = encoding_of(request) if body else None
    told = str(selector.parameters)
    await permit(state, identity, Action.QUERY, str(key), told, has_payload=bool(body))
    await count(state, identity, Action.QUERY, str(key), told, length=len(body))
    entries = ask(state, identity, selector, timeout_s, body or None, encoding)
    if RAW in parameters or accepted == BINARY:
        return await _raw(entries)
    if accepted == _HTML:
        return StreamingResponse(_html(state, entries), media_type=_HTML)
    return StreamingResponse(_json(state, entries), media_type="application/json")


async def publish(request: Request) -> Response:
    """PUT, PATCH and DELETE."""
    state, identity = state_of(request.scope), identity_of(request.scope)
    key = key_of(request.scope, state.session.zid())
    deletes = request.method == "DELETE"
    await permit(state, identity, Action.DELETE if deletes else Action.PUT, str(key))
    if deletes:
        await count(state, identity, Action.DELETE, str(key), length=0)
        await state.call(lambda: state.session.delete(key))
    else:
        encoding = encoding_of(request)
        body = await body_of(request, state)
        await count(state, identity, Action.PUT, str(key), length=len(body))
        await state.call(lambda: state.session.put(key, body, encoding=encoding))
    return Response()


async def permit(
    state: State,
    identity: Identity,
    action: Action,
    key: str,
    parameters: str = "",
    *,
    has_payload: bool = False,
) -> None:
    """Access rules hold for users of REST as for clients.

    Raises:
        ProblemError: they deny it.
    """
    if not state.rights.are_limited:
        return
    why = await state.call(
        lambda: state.rights.refusal(identity, action, key, parameters, has_payload=has_payload)
    )
    if why is not None:
        raise ProblemError(HTTPStatus.FORBIDDEN, why, reason="access")


async def count(
    state: State, identity: Identity, action: Action, key: str, parameters: str = "", *, length: int
) -> None:
    """Filters and quotas hold for users of REST as for clients.

    Raises:
        ProblemError: it is too long, or there are too many.
    """
    excess = await state.call(
        lambda: state.rights.excess(identity, action, key, parameters, length=length)
    )
    if excess is None:
        return
    if excess.reason is Reason.LOW_PASS:
        raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, excess.why, reason="body")
    wait_s = -(-excess.wait_ns // 1_000_000_000)
    headers = {"retry-after": str(wait_s)} if wait_s else None
    raise ProblemError(HTTPStatus.TOO_MANY_REQUESTS, excess.why, reason="rate", headers=headers)


def encoding_of(request: Request) -> Encoding:
    """The encoding that the content type names."""
    try:
        return Encoding(request.headers.get("content-type"))
    except InvalidValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error


async def body_of(request: Request, state: State) -> bytes:
    """The body, if it is short enough and comes in time."""
    most = state.limits.web_body_len
    too_long = ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"at most {most} octets are legal; plugins/rest/body_len sets it",
        reason="body",
        headers={"connection": "close"},
    )
    if _number(request.headers.get("content-length")) > most:
        raise too_long
    parts = bytearray()
    try:
        async with asyncio.timeout(state.limits.web_request_ns / 1e9):
            async for part in request.stream():
                if len(parts) + len(part) > most:
                    raise too_long
                parts += part
    except TimeoutError:
        raise ProblemError(
            HTTPStatus.REQUEST_TIMEOUT, "the body did not come in time", reason="body"
        ) from None
    except ClientDisconnect as error:
        raise ConnectionError("gone") from error
    return bytes(parts)


async def ask(
    state: State,
    identity: Identity,
    selector: Selector,
    timeout_s: float,
    payload: bytes | None,
    encoding: Encoding | None,
) -> AsyncGenerator[Entry, None]:
    """The replies, as they come. One who stops listening ends the query."""
    feed = Feed(state.limits.web_replies_count, state.limits.web_replies_len, budget=state.replies)

    def replied(reply: Reply) -> None:
        sample = reply.ok
        if sample is None or state.may_see(identity, Action.REPLY, str(sample.key_expr)):
            feed.offer(Entry.of_reply(reply))

    token = CancellationToken()
    timed = time_range_of(selector.parameters) is not None
    await state.call(
        lambda: state.session.get(
            selector,
            Callback(replied, feed.end, indirect=False),
            consolidation=ConsolidationMode.NONE if timed else ConsolidationMode.LATEST,
            timeout=timeout_s,
            payload=payload,
            encoding=encoding,
            cancellation_token=token,
        )
    )
    try:
        while (entry := await feed.take()) is not None:
            yield entry
        if feed.dropped_count:
            yield Entry.of_error(_CUT)
    finally:
        state.metrics.replies_dropped.inc(feed.dropped_count)
        if not feed.is_ended:
            state.later(token.cancel)
        feed.close()


async def _raw(entries: AsyncGenerator[Entry, None]) -> Response:
    """The octets of the first reply."""
    async with aclosing(entries):
        async for entry in entries:
            return Response(entry.payload, headers=entry.raw_headers())
    return Response(headers={"content-type": BINARY})


async def _json(state: State, entries: AsyncGenerator[Entry, None]) -> AsyncIterator[bytes]:
    before = b"["
    async for entry in entries:
        yield before + await state.shown(entry, Entry.as_json)
        before = b","
    yield b"[]" if before == b"[" else b"]"


async def _html(state: State, entries: AsyncGenerator[Entry, None]) -> AsyncIterator[bytes]:
    yield b"<dl>\n"
    async for entry in entries:
        yield await state.shown(entry, Entry.as_html)
    yield b"</dl>\n"


def _selector(key: KeyExpr, parameters: Parameters) -> Selector:
    try:
        time_range_of(parameters)
        return Selector(key, parameters)
    except SelectorError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error


def _timeout(parameters: Parameters, most_s: float) -> float:
    """How long to ask; less than what is configured if that is asked for."""
    text = parameters.get(TIMEOUT)
    if text is None:
        return most_s
    parameters.remove(TIMEOUT)
    try:
        asked_s = float(text)
    except ValueError:
        asked_s = 0.0
    if not 0 < asked_s <= most_s:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST,
            f"{TIMEOUT} is {text!a}; legal are seconds, more than 0 and at most {most_s:g}",
        )
    return asked_s


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0
