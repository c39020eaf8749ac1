"""The kinds that one key alone has: endpoints, filters, rules, weights."""

from __future__ import annotations

import string
from ipaddress import ip_address, ip_network
from typing import Final

from elea.choices import ACTIONS, FLOWS
from elea.config.kinds import (
    MODES,
    Bool,
    Choice,
    Either,
    EndpointText,
    Integer,
    ListOf,
    Number,
    PerMode,
    Record,
    Roles,
    Text,
    Value,
)
from elea.errors import InvalidValueError
from elea.ids import ZenohId
from elea.keyexpr import KeyExpr
from elea.limits import REGION_NAME_LEN_MAX
from elea.locator import Locator

_NAME_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "-.")
PROTOCOLS: Final = (
    "tcp",
    "udp",
    "tls",
    "quic",
    "serial",
    "unixpipe",
    "unixsock-stream",
    "vsock",
    "ws",
)
SERVICE_PROTOCOLS: Final = ("http", "https", "flight", "xrce", "dds")  # of users of services
LIMITED_SERVICE_PROTOCOLS: Final = (
    "http",
    "https",
    "flight",
    "xrce",
)  # for which quotas and filters hold


def _path(text: str) -> str:
    if "\0" in text:
        raise InvalidValueError("path", "it has a NUL character")
    return text


def _zid(text: str) -> str:
    return str(ZenohId.parse(text))


def key_expr(text: str) -> str:
    """The canonical form of a key expression; raises as `KeyExpr`."""
    return str(KeyExpr(text))


def _rule_key(text: str) -> str:
    """A key expression of an access rule; placeholders stand for what a neighbour is called."""
    filled = _filled(text)
    if filled == text:
        return key_expr(text)
    KeyExpr(filled)
    return text


def _template_key(text: str) -> str:
    """As `_rule_key`, without other braces: a misspelt placeholder would be taken as text."""
    if set("{}").intersection(_filled(text)):
        legal = ", ".join("${" + name + "}" for name in PLACEHOLDERS)
        raise InvalidValueError("template", f"braces stand in placeholders only, which are {legal}")
    return _rule_key(text)


def _filled(text: str) -> str:
    for name in PLACEHOLDERS:
        text = text.replace("${" + name + "}", "x")
    return text


def _concrete_key(text: str) -> str:
    if "*" in key_expr(text):
        raise InvalidValueError("key", "wildcards are not legal here")
    return text


def _place(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        if text and set(text) <= _NAME_LETTERS and not text[-1].isdecimal():
            return text
        raise InvalidValueError("place", str(error)) from None


def _socket_address(text: str) -> str:
    host, _ = Locator(f"udp/{text}").host_port()
    try:
        ip_address(host)
    except ValueError as error:
        raise InvalidValueError("address", str(error)) from None
    return text


def _region_name(text: str) -> str:
    if not 1 <= len(text.encode(errors="replace")) <= REGION_NAME_LEN_MAX:
        raise InvalidValueError("region name", f"1 to {REGION_NAME_LEN_MAX} octets are legal")
    return text


def _size_range(text: str) -> str:
    left, dots, right = text.partition("..")
    if not dots or any(part and not (part.isascii() and part.isdigit()) for part in (left, right)):
        raise InvalidValueError("range", "expected least..most, either may be left out")
    if left and right and int(left) > int(right):
        raise InvalidValueError("range", "no size is in it; the least comes first")
    return text


PLACEHOLDERS: Final = ("cert_common_name", "username", "zid")
U16: Final = Integer(0, 0xFFFF)
U32: Final = Integer(0, 0xFFFF_FFFF)
U64: Final = Integer()
FLAG: Final = Bool()
TEXT: Final = Text()
PATH: Final = Text("a path", _path)
ZID: Final = Text("an id in lower-case hexadecimal", _zid)
KEY_EXPR: Final = Text("a key expression", key_expr)
KEY_EXPRS: Final = ListOf(KEY_EXPR)
_SOME_KEY_EXPRS: Final = ListOf(KEY_EXPR, 1)
_RULE_KEY: Final = Text(
    "a key expression, in which ${cert_common_name}, ${username} and ${zid} may stand", _rule_key
)
_TEMPLATE_KEY: Final = Text(_RULE_KEY.legal, _template_key)
_SOME_TEXTS: Final = ListOf(TEXT, 1)
_SOME_PROTOCOLS: Final = ListOf(Choice(PROTOCOLS), 1)
_LIMITED_PROTOCOLS: Final = ListOf(Choice((*PROTOCOLS, *LIMITED_SERVICE_PROTOCOLS)), 1)
_SUBJECT_PROTOCOLS: Final = ListOf(Choice((*PROTOCOLS, *SERVICE_PROTOCOLS)), 1)
_SOME_ZIDS: Final = ListOf(ZID, 1)
_FLOWS: Final = ListOf(Choice(FLOWS), 1)
DATA_MESSAGES: Final = ListOf(Choice(("put", "delete", "query", "reply")), 1)
PRIORITY: Final = Choice(
    (
        "real_time",
        "interactive_high",
        "interactive_low",
        "data_high",
        "data",
        "data_low",
        "background",
    )
)
_CONGESTION: Final = Choice(("drop", "block", "block_first"))
_RELIABILITY: Final = Choice(("best_effort", "reliable"))
_STRATEGY_NAME: Final = Choice(("always", "greater-zid"))
STRATEGY: Final = PerMode(
    Either(
        (
            _STRATEGY_NAME,
            Record({f"to_{mode}": _STRATEGY_NAME for mode in MODES}),
        )
    )
)
RETRY: Final = PerMode(
    Record(
        {
            "period_init_ms": PerMode(U64),
            "period_max_ms": PerMode(U64),
            "period_increase_factor": PerMode(Number()),
        }
    )
)
RETRY_DEFAULT: Final[Value] = {
    "period_init_ms": 1_000,
    "period_max_ms": 4_000,
    "period_increase_factor": 2.0,
}
AUTOCONNECT_DEFAULT: Final[Value] = {
    "router": [],
    "peer": list(MODES),
    "client": list(MODES),
}
ENDPOINT_GROUP: Final = Record(
    {"strategy": Choice(("allOf",)), "locators": ListOf(EndpointText(), 1)},
    frozenset({"strategy", "locators"}),
)
WEIGHTS: Final = ListOf(
    Record(
        {"dst_zid": ZID, "weight": Integer(1, 0xFFFF)},
        frozenset({"dst_zid", "weight"}),
    )
)
SOUTH: Final = Either(
    (
        Choice(("auto",)),
        ListOf(
            Record(
                {
                    "filters": ListOf(
                        Record(
                            {
                                "modes": Roles(),
                                "interfaces": ListOf(TEXT),
                                "zids": ListOf(ZID),
                                "region_names": ListOf(Text("a region name", _region_name)),
                                "negated": FLAG,
                            }
                        )
                    )
                }
            )
        ),
    )
)
PUBLICATION: Final = ListOf(
    Record(
        {
            "key_exprs": KEY_EXPRS,
            "config": Record(
                {
                    "congestion_control": _CONGESTION,
                    "priority": PRIORITY,
                    "express": FLAG,
                    "reliability": _RELIABILITY,
                    "allowed_destination": Choice(("session_local", "remote", "any")),
                }
            ),
        },
        frozenset({"key_exprs", "config"}),
    )
)
OVERWRITE: Final = ListOf(
    Record(
        {
            "id": TEXT,
            "zids": _SOME_ZIDS,
            "interfaces": _SOME_TEXTS,
            "link_protocols": _SOME_PROTOCOLS,
            "messages": ListOf(Choice(("put", "delete", "query")), 1),
            "key_exprs": _SOME_KEY_EXPRS,
            "overwrite": Record(
                {
                    "congestion_control": _CONGESTION,
                    "priority": Either((PRIORITY, Integer(-7, 7))),
                    "express": FLAG,
                }
            ),
            "flows": _FLOWS,
            "qos": Record(
                {
                    "congestion_control": _CONGESTION,
                    "priority": PRIORITY,
                    "express": FLAG,
                    "reliability": _RELIABILITY,
                }
            ),
            "payload_size": Text("a range of sizes, as 0..1024", _size_range),
        },
        frozenset({"messages", "overwrite"}),
    )
)
DOWNSAMPLING: Final = ListOf(
    Record(
        {
            "id": TEXT,
            "interfaces": _SOME_TEXTS,
            "link_protocols": _LIMITED_PROTOCOLS,
            "messages": DATA_MESSAGES,
            "rules": ListOf(
                Record({"key_expr": KEY_EXPR, "freq": Number()}, frozenset({"key_expr", "freq"})),
                1,
            ),
            "flows": _FLOWS,
        },
        frozenset({"messages", "rules"}),
    )
)
LOW_PASS: Final = ListOf(
    Record(
        {
            "id": TEXT,
            "interfaces": _SOME_TEXTS,
            "link_protocols": _LIMITED_PROTOCOLS,
            "flows": _FLOWS,
            "messages": DATA_MESSAGES,
            "key_exprs": _SOME_KEY_EXPRS,
            "size_limit": U64,
        },
        frozenset({"messages", "key_exprs", "size_limit"}),
    )
)
_ACL_MESSAGES: Final = Choice(ACTIONS)
PERMISSION: Final = Choice(("allow", "deny"))
ACL_RULES: Final = ListOf(
    Record(
        {
            "id": TEXT,
            "key_exprs": ListOf(_RULE_KEY, 1),
            "key_expr_templates": ListOf(_TEMPLATE_KEY, 1),
            "messages": ListOf(_ACL_MESSAGES, 1),
            "flows": _FLOWS,
            "permission": PERMISSION,
        },
        frozenset({"id", "messages", "permission"}),
    )
)
ACL_SUBJECTS: Final = ListOf(
    Record(
        {
            "id": TEXT,
            "interfaces": _SOME_TEXTS,
            "cert_common_names": _SOME_TEXTS,
            "cert_common_name_prefixes": _SOME_TEXTS,
            "usernames": _SOME_TEXTS,
            "link_protocols": _SUBJECT_PROTOCOLS,
            "zids": _SOME_ZIDS,
        },
        frozenset({"id"}),
    )
)
ACL_POLICIES: Final = ListOf(
    Record(
        {"id": TEXT, "rules": ListOf(TEXT), "subjects": ListOf(TEXT)},
        frozenset({"rules", "subjects"}),
    )
)
_RATE: Final = Integer(1)
QUOTAS: Final = ListOf(
    Record(
        {
            "id": TEXT,
            "interfaces": _SOME_TEXTS,
            "cert_common_names": _SOME_TEXTS,
            "cert_common_name_prefixes": _SOME_TEXTS,
            "usernames": _SOME_TEXTS,
            "link_protocols": _LIMITED_PROTOCOLS,
            "zids": _SOME_ZIDS,
            "declarations": U64,
            "messages_per_second": _RATE,
            "bytes_per_second": _RATE,
            "close_after_ms": U64,
        }
    )
)
_SUBJECT: Final = Record(
    {
        "interfaces": _SOME_TEXTS,
        "cert_common_names": _SOME_TEXTS,
        "cert_common_name_prefixes": _SOME_TEXTS,
        "usernames": _SOME_TEXTS,
        "link_protocols": _SOME_PROTOCOLS,
    }
)
ROLES: Final = Record({name: ListOf(_SUBJECT) for name in ("router", "peer", "linkstate")})
SEARCH_DIRS: Final = ListOf(
    Either(
        (
            PATH,
            Record(
                {"kind": Choice(("path", "current_exe_parent")), "value": PATH},
                frozenset({"kind"}),
            ),
        )
    )
)

NAMESPACE: Final = Text("a key without wildcards", _concrete_key)
REGION_NAME: Final = Text("a region name of 1 to 32 octets", _region_name)
PLACE: Final = Text("a network such as 10.0.0.0/8, or a host name", _place)
MULTICAST_ADDRESS: Final = Text("ip:port", _socket_address)
CONNECT_ENDPOINTS: Final = PerMode(ListOf(Either((EndpointText(), ENDPOINT_GROUP))))
LISTEN_ENDPOINTS: Final = PerMode(ListOf(EndpointText()))
STATS_FILTERS: Final = ListOf(Record({"key": KEY_EXPR}, frozenset({"key"})))
