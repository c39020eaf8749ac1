"""Liveliness: tokens that say that something is there, and who watches them."""

from __future__ import annotations

from typing import Self, final, overload

from elea.sample import Reply, Sample
from elea.session.cancellation import CancellationToken
from elea.session.context import Context, Declared
from elea.session.convert import IntoKeyExpr, checked, checked_or, key_text, nanoseconds
from elea.session.handlers import (
    AnyHandler,
    BuiltinHandler,
    Delivery,
    H,
    Handler,
    PythonCallback,
    PythonHandler,
)
from elea.session.subscriber import Subscriber


@final
class LivelinessToken(Declared):
    """Says that something is there until it is undeclared, dropped, or its session is gone."""

    __slots__ = ("_id", "_key")

    _kind = "liveliness token"

    def __init__(self, context: Context, id: int, key: str) -> None:
        super().__init__(context)
        self._id = id
        self._key = key

    def __enter__(self) -> Self:
        return self

    def _end(self) -> None:
        self._context.core.tokens.undeclare(self._id)

    def __repr__(self) -> str:
        return f"LivelinessToken({self._key!r})"


@final
class Liveliness:
    """Declares tokens, asks for them and watches them."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def declare_token(self, /, key_expr: IntoKeyExpr) -> LivelinessToken:
        """Say that something is there.

        Raises:
            ClosedError: the session is closed.
        """
        key = key_text(key_expr)
        core = self._context.core

        def declare() -> int:
            core.face.check_open()
            return core.tokens.declare(key)

        return LivelinessToken(self._context, self._context.call(declare), key)

    @overload
    def get(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: BuiltinHandler[Reply] | None = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Handler[Reply]: ...
    @overload
    def get(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonHandler[Reply, H],
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> H: ...
    @overload
    def get(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonCallback[Reply],
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> None: ...
    def get(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: AnyHandler[Reply] = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> object:
        """Ask for the tokens there are now; one reply for each key.

        Raises:
            ClosedError: the session is closed, or the token was cancelled.
        """
        key = key_text(key_expr)
        core = self._context.core
        timeout_ns = nanoseconds("timeout", timeout, core.face.settings.query_timeout_ns)
        if cancellation_token is not None:
            checked("cancellation_token", cancellation_token, CancellationToken)._check()
        delivery = Delivery(handler, self._context.pressure)

        def start() -> None:
            core.face.check_open()
            get = core.tokens.get(key, delivery.outlet, timeout_ns)
            if cancellation_token is not None:
                cancellation_token._watch(self._context, get)

        self._context.call(start)
        return delivery.handler

    @overload
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: BuiltinHandler[Sample] | None = None,
        *,
        history: bool | None = None,
    ) -> Subscriber[Handler[Sample]]: ...
    @overload
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonHandler[Sample, H],
        *,
        history: bool | None = None,
    ) -> Subscriber[H]: ...
    @overload
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonCallback[Sample],
        *,
        history: bool | None = None,
    ) -> Subscriber[None]: ...
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: AnyHandler[Sample] = None,
        *,
        history: bool | None = None,
    ) -> Subscriber[object]:
        """Watch tokens come and go; with `history`, those there are come first.

        Raises:
            ClosedError: the session is closed.
        """
        return self.watch(key_text(key_expr), handler, history=history)

    def watch(
        self, key: str, handler: AnyHandler[Sample], *, history: bool | None
    ) -> Subscriber[object]:
        """`declare_subscriber` for a key that is known to be one."""
        past = checked_or("history", history, bool, False)
        delivery = Delivery(handler, self._context.pressure)
        core = self._context.core

        def declare() -> Subscriber[object]:
            core.face.check_open()
            watcher = core.tokens.watch(key, delivery.outlet, history=past)
            return Subscriber(self._context, delivery, watcher)

        return self._context.call(declare)
