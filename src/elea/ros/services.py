"""Servers and clients of services, as rmw_zenoh has them (section 8)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from elea.choices import ROS_CALL_S, ROS_SERVER_WAIT_S
from elea.errors import (
    DecodeError,
    EleaError,
    NoServerError,
    ServiceError,
    ServiceTimeoutError,
)
from elea.limits import DEFAULT_LIMITS
from elea.query import ConsolidationMode, QueryTarget
from elea.ros.context import Context
from elea.ros.endpoints import Endpoint, data_key, is_async
from elea.ros.formats.attachment import ATTACHMENT_LEN, Attachment, parse_attachment
from elea.ros.formats.library import ServiceType
from elea.ros.formats.messages import Message, MessageInfo
from elea.ros.formats.tokens import BridgeToken, Token
from elea.sample import Reply
from elea.session.handlers import Callback
from elea.session.query import Query

_log: Final = logging.getLogger("elea.ros")
_WORKERS_COUNT: Final = 4  # requests of one server at once, each of another client
FOREVER_S: Final = 10.0 * 365 * 24 * 3600  # for results of actions (R2-283)
CALL_S: Final = ROS_CALL_S
WAIT_S: Final = ROS_SERVER_WAIT_S
_TIMEOUT: Final = "Timeout"  # the error of the session or a router for a request without a reply

Handle = Callable[..., Any]


class Service(Endpoint):
    """Answers requests; made by `Node.create_service`.

    Args:
        handle: Called with a request, and as rclpy does with an empty response if it takes two;
            returns the response: an object or a mapping.

    Attributes:
        requests: How many came.
        refused: Those that got an error reply.
    """

    def __init__(
        self, context: Context, token: Token | BridgeToken, kind: ServiceType, handle: Handle
    ) -> None:
        super().__init__(context, token, hidden=False)
        self.kind = kind
        self.requests = 0
        self.refused = 0
        self._handle = handle
        self._takes_two = _parameters_count(handle) == 2
        self._key = data_key(context, token)
        self._lock = threading.Lock()
        self._waiting: dict[bytes, deque[tuple[Query, Attachment | None]]] = {}
        self._waiting_count = 0
        self._workers = ThreadPoolExecutor(_WORKERS_COUNT, f"ros2 service {token.name}")
        self._queryable = context.session.declare_queryable(self._key, self._heard, complete=True)
        self._announce()

    @property
    def service_name(self) -> str:
        """The fully qualified name."""
        return self.token.name

    def _end(self) -> None:
        self._queryable.undeclare()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _heard(self, query: Query) -> None:
        """Requests of one client wait for each other, those of others do not (R2-287)."""
        self.requests += 1
        octets = None if query.attachment is None else query.attachment.to_bytes()
        attachment = None if octets is None else parse_attachment(octets)
        if attachment is None and not isinstance(self.token, BridgeToken):
            self._refuse(query, f"attachment expected: {ATTACHMENT_LEN} bytes")
            return
        client = b"" if attachment is None else attachment.gid
        with self._lock:
            if self._waiting_count >= DEFAULT_LIMITS.ros2_requests_count:
                limit = DEFAULT_LIMITS.ros2_requests_count
                self._refuse(query, f"busy: {limit} requests wait (ros2_requests_count)")
                return
            self._waiting_count += 1
            line = self._waiting.get(client)
            if line is not None:
                line.append((query, attachment))
                return
            self._waiting[client] = deque([(query, attachment)])
        self._workers.submit(self._serve, client)

    def _serve(self, client: bytes) -> None:
        while True:
            with self._lock:
                line = self._waiting[client]
                if not line:
                    del self._waiting[client]
                    return
                query, attachment = line.popleft()
                self._waiting_count -= 1
            self._answer(query, attachment)

    def _answer(self, query: Query, attachment: Attachment | None) -> None:
        try:
            payload = b"" if query.payload is None else query.payload.to_bytes()
            request = self.kind.request.decode(payload)
            number = None if attachment is None else attachment.sequence_number
            time_ns = None if attachment is None else attachment.source_time_ns
            gid = None if attachment is None else attachment.gid
            request._received = (
                payload,
                MessageInfo(self.token.name, self.kind.name, self.kind.hash, time_ns, number, gid),
            )
            octets = self.kind.response.encode(self._response(request))
        except DecodeError as error:
            self._refuse(query, f"request of {self.kind.name} expected: {error}")
            return
        except Exception as error:
            _log.exception("service %s failed", self.token.name)
            self._refuse(query, f"{type(error).__name__}: {error}")
            return
        replied = None
        if attachment is not None:
            replied = attachment._replace(source_time_ns=time.time_ns()).to_bytes()
        try:
            query.reply(self._key, octets, attachment=replied)
            query.drop()
        except EleaError as error:
            _log.debug("reply of %s was not sent: %s", self.token.name, error)

    def _response(self, request: Message) -> Any:
        if self._takes_two:
            made = self._handle(request, self.kind.response.cls())
        else:
            made = self._handle(request)
        if is_async(self._handle):
            made = asyncio.run(made)
        return made

    def _refuse(self, query: Query, reason: str) -> None:
        self.refused += 1
        try:
            query.reply_err(reason, encoding="text/plain")
            query.drop()
        except EleaError as error:
            _log.debug("error reply of %s was not sent: %s", self.token.name, error)


class Client(Endpoint):
    """Calls a service; made by `Node.create_client`.

    Attributes:
        late_replies: Of other servers of the same name, which came after the first (R2-284).
    """

    def __init__(
        self,
        context: Context,
        token: Token | BridgeToken,
        kind: ServiceType,
        *,
        hidden: bool = False,
    ) -> None:
        super().__init__(context, token, hidden=hidden)
        self.kind = kind
        self.late_replies = 0
        self._lock = threading.Lock()
        self._number = 0
        self._key = data_key(context, token)
        self._announce()

    @property
    def srv_name(self) -> str:
        """The fully qualified name."""
        return self.token.name

    def service_is_ready(self) -> bool:
        """Whether a server is known."""
        return bool(self._context.graph.servers(self.token.name))

    def wait_for_service(self, timeout_sec: float | None = None) -> bool:
        """Wait for a server."""
        limit = FOREVER_S if timeout_sec is None else timeout_sec
        return self._context.graph.wait_until(self.service_is_ready, min(limit, 1e6))

    def call(self, request: object, timeout: float = CALL_S, *, wait: float = WAIT_S) -> Any:
        """Ask, and return the response.

        Args:
            timeout: Seconds for the reply.
            wait: Seconds for a server.

        Raises:
            ValueError: a member of the request does not fit.
            NoServerError: there is no server (R2-285).
            ServiceTimeoutError: there is one, and it did not reply in time.
            ServiceError: it replied with an error.
        """
        asked = self._ask(request, timeout, wait)
        try:
            return asked.result(timeout + 1)
        except TimeoutError as error:
            if isinstance(error, ServiceError):
                raise
            raise self._no_reply(timeout) from None

    def call_async(self, request: object, timeout: float = CALL_S) -> Future[Any]:
        """Ask; the future has the response, or an error as `call` raises it."""
        return self._ask(request, timeout, 0)

    def _ask(self, request: object, timeout: float, wait: float) -> Future[Any]:
        payload = self.kind.request.encode(request)
        if not self.service_is_ready() and not self.wait_for_service(wait):
            clients = len(self._context.graph.clients(self.token.name)) - (not self._hidden)
            others = f" ({clients} clients wait too)" if clients > 0 else ""
            raise NoServerError(f"no server for {self.token.name}{others}")
        with self._lock:
            self._number += 1
            number = self._number
        gid = self.token.gid or bytes(16)
        pending: Future[Any] = Future()
        answer = _Answer(self, pending, timeout)
        self._context.session.get(
            self._key,
            Callback(answer.heard, answer.ended),
            target=QueryTarget.ALL_COMPLETE,
            consolidation=ConsolidationMode.NONE,
            timeout=timeout,
            payload=payload,
            attachment=None
            if isinstance(self.token, BridgeToken)
            else Attachment(number, time.time_ns(), gid).to_bytes(),
        )
        return pending

    def _no_reply(self, timeout: float) -> ServiceTimeoutError:
        return ServiceTimeoutError(f"{self.token.name}: no reply within {timeout:g} s")

    def _end(self) -> None:
        pass


class _Answer:
    """Replies to one request: the first counts."""

    def __init__(self, client: Client, pending: Future[Any], timeout: float) -> None:
        self._client = client
        self._pending = pending
        self._timeout = timeout

    def heard(self, reply: Reply) -> None:
        client, pending = self._client, self._pending
        if reply.ok is None:
            assert reply.err is not None
            reason = reply.err.payload.to_string()
            if not pending.done():
                pending.set_exception(
                    client._no_reply(self._timeout)
                    if reason == _TIMEOUT
                    else ServiceError(f"{client.token.name}: {reason}")
                )
            return
        if pending.done():
            client.late_replies += 1
            return
        self._settle(reply)

    def ended(self) -> None:
        """No reply comes any more."""
        if not self._pending.done():
            name = self._client.token.name
            reason = "the request ended without a reply; the server may have ended"
            self._pending.set_exception(ServiceError(f"{name}: {reason}"))

    def _settle(self, reply: Reply) -> None:
        client, pending = self._client, self._pending
        assert reply.ok is not None
        try:
            pending.set_result(client.kind.response.decode(reply.ok.payload.to_bytes()))
        except DecodeError as error:
            pending.set_exception(ServiceError(f"{client.token.name}: invalid reply: {error}"))


def _parameters_count(function: Handle) -> int:
    code = getattr(function, "__code__", None)
    if code is None:
        return 1
    is_method = hasattr(function, "__self__")
    return int(code.co_argcount) - is_method
