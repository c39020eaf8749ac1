"""What DDS bridges of the data space tell of their topics: types and durability (dds.md 18).

Types come as schemas under `@schema/cdr/**` (D-734). The durability of a key is that of its route
in the bridge's admin space (D-733); it is asked for where a device wants durable data.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from elea.decode.layout import Layout
from elea.decode.type_schemas import KEY_EXPR, TypeSchemas
from elea.encoding import Encoding
from elea.errors import ClosedError, EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SampleKind
from elea.query import QueryTarget
from elea.sample import Reply, Sample
from elea.session.context import Declared
from elea.session.handlers import Callback
from elea.session.session import Session
from elea.xrce.qualities import Level

CACHE: Final = "@dds_pub_cache/*"  # below a key: what bridges keep for late joiners
_TOKENS: Final = "@/*/@dds/*/W/*/*"
_ROUTE: Final = "dds/route/from_dds"
_SLASH: Final = "§"
_TIMEOUT_S: Final = 5.0
_KEYS_COUNT_MAX: Final = 10_000
_EXPRS_COUNT_MAX: Final = 1_024
_LEVELS: Final = {
    "VOLATILE": Level.VOLATILE,
    "TRANSIENT_LOCAL": Level.TRANSIENT,
    "TRANSIENT": Level.TRANSIENT,
    "PERSISTENT": Level.PERSISTENT,
}


class BridgedTopics:
    """Follows the bridges; `call` has a function done by the hub's thread, which owns all else.

    Args:
        session: Of the node.
        call: For threads of the session.
    """

    def __init__(self, session: Session, call: Callable[[Callable[[int], None]], object]) -> None:
        self._session = session
        self._call = call
        self._schemas = TypeSchemas()
        self._levels: OrderedDict[str, Level] = OrderedDict()
        self._exprs: OrderedDict[str, KeyExpr] = OrderedDict()  # that durable data is wanted of
        schemas = Callback(self._schema_put, indirect=False)
        tokens = Callback(self._token, indirect=False)
        self._declared: list[Declared] = [
            session.declare_subscriber(KEY_EXPR, schemas),
            session.liveliness().declare_subscriber(_TOKENS, tokens, history=True),
        ]
        self._get(KEY_EXPR, lambda sample: self._schema_put(sample))

    def close(self) -> None:
        """Follow them no more."""
        for one in self._declared:
            one.undeclare()

    # By the hub's thread.

    def layout_of(self, encoding: Encoding) -> Layout | None:
        """Return the type of payloads of an encoding; None: no schema names it."""
        return self._schemas.layout_of(encoding)

    def level_of(self, key: str) -> Level | None:
        """Return how durable the data of a key is; None: no bridge says it."""
        return self._levels.get(key)

    def want(self, key_expr: str) -> None:
        """Learn the durability of keys that a device wants durable data of."""
        if key_expr not in self._exprs:
            self._exprs[key_expr] = KeyExpr(key_expr)
            if len(self._exprs) > _EXPRS_COUNT_MAX:
                self._exprs.popitem(last=False)
        self._ask(key_expr)

    def _ask(self, key_expr: str) -> None:
        self._get(f"@/*/{_ROUTE}/{key_expr}", self._route_told)

    def _add_schema(self, payload: bytes) -> None:
        self._schemas.add(payload)

    def _set_level(self, key: str, level: Level | None) -> None:
        self._levels.pop(key, None)
        if level is not None:
            self._levels[key] = level
            if len(self._levels) > _KEYS_COUNT_MAX:
                self._levels.popitem(last=False)

    def _writer_told(self, key: str, *, is_there: bool) -> None:
        """A writer of a bridge appeared, or went: the durability of its key may be another."""
        if not any(one.intersects(key) for one in self._exprs.values()):
            return
        if not is_there:
            self._set_level(key, None)
        self._ask(key)

    # By threads of the session.

    def _get(self, key_expr: str, take: Callable[[Sample], None]) -> None:
        def replied(reply: Reply) -> None:
            if reply.ok is not None:
                take(reply.ok)

        try:
            self._session.get(
                KeyExpr(key_expr),
                Callback(replied, indirect=False),
                target=QueryTarget.ALL,
                timeout=_TIMEOUT_S,
            )
        except (ClosedError, EleaError):
            return  # the session is closed, or devices have a name that makes no key

    def _schema_put(self, sample: Sample) -> None:
        if sample.kind is SampleKind.PUT:
            payload = sample.payload.to_bytes()
            self._call(lambda _now_ns: self._add_schema(payload))

    def _token(self, sample: Sample) -> None:
        is_there = sample.kind is SampleKind.PUT
        key = sample.key_text.rpartition("/")[2].replace(_SLASH, "/")
        self._call(lambda _now_ns: self._writer_told(key, is_there=is_there))

    def _route_told(self, sample: Sample) -> None:
        key = sample.key_text.partition(f"/{_ROUTE}/")[2]
        try:
            told = json.loads(sample.payload.to_bytes())
            level = _LEVELS.get(told.get("durability", ""))
        except (ValueError, AttributeError, TypeError):
            return
        self._call(lambda _now_ns: self._set_level(key, level))
