"""What a node tells about its policy: refusals, logins, quotas. For counters and for the audit."""

from __future__ import annotations

from typing import TypeAlias

from elea.policy.chain import Refusal
from elea.policy.identity import Identity
from elea.records import dataclass


@dataclass(frozen=True, slots=True)
class Refused:
    """A message of a neighbour, or for it, did not pass."""

    identity: Identity
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Somebody became a neighbour."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class LoggedOut:
    """A neighbour is gone."""

    identity: Identity
    reason: str


@dataclass(frozen=True, slots=True)
class LoginRefused:
    """Somebody knocked and was not let in."""

    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class OverQuota:
    """A neighbour sends more than it may; `closed` if it was given up for it."""

    identity: Identity
    quota_id: str
    closed: bool


PolicyEvent: TypeAlias = Refused | LoggedIn | LoggedOut | LoginRefused | OverQuota
