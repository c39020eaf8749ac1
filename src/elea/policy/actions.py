"""What a message does, in the words that rules are written in: its action, and on which key.

What no rule is about always passes: the ends of answers, aliases, interests in subscribers and
queryables, and OAM, as in Eclipse Zenoh. Undeclarations pass as well; whoever keeps back what they
take back keeps them back too.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from elea import choices
from elea.wire.codec import NetworkMessage
from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import OPTION_TOKENS, Interest, InterestMode
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.shm import Slice


class Flow(Enum):
    """Which way a message goes, seen from this node."""

    INGRESS = "ingress"
    EGRESS = "egress"


class Action(StrEnum):
    """What a message does, as Eclipse Zenoh names it; a text, because those are hashed quickly."""

    PUT = "put"
    DELETE = "delete"
    DECLARE_SUBSCRIBER = "declare_subscriber"
    QUERY = "query"
    DECLARE_QUERYABLE = "declare_queryable"
    REPLY = "reply"
    LIVELINESS_TOKEN = "liveliness_token"  # noqa: S105  # not a password
    DECLARE_LIVELINESS_SUBSCRIBER = "declare_liveliness_subscriber"
    LIVELINESS_QUERY = "liveliness_query"
    LINK_STATE = "link_state"  # who is connected to whom: `elea/roles` decides, no rule
    UNKNOWN = "unknown"  # something this version has no word for: no rule can allow it


ACTIONS = tuple(Action(name) for name in choices.ACTIONS)  # those that rules are about
_EVERYTHING = WireExpr(0, "**")  # what an interest without a key is about


def classify(message: NetworkMessage) -> tuple[Action, WireExpr] | None:
    """What a message does, and on which key; None if it always passes."""
    match message:
        case Push():
            body = message.body
            if isinstance(body, Put):
                return Action.PUT, message.key
            return (Action.DELETE if isinstance(body, Del) else Action.UNKNOWN), message.key
        case Request():
            known = isinstance(message.body, Query)
            return (Action.QUERY if known else Action.UNKNOWN), message.key
        case Response():
            return Action.REPLY, message.key
        case Declare():
            return _declares(message)
        case Interest():
            return _asks(message)
        case ResponseFinal() | Oam():
            return None
        case _:
            return Action.UNKNOWN, _EVERYTHING  # type: ignore[unreachable]  # of a newer version


def undeclares(message: NetworkMessage) -> tuple[Action, int, WireExpr | None] | None:
    """What a message takes back: the action that declared it, its id, its key if that is told."""
    if not isinstance(message, Declare):
        return None
    body = message.body
    match body:
        case UndeclareSubscriber():
            return Action.DECLARE_SUBSCRIBER, body.id, body.key
        case UndeclareQueryable():
            return Action.DECLARE_QUERYABLE, body.id, body.key
        case UndeclareToken():
            return Action.LIVELINESS_TOKEN, body.id, body.key
        case _:
            return None


def _declares(message: Declare) -> tuple[Action, WireExpr] | None:
    body = message.body
    match body:
        case DeclareSubscriber():
            return Action.DECLARE_SUBSCRIBER, body.key
        case DeclareQueryable():
            return Action.DECLARE_QUERYABLE, body.key
        case DeclareToken():
            return Action.LIVELINESS_TOKEN, body.key
        case _:
            return None


def _asks(message: Interest) -> tuple[Action, WireExpr] | None:
    if message.mode is InterestMode.FINAL or not message.options & OPTION_TOKENS:
        return None
    key = _EVERYTHING if message.key is None else message.key
    if message.mode is InterestMode.CURRENT:
        return Action.LIVELINESS_QUERY, key
    return Action.DECLARE_LIVELINESS_SUBSCRIBER, key


def sizes(message: NetworkMessage) -> tuple[int, int]:
    """The octets of a message's payload and of its attachment, wherever they lie."""
    match message:
        case Push():
            return _sample_sizes(message.body)
        case Request():
            query = message.body
            value = query.body
            payload_len = 0 if value is None else len(value.payload) + _slices_len(value.slices)
            return payload_len, len(query.attachment or b"")
        case Response():
            body = message.body
            if isinstance(body, Err):
                return len(body.payload), 0
            return _sample_sizes(body.body)
        case _:
            return 0, 0


def _sample_sizes(body: Put | Del) -> tuple[int, int]:
    attachment_len = len(body.attachment or b"")
    if isinstance(body, Del):
        return 0, attachment_len
    return len(body.payload) + _slices_len(body.slices), attachment_len


def _slices_len(slices: tuple[Slice, ...] | None) -> int:
    return sum(len(one) if isinstance(one, bytes) else one.data_len for one in slices or ())
