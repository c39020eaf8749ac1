"""WireExpr: the key of an undeclared entity, as an extension. wire.md 7.6.4.

    |X|X|X|X|X|X|M|N|   N suffix present, M mapping
    +---------------+
    % key scope z16 %
    +---------------+
    ~ [suffix]      ~   if N: the rest of the extension; <utf8;z16> in the specification's dialect
    +---------------+

Between routers it says what is undeclared. Elsewhere the entity id does, and an empty one
(no flags, scope 0) means nothing.
"""

from __future__ import annotations

from typing import Final

from elea.wire.buffer import Reader, Writer
from elea.wire.describe import key_tree
from elea.wire.dialect import Dialect
from elea.wire.extensions import Chain, ChainReader, Known, Tree, Value
from elea.wire.fields import WireExpr

_FLAG_SUFFIX: Final = 0x01
_FLAG_SENDER: Final = 0x02


def _read(body: Reader) -> WireExpr:
    flags = body.u8("flags")
    body.meaning(f"M={flags >> 1 & 1} N={flags & 1}")
    scope = body.z16("key scope")
    suffix = ""
    if flags & _FLAG_SUFFIX:
        if body.dialect is Dialect.SPECIFICATION:
            length = body.z16("key suffix length")
        else:
            length = body.remaining()
        suffix = body.utf8(length, "key suffix")
    body.finish("wire expression")
    return WireExpr(scope, suffix, bool(flags & _FLAG_SENDER))


def _describe(value: Value, reader: Reader) -> Tree:
    return key_tree(_read(reader))


WIRE_EXPR: Final = Known(0x5F, "wire_expr", _describe)


def read_wire_expr(chain: ChainReader) -> WireExpr:
    """The key in the extension's body."""
    return _read(chain.body())


def add_wire_expr(chain: Chain, key: WireExpr | None, dialect: Dialect) -> None:
    """The key, if the undeclaration carries one."""
    if key is None:
        return
    body = Writer()
    body.u8((_FLAG_SUFFIX if key.suffix else 0) | (_FLAG_SENDER if key.sender else 0))
    body.z64(key.scope)
    if key.suffix and dialect is Dialect.SPECIFICATION:
        body.text(key.suffix)
    else:
        body.raw(key.suffix.encode("utf-8"))
    chain.body(WIRE_EXPR.header, body)
