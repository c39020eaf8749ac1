"""The application: routes, and what stands around them.

Every path is a key, as in Eclipse Zenoh, but for GET on the few in `FIXED`, and for the page: it is
`/` for browsers, and everything below `/@elea/ui/`. A key of a fixed name is asked for and
subscribed to by POST, which does what GET does.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from elea.web import openapi
from elea.web.guard import Guard
from elea.web.problems import ProblemError
from elea.web.rest import keys
from elea.web.settings import ANY_ORIGIN
from elea.web.state import State, state_of
from elea.web.target import parameters_of
from elea.web.ui.page import Page
from elea.web.ui.paths import is_page

KEY_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
Endpoint = Callable[[Request], Awaitable[Response]]


async def health(request: Request) -> Response:
    """Whether the process answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """Whether requests can be served."""
    state = state_of(request.scope)
    if state.stopping or state.session.is_closed():
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "the router ends")
    return JSONResponse({"status": "ready", "zid": str(state.session.zid())})


async def metrics(request: Request) -> Response:
    """What was counted."""
    state = state_of(request.scope)
    per_transport = parameters_of(request.scope).get("per_transport") == "true"
    accept = request.headers.get("accept", "")
    body, content_type = await state.call(
        lambda: state.metrics.text(accept, state.collect, per_transport=per_transport)
    )
    return Response(body, headers={"content-type": content_type})


async def description(request: Request) -> Response:
    """What this is, for tools."""
    return Response(json.dumps(openapi.describe()), media_type="application/json")


FIXED: Final[dict[str, Endpoint]] = {
    "/health": health,
    "/ready": ready,
    "/metrics": metrics,
    "/openapi.json": description,
}


async def route(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request. Keys are any text: there is no pattern to match them by."""
    request = Request(scope, receive)
    endpoint: Endpoint = keys
    if request.method in ("GET", "HEAD"):
        endpoint = FIXED.get(scope["path"], keys)
    if request.method not in KEY_METHODS:
        raise ProblemError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"legal are {', '.join(KEY_METHODS)}",
            headers={"allow": ", ".join(KEY_METHODS)},
        )
    response = await endpoint(request)
    await response(scope, receive, send)


def application(state: State) -> ASGIApp:
    """All of it, with its guard."""
    origins = state.settings.allowed_origins
    app: ASGIApp = _with_page(Page(state)) if state.settings.dashboard else route
    if origins:
        app = CORSMiddleware(
            app,
            allow_origins=[ANY_ORIGIN] if ANY_ORIGIN in origins else sorted(origins),
            allow_methods=KEY_METHODS,
            allow_headers=["authorization", "content-type"],
        )
    return Guard(app, state)


def _with_page(page: Page) -> ASGIApp:
    """The application with the page in front of the keys."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await page.live(scope, receive, send)
        elif is_page(scope):
            response = await page.answer(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await route(scope, receive, send)

    return serve
