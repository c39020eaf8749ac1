"""Transactions: declarations that are answered together, at both ends (9.2).

A node says how many further transactions it can hold while it decides about one (commit mode n).
Whoever asks keeps to it: with n = 0 nothing is declared until the Result is there, otherwise at
most n Commits are unanswered. Whoever is asked holds n + 1 and refuses what goes beyond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from elea.errors import LimitError
from elea.limits import DEFAULT_LIMITS, XRCE_DECLARATIONS_COUNT_MAX, Limits
from elea.xrce.declaration_records import CommitDecl, Declaration, ResultDecl
from elea.xrce.encode import encode
from elea.xrce.message_records import Declare
from elea.xrce.status import RefusedError, Status

COMMIT_IDS: Final = 256  # they are octets
_DECLARE_LEN: Final = 13  # header, sequence number and count, at their longest
_EMPTY_LEN: Final = 3  # and at their shortest


@dataclass(slots=True)
class Transaction:
    """Declarations that wait to be decided about, or that were refused before anybody looked."""

    commit_id: int
    declarations: tuple[Declaration, ...] = ()
    refused: Status | None = None

    def result(self, refusal: RefusedError | None = None) -> ResultDecl:
        """The answer: success, or what was refused."""
        if self.refused is not None:
            return ResultDecl(commit_id=self.commit_id, status=int(self.refused), id=0)
        if refusal is not None:
            return ResultDecl(
                commit_id=self.commit_id, status=int(refusal.status), id=max(refusal.id, 0)
            )
        return ResultDecl(commit_id=self.commit_id, status=int(Status.SUCCESS))


@dataclass(slots=True)
class _Open:
    declarations: list[Declaration] = field(default_factory=list)
    too_large: bool = False


_NOTHING: Final[list[Transaction]] = []  # shared by all that hold nothing, and never changed


class Incoming:
    """The transactions of a peer. Each conduit collects its own; the session decides in order."""

    __slots__ = (
        "_held",
        "_held_max",
        "_limits",
        "_open",
        "refused_count",
    )

    def __init__(self, commit_mode: int, limits: Limits = DEFAULT_LIMITS) -> None:
        self.refused_count = 0  # transactions dropped unseen
        self._held_max = commit_mode + 1
        self._limits = limits
        self._open: dict[int, _Open] | None = None  # by conduit; one that was used is not small
        self._held = _NOTHING  # a deque takes 760 octets, for each device

    def receive(self, declare: Declare, conduit: int) -> None:
        """Declarations of a message without C; Results in it are somebody else's."""
        said = [one for one in declare.declarations if not isinstance(one, ResultDecl)]
        commits = [one for one in said if isinstance(one, CommitDecl)]
        if not commits:
            self._collect(conduit, said)
            return
        if len(commits) > 1 or said[-1] is not commits[0]:
            self._take(conduit)
            for commit in commits:
                self._hold(Transaction(commit.commit_id, refused=Status.INVALID))
            return
        self._collect(conduit, said[:-1])
        opened = self._take(conduit)
        refused = Status.TOO_MUCH if opened.too_large else None
        declared = () if opened.too_large else tuple(opened.declarations)
        self._hold(Transaction(commits[0].commit_id, declared, refused))

    @property
    def is_open(self) -> bool:
        """Whether declarations wait for their Commit."""
        return self._open is not None

    def next(self) -> Transaction | None:
        """The transaction to decide about and to answer now."""
        return self._held.pop(0) if self._held else None

    @property
    def held_count(self) -> int:
        """Transactions that wait."""
        return len(self._held)

    def _collect(self, conduit: int, declarations: Sequence[Declaration]) -> None:
        self._open = {} if self._open is None else self._open
        opened = self._open.setdefault(conduit, _Open())
        count = len(opened.declarations) + len(declarations)
        if opened.too_large or count > self._limits.xrce_transaction_count:
            opened.too_large = True
            opened.declarations.clear()
            return
        opened.declarations += declarations

    def _take(self, conduit: int) -> _Open:
        """End the transaction of a conduit."""
        opened = (self._open or {}).pop(conduit, None)
        self._open = self._open or None
        return opened or _Open()

    def _hold(self, transaction: Transaction) -> None:
        if transaction.refused is None:
            waiting = sum(one.refused is None for one in self._held)
            if waiting >= self._held_max:
                transaction = Transaction(transaction.commit_id, refused=Status.TOO_MUCH)
        if transaction.refused is not None:
            self.refused_count += 1
            if len(self._held) >= COMMIT_IDS:  # more than there are ids: nobody can tell them apart
                return
        self._held = self._held or []
        self._held.append(transaction)


@dataclass(slots=True)
class Settled:
    """A transaction of ours that was answered."""

    declarations: tuple[Declaration, ...]
    status: Status
    id: int  # of what was refused; 0 if nothing, or if nobody knows


@dataclass(slots=True)
class _Asked:
    declarations: tuple[Declaration, ...]
    sent_count: int = 0  # of them


class Outgoing:
    """Our transactions towards one peer, in order.

    Args:
        commit_mode: What the peer advertised.
        frame_len: What fits into one message; a transaction is spread over as many as it takes.
        waiting_count: Transactions that may wait, those included that are not answered yet.
    """

    __slots__ = (
        "_commit_mode",
        "_frame_len",
        "_next_id",
        "_unanswered",
        "_waiting",
        "_waiting_count",
        "strays_count",
    )

    def __init__(self, commit_mode: int, frame_len: int, waiting_count: int = 64) -> None:
        self.strays_count = 0  # Results that answer nothing
        self._commit_mode = commit_mode
        self._frame_len = frame_len
        self._waiting_count = min(waiting_count, COMMIT_IDS)
        self._waiting: list[_Asked] = []
        self._unanswered: dict[int, _Asked] = {}
        self._next_id = 0

    def ask(self, declarations: Sequence[Declaration]) -> None:
        """Declare these together.

        Raises:
            LimitError: Too many transactions wait already.
        """
        count = len(self._waiting) + len(self._unanswered)
        if count >= self._waiting_count:
            raise LimitError("transactions", count, self._waiting_count)
        self._waiting.append(_Asked(tuple(declarations)))

    def next(self) -> tuple[Declaration, ...] | None:
        """The declarations of the next message, if one may be sent now."""
        if not self._waiting or (self._unanswered and self._commit_mode == 0):
            return None
        asked = self._waiting[0]
        rest = asked.declarations[asked.sent_count :]
        fitting = self._fitting(rest)
        if len(fitting) < len(rest):
            asked.sent_count += len(fitting)
            return fitting
        if len(self._unanswered) >= max(1, self._commit_mode):
            asked.sent_count += len(fitting)
            return fitting or None  # the Commit waits
        commit = CommitDecl(commit_id=self._take_id())
        if fitting and not self._fits((*fitting, commit)):
            asked.sent_count += len(fitting)
            return fitting
        self._waiting.pop(0)
        self._unanswered[commit.commit_id] = asked
        self._next_id = (commit.commit_id + 1) % COMMIT_IDS
        return (*fitting, commit)

    def unsettled(self) -> Iterator[Declaration]:
        """What was asked for and is not answered yet."""
        for asked in (*self._unanswered.values(), *self._waiting):
            yield from asked.declarations

    def result(self, result: ResultDecl) -> Settled | None:
        """A Result came; None if it answers nothing of ours."""
        asked = self._unanswered.pop(result.commit_id, None)
        if asked is None:
            self.strays_count += 1
            return None
        known = result.status <= max(Status)
        status = Status(result.status) if known else Status.OTHER
        return Settled(asked.declarations, status, result.id or 0)

    def _take_id(self) -> int:
        found = self._next_id
        while found in self._unanswered:  # there are more ids than transactions
            found = (found + 1) % COMMIT_IDS
        return found

    def _fitting(self, declarations: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        """As many as one message takes, at least one."""
        room = self._frame_len - _DECLARE_LEN
        for count, declaration in enumerate(declarations):
            room -= _length(declaration)
            if room < 0 and count > 0:
                return declarations[:count]
            if count + 1 == XRCE_DECLARATIONS_COUNT_MAX:
                return declarations[: count + 1]
        return declarations

    def _fits(self, declarations: tuple[Declaration, ...]) -> bool:
        if len(declarations) > XRCE_DECLARATIONS_COUNT_MAX:
            return False
        return sum(map(_length, declarations)) + _DECLARE_LEN <= self._frame_len


def _length(*declarations: Declaration) -> int:
    message = Declare(sync=False, committed=False, sn=0, declarations=declarations)
    return len(encode(message)) - _EMPTY_LEN
