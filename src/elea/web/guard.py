"""Guard: who may ask at all. Around the whole application, before anything is looked up.

A page that a person visits can make their browser send requests to this host, under a name of its
own choosing (DNS rebinding) or from an origin of its own. So the name in `Host` has to be known, a
page of another origin is refused unless it is listed, and nothing is ever granted by a cookie.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import time
from collections import deque
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elea.errors import ClosedError
from elea.limits import Limits
from elea.secret import Secret
from elea.session.rights import Identity, bucket_of, identity_of, only_reads
from elea.web.names import COMMON_NAME
from elea.web.problems import ProblemError
from elea.web.settings import ANY_ORIGIN, EVERYTHING, OPERATOR
from elea.web.state import State, attach
from elea.web.target import key_of
from elea.web.ui.paths import ABOUT, is_navigation, is_page, is_shell

_LOG: Final = logging.getLogger("elea.web")
_AUDIT: Final = logging.getLogger("elea.web.audit")
METHODS: Final = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_READING: Final = ("GET", "HEAD")
_UNGUARDED: Final = ("/health", "/ready")
_TRUSTED_SITES: Final = ("same-origin", "none")
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """Refuses strangers, counts, and makes every answer harmless to a browser."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = app
        self._state = state
        self._metrics = state.metrics
        self._settings = settings = state.settings
        self._guesses = Guesses(settings.limits)
        self._audit = Audit(settings.limits.web_refusals_logged_count)
        self._deadline_s = settings.limits.web_request_ns / 1e9 + settings.query_timeout_ms / 1e3

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._guard_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"a scope of type {scope['type']!a} is not served")
        status = 0

        async def guarded_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        problem: ProblemError | None = None
        try:
            identity = self._check(scope)
            async with asyncio.timeout(self._deadline_s) as deadline:
                attach(scope, self._state, identity, deadline)
                await self._app(scope, receive, guarded_send)
        except Exception as error:  # a bug of ours too: the others are served all the same
            problem = _problem(error, scope)
        if problem is not None:
            self._metrics.refusals.labels(problem.reason).inc()
            self._audit.refused(scope, problem)
            if not status:  # else the connection is cut, which is how the client learns of it
                await problem.response()(scope, receive, guarded_send)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.requests.labels(method, str(status)).inc()

    async def _guard_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a WebSocket of strangers before it is accepted."""
        accepted = False

        async def guarded_send(message: Message) -> None:
            nonlocal accepted
            accepted = accepted or message["type"] == "websocket.accept"
            await send(message)

        try:
            self._check_socket(scope)
            await self._app(scope, receive, guarded_send)
        except Exception as error:  # a bug of ours too: the others are served all the same
            problem = _problem(error, scope)
            if problem is None:
                return
            self._metrics.refusals.labels(problem.reason).inc()
            self._audit.refused(scope, problem)
            if not accepted:
                await problem.response()(scope, receive, send)

    def _check_socket(self, scope: Scope) -> None:
        """A browser lets any page open a WebSocket: so it has to say which one does."""
        if not self._settings.dashboard:
            raise ProblemError(HTTPStatus.NOT_FOUND, "no WebSocket is served here")
        headers = Headers(scope=scope)
        self._check_host(headers)
        origin = headers.get("origin", "").lower()
        scheme = "https" if self._settings.is_encrypted else "http"
        own = f"{scheme}://{headers['host'].lower()}"
        if origin != own and origin not in self._settings.allowed_origins - {ANY_ORIGIN}:
            raise ProblemError(
                HTTPStatus.FORBIDDEN,
                f"a page of {origin or 'no origin'!a} opens a WebSocket; {own} may",
                reason="origin",
            )

    def _check(self, scope: Scope) -> Identity:
        """Who sends a request, if it may."""
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            raise ProblemError(  # two ends of one body: somebody before us may take the other
                HTTPStatus.BAD_REQUEST,
                "Content-Length and Transfer-Encoding in one request; send one of them",
                reason="http",
                headers={"connection": "close"},
            )
        self._check_host(headers)
        has_page = self._settings.dashboard
        is_open = has_page and is_shell(scope)  # the page and its files: they hold no data
        if not (is_open and is_navigation(scope)):
            self._check_origin(headers)
        user = self._user(scope, headers)
        method = scope["method"]
        if method in _READING and _has_body(headers):
            raise ProblemError(  # it would be the payload of a query, which may write
                HTTPStatus.BAD_REQUEST,
                f"a {method} with a body; send a query with a payload as POST",
                reason="body",
                headers={"connection": "close"},
            )
        if has_page and is_page(scope):  # it only reads, whatever the method
            if not is_open and self._settings.viewing_needs_token and scope["path"] != ABOUT:
                self._check_token(user)
        elif method not in ("OPTIONS", *_READING):
            self._check_token(user)
        elif method != "OPTIONS":
            if self._settings.protect == EVERYTHING and scope["path"] not in _UNGUARDED:
                self._check_token(user)
            self._check_effect(scope, user)
        return self._identity(scope, user)

    def _check_effect(self, scope: Scope, user: str | None) -> None:
        """A query to a service may write, whatever the method is called."""
        try:
            key = str(key_of(scope, self._state.session.zid()))
        except ProblemError:
            return  # no key: the application says so
        if only_reads(key):
            return
        self._check_token(user)
        if user is None:  # there is no token: at least no link or image may do it
            raise ProblemError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"a query on {key} may write; send it as POST",
                headers={"allow": "POST"},
            )

    def _identity(self, scope: Scope, user: str | None) -> Identity:
        client, server = scope.get("client"), scope.get("server")
        return identity_of(
            "https" if self._settings.is_encrypted else "http",
            "" if client is None else client[0],
            user=user,
            common_name=scope.get(COMMON_NAME),
            server_address=None if server is None else server[0],
        )

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        name = _host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None or not (name in self._settings.allowed_hosts or _is_own(name)):
            shown = ", ".join(hosts) or "nothing"
            raise ProblemError(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"Host says {shown!a}; legal are addresses, localhost and the names in"
                " plugins/rest/allowed_hosts",
                reason="host",
            )

    def _check_origin(self, headers: Headers) -> None:
        allowed = self._settings.allowed_origins
        origin = headers.get("origin")
        if ANY_ORIGIN in allowed or (origin is not None and origin.lower() in allowed):
            return
        site = headers.get("sec-fetch-site", "none")
        same = origin is None or origin.lower().partition("://")[2] == headers["host"].lower()
        if not same or site not in _TRUSTED_SITES:
            raise ProblemError(
                HTTPStatus.FORBIDDEN,
                f"a page of {origin or 'another site'!a} asks; origins in"
                " plugins/rest/allowed_origins may",
                reason="origin",
            )

    def _user(self, scope: Scope, headers: Headers) -> str | None:
        """Whose token a request shows; a wrong one is refused, even where none is needed."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        tokens = dict(self._settings.tokens)
        if self._settings.operate is not None:
            tokens[OPERATOR] = self._settings.operate
        if scheme.lower() != "bearer" or not tokens:
            return None
        client = scope.get("client")
        address = bucket_of("" if client is None else client[0])
        now_ns = time.monotonic_ns()
        wait_ns = self._guesses.wait_ns(address, now_ns)
        if wait_ns:  # a right one too, or the answer would tell that it is right
            wait_s = -(-wait_ns // 1_000_000_000)
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many wrong tokens came from this address; try again in {wait_s} s",
                reason="token",
                headers={"retry-after": str(wait_s)},
            )
        shown = Secret(given.strip())
        users = [name for name, token in tokens.items() if shown == token]
        if not users:
            self._guesses.add(address, now_ns)
            raise _unauthorized("the token is not one of the server: revoked, or mistyped")
        return users[0]

    def _check_token(self, user: str | None) -> None:
        if self._settings.tokens and user is None:
            raise _unauthorized(
                "this needs the header Authorization: Bearer TOKEN, with a token of the server"
            )


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.UNAUTHORIZED,
        detail,
        reason="token",
        headers={"www-authenticate": 'Bearer realm="elea"'},
    )


class Guesses:
    """Counts wrong tokens by address, so that nobody can try many.

    Args:
        limits: How many are let pass in what time, and how many addresses are remembered.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._times: dict[str, deque[int]] = {}  # the address that failed longest ago is first

    def __len__(self) -> int:
        return len(self._times)

    def add(self, address: str, now_ns: int) -> None:
        """A wrong token came."""
        times = self._times.pop(address, None)
        if times is None:
            times = deque(maxlen=self._limits.web_wrong_tokens_count)
        while len(self._times) >= self._limits.web_wrong_addresses_count:
            del self._times[next(iter(self._times))]
        times.append(now_ns)
        self._times[address] = times

    def wait_ns(self, address: str, now_ns: int) -> int:
        """How long an address has to wait until it may show a token again."""
        times = self._times.get(address)
        if times is None or len(times) < self._limits.web_wrong_tokens_count:
            return 0
        return max(0, times[0] + self._limits.web_wrong_tokens_ns - now_ns)


class Audit:
    """Says in the log who was refused what, as JSON lines, so many per second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = 0
        self._count = 0

    def refused(self, scope: Scope, problem: ProblemError) -> None:
        """Log a refusal; what is merely not legal is for who asked alone."""
        if problem.reason == "request":
            return
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count <= self._per_second:
            client = scope.get("client")
            line = {
                "refused": problem.reason,
                "status": problem.status.value,
                "client": None if client is None else client[0],
                "method": scope.get("method", "WebSocket")[:16],
                "path": scope["path"][:256],
            }
            _AUDIT.warning("%s", json.dumps(line))


def _problem(error: Exception, scope: Scope) -> ProblemError | None:
    """What to answer; None if nobody is there to hear it."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, TimeoutError):
        return ProblemError(HTTPStatus.GATEWAY_TIMEOUT, "it took too long", reason="deadline")
    if isinstance(error, ClosedError):
        return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "the router ends")
    if isinstance(error, OSError):
        return None
    method = scope.get("method", "WebSocket")
    _LOG.error("%s %a failed", method, scope["path"][:256], exc_info=error)
    return ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR, "an error of ours; the log tells more", reason="error"
    )


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def _host_name(text: str) -> str | None:
    """The name in `name:port` or `[address]:port`."""
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port  # raises for what is no port
    except ValueError:
        return None
    plain = parts.netloc == text and parts.username is None and port != 0
    return (parts.hostname or "").rstrip(".") or None if plain else None


def _is_own(name: str) -> bool:
    """Whether no name service was asked for it: then nobody else chose where it leads."""
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
