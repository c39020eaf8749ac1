"""The protocol of interceptors: what one part of a configuration does to passing messages.

It goes in three steps, so that a message costs little. An `Interceptor` is read once from a
configuration. For one neighbour and direction it gives a `Stage`, or None if it does not concern
them. For one kind of message on one key a stage gives its `Step`s, which a chain remembers; a
message passes the steps and nothing else.

`elea.policy.filters.INTERCEPTORS` is the table of all of them, in the order that messages meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Self

from elea.config.config import Config
from elea.policy.actions import Action, Flow, sizes
from elea.policy.identity import Identity
from elea.records import dataclass
from elea.wire.codec import NetworkMessage


class Reason(StrEnum):
    """Why a message was refused. An interceptor may have a word of its own: any text will do."""

    ACCESS = "access_control"
    AUTHORIZER = "authorizer"
    DOWNSAMPLING = "downsampling"
    LOW_PASS = "low_pass_filter"  # noqa: S105  # not a password
    QUOTA = "quota"
    KEY = "key"  # not a key expression, or an alias that nobody declared


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a step refuses a message, and the rule or item that decided."""

    reason: str
    rule_id: str | None
    why: str
    about: tuple[Action, str] | None = None  # what is refused, if not the message itself


class Step:
    """What a stage does to messages of one kind on one key."""

    __slots__ = ()

    def limit(self, length: int, now_ns: int) -> Denial | None:
        """Refuse a message for its time, or for its length: of payload and attachment."""
        return None

    def apply(
        self, message: NetworkMessage, reliable: bool, now_ns: int
    ) -> NetworkMessage | Denial:
        """Return the message, perhaps another one in its place, or refuse it."""
        return self.limit(sum(sizes(message)), now_ns) or message


class Stage(ABC):
    """An interceptor for one neighbour and direction.

    Attributes:
        LIMITS: Whether its steps have limits. They hold for what a service writes on behalf of a
            query as well.
    """

    __slots__ = ()
    LIMITS: ClassVar[bool] = False

    @abstractmethod
    def steps(self, action: Action, key: str, now_ns: int) -> Iterable[Step]:
        """Return the steps for a kind of message on a key, in order; `key` is valid."""


class Interceptor(ABC):
    """One part of a configuration.

    Attributes:
        PATHS: The keys of the configuration that it is read from.
        LIMITS: As that of its stages.
    """

    __slots__ = ()
    PATHS: ClassVar[tuple[str, ...]] = ()
    LIMITS: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def from_config(cls, config: Config) -> Self | None:
        """Read a configuration; None if it asks for nothing."""

    @abstractmethod
    def at(self, identity: Identity, flow: Flow) -> Stage | None:
        """Return what concerns a neighbour and direction; None: nothing does."""

    def renewed(self) -> Self:
        """Return one of the same configuration that remembers no message."""
        return self

    def is_idle(self, now_ns: int) -> bool:
        """Whether nothing is remembered: a renewed one would decide the same."""
        return True
