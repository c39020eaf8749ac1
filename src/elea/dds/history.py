"""Queries for history: a few at a time, the rest in a bounded line (D-565 to D-568)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea.dds.line import Item
from elea.dds.rights import DomainRights
from elea.errors import EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.parameters import Parameters
from elea.provenance import SampleKind
from elea.query import ConsolidationMode, QueryConsolidation, QueryTarget, ReplyKeyExpr
from elea.sample import Reply
from elea.selector import Selector
from elea.session.handlers import Callback
from elea.session.session import Session

if TYPE_CHECKING:
    pass

CACHE: Final = "@dds_pub_cache"


@dataclass(frozen=True, slots=True)
class Question:
    """One history query: a key expression, parameters, and who is told.

    `done` gets what came, and how many samples came beyond the limit.
    """

    key_expr: str
    parameters: str
    done: Callable[[list[Item], int], None]


class HistoryQueries:
    """Asks for history. `ask` and `ended` are for the DDS thread; `post` brings answers there."""

    def __init__(
        self,
        session: Session,
        post: Callable[[Callable[[int], None]], None],
        rights: DomainRights,
        *,
        timeout_s: float,
        running_max: int,
        waiting_max: int,
        samples_max: int,
    ) -> None:
        self._session = session
        self._post = post
        self._rights = rights
        self.timeout_s = timeout_s
        self._running_max = running_max
        self._waiting_max = waiting_max
        self._samples_max = samples_max
        self._running = 0
        self._waiting: deque[Question] = deque()
        self.asked_count = 0
        self.dropped_count = 0
        self._is_closed = False

    def ask(self, question: Question) -> None:
        """Ask now, or when one of those that run has ended."""
        self._waiting.append(question)
        self._ask_waiting()
        if len(self._waiting) > self._waiting_max:
            self.dropped_count += 1
            self._waiting.popleft().done([], 0)

    def _ask_waiting(self) -> None:
        while self._waiting and self._running < self._running_max:
            self._start(self._waiting.popleft())

    def _start(self, question: Question) -> None:
        if not self._rights.allow_query(question.key_expr, question.parameters):
            question.done([], 0)
            return
        self._running += 1
        self.asked_count += 1
        found: list[Item] = []
        beyond = 0

        def take(reply: Reply) -> None:
            nonlocal beyond
            sample = reply.ok
            if sample is None or not self._rights.show_reply(sample.key_text):
                return
            if len(found) >= self._samples_max:
                beyond += 1
                return
            stamp = sample.raw_stamp
            beside = sample.attachment
            found.append(
                Item(
                    sample.key_text,
                    None if sample.kind is SampleKind.DELETE else sample.payload.to_bytes(),
                    0 if stamp is None else stamp.time,
                    b"" if stamp is None else stamp.id,
                    None if beside is None else beside.to_bytes(),
                )
            )

        def end() -> None:
            self._post(lambda _now_ns: self._ended(question, found, beyond))

        try:
            self._session.get(
                Selector(KeyExpr(question.key_expr), Parameters(question.parameters)),
                Callback(take, end, indirect=False),
                target=QueryTarget.ALL,
                consolidation=QueryConsolidation(ConsolidationMode.NONE),
                accept_replies=ReplyKeyExpr.ANY,
                timeout=self.timeout_s,
            )
        except EleaError:
            self._running -= 1
            question.done(found, beyond)

    def close(self) -> None:
        """Ask no more."""
        self._is_closed = True
        self._waiting.clear()

    def _ended(self, question: Question, found: list[Item], beyond: int) -> None:
        self._running -= 1
        if self._is_closed:
            return
        question.done(found, beyond)
        self._ask_waiting()


def cache_key(key: str, zid: str, *, ros: bool) -> str:
    """Return where a bridge answers with what the durable writers of a key keep (D-563, D-664).

    Example:
        >>> cache_key("tf", "a0", ros=False)
        'tf/@dds_pub_cache/a0'
    """
    return f"{key}/@adv/pub/{zid}/uhlc/_" if ros else f"{key}/{CACHE}/{zid}"
