"""Which module reads, writes and describes which declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from elea.wire.buffer import Reader, Writer
from elea.wire.extensions import Tree
from elea.wire.network.declaration import final, keyexpr, queryable, subscriber, token
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken

Declaration = (
    DeclareKeyExpr
    | UndeclareKeyExpr
    | DeclareSubscriber
    | UndeclareSubscriber
    | DeclareQueryable
    | UndeclareQueryable
    | DeclareToken
    | UndeclareToken
    | DeclareFinal
)


class _Kind(NamedTuple):
    name: str
    flags: str
    decode: Callable[[Reader, int], Declaration]


_KINDS: Final[dict[int, _Kind]] = {
    keyexpr.ID_DECLARE: _Kind(keyexpr.NAME_DECLARE, "Z-N", keyexpr.decode_declare),
    keyexpr.ID_UNDECLARE: _Kind(keyexpr.NAME_UNDECLARE, "Z--", keyexpr.decode_undeclare),
    subscriber.ID_DECLARE: _Kind(subscriber.NAME_DECLARE, "ZMN", subscriber.decode_declare),
    subscriber.ID_UNDECLARE: _Kind(subscriber.NAME_UNDECLARE, "Z--", subscriber.decode_undeclare),
    queryable.ID_DECLARE: _Kind(queryable.NAME_DECLARE, "ZMN", queryable.decode_declare),
    queryable.ID_UNDECLARE: _Kind(queryable.NAME_UNDECLARE, "Z--", queryable.decode_undeclare),
    token.ID_DECLARE: _Kind(token.NAME_DECLARE, "ZMN", token.decode_declare),
    token.ID_UNDECLARE: _Kind(token.NAME_UNDECLARE, "Z--", token.decode_undeclare),
    final.ID: _Kind(final.NAME, "Z--", final.decode),
}


def decode(reader: Reader) -> Declaration:
    """Read one declaration, header included."""
    header = reader.u8("header")
    kind = _KINDS.get(header & 0x1F)
    if kind is None:
        raise reader.error(f"0x{header & 0x1F:02x} is no declaration")
    if reader.trace is not None:
        reader.trace.header(kind.name, kind.flags, header)
    body = kind.decode(reader, header)
    if reader.trace is not None:
        reader.trace.leave()
    return body


def encode(writer: Writer, body: Declaration) -> None:
    """Write one declaration, header included."""
    match body:
        case DeclareKeyExpr():
            keyexpr.encode_declare(writer, body)
        case UndeclareKeyExpr():
            keyexpr.encode_undeclare(writer, body)
        case DeclareSubscriber():
            subscriber.encode_declare(writer, body)
        case UndeclareSubscriber():
            subscriber.encode_undeclare(writer, body)
        case DeclareQueryable():
            queryable.encode_declare(writer, body)
        case UndeclareQueryable():
            queryable.encode_undeclare(writer, body)
        case DeclareToken():
            token.encode_declare(writer, body)
        case UndeclareToken():
            token.encode_undeclare(writer, body)
        case DeclareFinal():
            final.encode(writer, body)


def describe(body: Declaration) -> Tree:
    """One declaration as a tree."""
    match body:
        case DeclareKeyExpr():
            return keyexpr.describe_declare(body)
        case UndeclareKeyExpr():
            return keyexpr.describe_undeclare(body)
        case DeclareSubscriber():
            return subscriber.describe_declare(body)
        case UndeclareSubscriber():
            return subscriber.describe_undeclare(body)
        case DeclareQueryable():
            return queryable.describe_declare(body)
        case UndeclareQueryable():
            return queryable.describe_undeclare(body)
        case DeclareToken():
            return token.describe_declare(body)
        case UndeclareToken():
            return token.describe_undeclare(body)
        case DeclareFinal():
            return final.describe(body)
