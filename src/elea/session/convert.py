"""What callers may pass for keys, payloads, encodings and qualities, and what it becomes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, TypeVar

from elea.encoding import Encoding
from elea.errors import InvalidValueError
from elea.keyexpr.canon import validate
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS
from elea.parameters import Parameters
from elea.provenance import SourceInfo
from elea.qos import CongestionControl, Priority
from elea.query import ConsolidationMode, QueryConsolidation, ReplyKeyExpr
from elea.selector import ANY_KEY_EXPR_KEY, Selector
from elea.session.queries import has_any_key
from elea.timestamp import Timestamp
from elea.wire.fields import Stamp, WireEncoding
from elea.wire.shared_extensions import SourceRef
from elea.zbytes import Shareable, ZBytes

T = TypeVar("T")

IntoKeyExpr = KeyExpr | str
IntoSelector = Selector | KeyExpr | str
IntoParameters = Parameters | dict[str, str] | str
IntoEncoding = Encoding | str
IntoZBytes = ZBytes | bytes | bytearray | memoryview | str | Shareable
IntoQueryConsolidation = ConsolidationMode | QueryConsolidation

_KEYS_COUNT_MAX: Final = 4_096
_PRIORITY: Final = Priority.DATA.value
_FLAG_BLOCK: Final = 0x08
_FLAG_EXPRESS: Final = 0x10
_FLAG_BLOCK_FIRST: Final = 0x20
_CONGESTION: Final = {
    CongestionControl.DROP: 0,
    CongestionControl.BLOCK: _FLAG_BLOCK,
    CongestionControl.BLOCK_FIRST: _FLAG_BLOCK_FIRST,
}


def key_text(key: IntoKeyExpr) -> str:
    """A key expression as text, validated.

    Raises:
        KeyExprError: it is none.
    """
    if isinstance(key, str):
        return _validated(key)
    if isinstance(key, KeyExpr):
        return str(key)
    raise _wrong("key_expr", key, "KeyExpr")


@lru_cache(_KEYS_COUNT_MAX)
def _validated(text: str) -> str:
    validate(text, DEFAULT_LIMITS)
    return text


def octets(value: object) -> bytes:
    """A payload or an attachment."""
    if type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, ZBytes):
        return value.to_bytes()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if hasattr(value, "__zbytes__"):
        return ZBytes(value).to_bytes()
    raise TypeError(f"argument 'payload': expected bytes/str type, found '{type(value).__name__}'")


def octets_or_none(value: object) -> bytes | None:
    """An optional payload or attachment."""
    return None if value is None else octets(value)


def wire_encoding(value: IntoEncoding | None) -> WireEncoding | None:
    """An encoding as it travels; None for the default."""
    if value is None:
        return None
    encoding = encoding_of(value)
    if encoding.id == 0 and encoding.schema is None:
        return None
    return WireEncoding(encoding.id, encoding.schema or b"")


def encoding_of(value: IntoEncoding) -> Encoding:
    """An encoding."""
    if isinstance(value, Encoding):
        return value
    if isinstance(value, str):
        return Encoding(value)
    raise _wrong("encoding", value, "Encoding")


def wire_stamp(value: Timestamp | None) -> Stamp | None:
    """A timestamp as it travels."""
    if value is None:
        return None
    return Stamp(checked("timestamp", value, Timestamp).time.value, value.id.to_bytes())


def wire_source(value: SourceInfo | None) -> SourceRef | None:
    """A source as it travels."""
    if value is None:
        return None
    source = checked("source_info", value, SourceInfo)
    return SourceRef(source.source_id.zid.to_bytes(), source.source_id.eid, source.source_sn)


def qos_octet(
    priority: Priority | None,
    congestion_control: CongestionControl | None,
    express: bool | None,
    default: Literal[CongestionControl.DROP, CongestionControl.BLOCK] = CongestionControl.DROP,
) -> int:
    """The three qualities as they travel."""
    if priority is None and congestion_control is None and not express:
        # Not looked up: to hash a member of an enumeration is a call, and each put comes by here.
        return _PRIORITY if default is CongestionControl.DROP else _PRIORITY | _FLAG_BLOCK
    chosen = checked_or("priority", priority, Priority, Priority.DATA)
    control = checked_or("congestion_control", congestion_control, CongestionControl, default)
    octet = chosen.value | _CONGESTION[control]
    return octet | _FLAG_EXPRESS if checked_or("express", express, bool, False) else octet


def without_drops(qos: int) -> int:
    """The same qualities for what waits where a queue is full."""
    return (qos | _FLAG_BLOCK) & ~_FLAG_BLOCK_FIRST


def checked(name: str, value: object, kind: type[T]) -> T:
    """`value`, if it is of this type."""
    if not isinstance(value, kind):
        raise _wrong(name, value, kind.__name__)
    return value


def checked_or(name: str, value: object, kind: type[T], default: T) -> T:
    """`value`, if it is of this type, or the default for None."""
    return default if value is None else checked(name, value, kind)


def consolidation_mode(value: IntoQueryConsolidation | None) -> ConsolidationMode:
    """A consolidation mode."""
    if isinstance(value, QueryConsolidation):
        return value.mode
    return checked_or("consolidation", value, ConsolidationMode, ConsolidationMode.AUTO)


def nanoseconds(name: str, value: float | None, default_ns: int) -> int:
    """A time limit given in seconds."""
    if value is None:
        return default_ns
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(name, value, "float")
    if value < 0:
        raise ValueError(f"negative {name}")
    if value != value:
        raise InvalidValueError(name, "not a number")
    return int(min(value, 1e9) * 1_000_000_000)


def selector_parts(value: IntoSelector) -> tuple[str, str]:
    """Key and parameters of what a query asks for."""
    if isinstance(value, str):
        key, _, parameters = value.partition("?")
        return _validated(key), str(Parameters(parameters)) if parameters else ""
    if isinstance(value, Selector):
        return str(value.key_expr), str(value.parameters)
    return key_text(value), ""


def parameters_text(value: IntoParameters | None, accept: ReplyKeyExpr) -> str:
    """The parameters of a query, with the word that lets replies have any key if they may."""
    return accepting("" if value is None else str(Parameters(value)), accept)


def accepting(parameters: str, accept: ReplyKeyExpr) -> str:
    """Parameters that say which keys replies may have."""
    if accept is not ReplyKeyExpr.ANY or has_any_key(parameters):
        return parameters
    return f"{parameters};{ANY_KEY_EXPR_KEY}" if parameters else ANY_KEY_EXPR_KEY


def _wrong(name: str, value: object, kind: str) -> TypeError:
    return TypeError(
        f"argument '{name}': '{type(value).__name__}' object cannot be converted to '{kind}'"
    )
