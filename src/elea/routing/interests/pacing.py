"""Pacing: who asks for everything again and again waits for the answers, and nobody else. T24.

An interest of a few octets may be answered by every declaration there is. The first one is answered
at once; what it costs is paid off at a fixed rate, and further interests wait until that is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from elea.limits import Limits
from elea.records import dataclass, field
from elea.routing.timers import Timer, Timers
from elea.wire.network.interest import Interest

Answer = Callable[[Interest, str | None, int], None]


@dataclass(slots=True)
class _Account:
    paid_ns: int = 0  # when all answers so far are paid off
    waiting: deque[tuple[Interest, str | None]] = field(default_factory=deque)
    timer: Timer | None = None


class Pacing:
    """The answers that faces owe for, and the interests that wait.

    Args:
        timers: Of routing.
        limits: The price of an answer, and the debt that is let pass.
    """

    __slots__ = ("_by_face", "_limits", "_timers")

    def __init__(self, timers: Timers, limits: Limits) -> None:
        self._timers = timers
        self._limits = limits
        self._by_face: dict[int, _Account] = {}

    def __len__(self) -> int:
        return len(self._by_face)

    def waiting_count(self, face_id: int) -> int:
        """How many interests of a face wait."""
        account = self._by_face.get(face_id)
        return 0 if account is None else len(account.waiting)

    def must_wait(self, face_id: int, now_ns: int) -> bool:
        """Whether a face owes too much to be answered now, or has others that wait."""
        account = self._by_face.get(face_id)
        if account is None:
            return False
        return bool(account.waiting) or account.paid_ns > now_ns + self._limits.answers_debt_ns

    def wait(self, face_id: int, interest: Interest, key: str | None, answer: Answer) -> None:
        """Let an interest wait, and answer it when it is its turn."""
        account = self._by_face[face_id]
        account.waiting.append((interest, key))
        if account.timer is None:
            self._arm(account, answer)

    def _arm(self, account: _Account, answer: Answer) -> None:
        def next_one(now_ns: int) -> None:
            account.timer = None
            if account.waiting:
                answer(*account.waiting.popleft(), now_ns)
            if account.waiting:
                self._arm(account, answer)

        due_ns = account.paid_ns - self._limits.answers_debt_ns
        account.timer = self._timers.add(due_ns, next_one)

    def withdraw(self, face_id: int, interest_id: int) -> bool:
        """Whether an interest waited, which it does no longer."""
        account = self._by_face.get(face_id)
        if account is None:
            return False
        kept = [one for one in account.waiting if one[0].id != interest_id]
        withdrawn = len(kept) < len(account.waiting)
        account.waiting = deque(kept)
        return withdrawn

    def charge(self, face_id: int, count: int, now_ns: int) -> None:
        """So many declarations were an answer."""
        if count:
            account = self._by_face.setdefault(face_id, _Account())
            account.paid_ns = max(account.paid_ns, now_ns) + count * self._limits.answer_ns

    def forget(self, face_id: int) -> None:
        """A face left."""
        account = self._by_face.pop(face_id, None)
        if account is not None:
            account.waiting.clear()
            if account.timer is not None:
                account.timer.cancel()
