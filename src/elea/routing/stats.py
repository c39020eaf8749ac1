"""What routing counted: every message that went nowhere, with the reason."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Drop(StrEnum):
    """Why a message, or what it asked for, was dropped."""

    meaning: str  # a sentence for operators

    def __new__(cls, value: str, meaning: str = "") -> Self:
        """The name of a reason, and what it means."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    UNKNOWN_FACE = "unknown_face", "it came in behind the end of its face"
    UNKNOWN_SCOPE = "unknown_scope", "its key names an alias nobody declared"
    INVALID_KEY = "invalid_key", "its key is no canonical key expression"
    ALIAS_CONFLICT = "alias_conflict", "an alias declared again for another key: the first stays"
    ALIAS_LIMIT = "alias_limit", "one alias more than a face may have"
    ALIAS_SCOPE = "alias_scope", "an alias on top of another one, or numbered 0"
    DECLARATION_LIMIT = "declaration_limit", "one declaration more than a face may have"
    UNSOLICITED = "unsolicited", "a gateway declared what no interest asked for"
    UNKNOWN_NODE = "unknown_node", "it names a router that was never introduced"
    UNKNOWN_ENTITY = "unknown_entity", "an undeclaration of something never declared"
    TOKEN_ANSWER = "token_answer", "a token from below that claims to answer an interest"
    MULTICAST = "multicast", "groups carry samples and subscribers only"
    INTEREST_IGNORED = "interest_ignored", "an interest that means nothing where it came from"
    INTEREST_LIMIT = "interest_limit", "one interest more than a face may have"
    UNKNOWN_INTEREST = "unknown_interest", "FINAL or D_FINAL for an interest that is none"
    NO_SUBSCRIBER = "no_subscriber", "a sample that nobody wants"
    FUTURE = "future", "a sample with a timestamp from the future, and the settings drop those"
    NO_QUERYABLE = "no_queryable", "a query that nobody answers"
    QUERY_LIMIT = "query_limit", "more open queries than one face may have"
    REQUEST_IDS = "request_ids", "a query for a neighbour with as many requests as there are ids"
    QUERY_DUPLICATE = "query_duplicate", "a request id that is in use"
    QUERY_CONGESTED = "query_congested", "a destination did not take the request"
    QUERY_TIMEOUT = "query_timeout", "a destination that did not answer in time"
    REPLY_LATE = "reply_late", "a response or an end for a request that is over"
    REPLY_LIMIT = "reply_limit", "a query with more replies than allowed: it was ended"
    GOSSIP_IGNORED = "gossip_ignored", "link state from a node that has no business sending it"
    OAM_UNKNOWN = "oam_unknown", "operation and maintenance of a kind that is not known"


class RoutingStats:
    """Counters of one node since it was made.

    Example:
        >>> stats = RoutingStats()
        >>> stats.drop(Drop.UNKNOWN_SCOPE)
        >>> stats.drops[Drop.UNKNOWN_SCOPE]
        1
    """

    __slots__ = ("drops",)

    def __init__(self) -> None:
        self.drops: dict[Drop, int] = dict.fromkeys(Drop, 0)

    def drop(self, reason: Drop) -> None:
        """Count one."""
        self.drops[reason] += 1

    def dropped(self) -> dict[str, int]:
        """The reasons that occurred, with how often."""
        return {reason.value: count for reason, count in self.drops.items() if count}
