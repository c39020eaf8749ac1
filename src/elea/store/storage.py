"""Storage: which update of a key wins, whatever the order they arrive in. Pure but for its backend.

The value of a key is what one gets by applying all its updates in the order of their timestamps:
a put sets it, a delete takes it away, an update or a deletion of many keys (on `a/**`) does the
same to each key that has a value then, so it never brings back a key that was deleted. To get there
with updates out of order, deletions and updates of many keys are remembered as marks until
`collect` forgets those that are too old for stragglers.

Where a backend keeps history, each put adds a value, and a deletion takes those that are older.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import includes
from elea.keyexpr.tree import KeyExprTree
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.backend import Backend, KeepsHistory, KeepsMarks, Mark, Stored
from elea.timerange import TimeRange
from elea.timestamp import NANOS_PER_SECOND, Timestamp

_TIME_MAX: Final = (1 << 64) - 1
_SLACK: Final = 16  # units of 2^-32 s: a time range is told in nanoseconds, which are coarser


class _Entry:
    """A key that has a value. `base` is its own last put; an update of many may be newer."""

    __slots__ = ("base", "key", "timestamp")

    def __init__(self, key: str, timestamp: Timestamp, base: Timestamp) -> None:
        self.key = key
        self.timestamp = timestamp
        self.base = base


class Storage:
    """The values of one key expression.

    Args:
        backend: Where they are kept; what it has already is taken over.
        key_expr: The keys that are kept.
        strip_prefix: What is left out of keys towards the backend.
        limits: How many keys and marks there may be.
    """

    def __init__(
        self,
        backend: Backend,
        key_expr: str = "**",
        strip_prefix: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._backend = backend
        self._history = backend if isinstance(backend, KeepsHistory) else None
        self._durable_marks = backend if isinstance(backend, KeepsMarks) else None
        self._key_expr = key_expr
        self._prefix = strip_prefix
        self._limits = limits
        self._entries: KeyExprTree[_Entry] = KeyExprTree()
        self._marks: dict[
            tuple[str, bool], Mark
        ] = {}  # by key and whether it deletes, oldest first
        self._wild: dict[bool, KeyExprTree[Mark]] = {True: KeyExprTree(), False: KeyExprTree()}
        self.forgotten_count = 0  # marks given up early, for there were too many
        self.unsaved_count = 0  # marks that the backend did not take; they end with the process
        self.foreign_count = 0  # entries of the backend that are no keys of this storage
        self.reload()
        for mark in () if self._durable_marks is None else self._durable_marks.marks():
            self._take(mark)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def keeps_history(self) -> bool:
        """Whether a key has more than its newest value."""
        return self._history is not None

    @property
    def marks_count(self) -> int:
        """How many deletions and updates of many keys are remembered."""
        return len(self._marks)

    def reload(self) -> None:
        """Ask the backend what it has."""
        entries: KeyExprTree[_Entry] = KeyExprTree()
        self.foreign_count = 0
        for key, timestamp in self._backend.entries():
            whole = self._whole(key)
            if whole is None:
                self.foreign_count += 1
            else:
                entries.insert(whole, _Entry(whole, timestamp, timestamp))
        self._entries = entries

    # Updates.

    def put(self, key: str, value: Stored) -> bool:
        """Take a value for a key, or for all keys that match and have one.

        Returns:
            Whether it changed what is remembered; False means that something newer was known.

        Raises:
            LimitError: there are too many keys; nothing has changed.
        """
        if "*" in key:
            return self._update(Mark(key, value.timestamp, value))
        timestamp = value.timestamp
        entry = self._entries.get(key)
        if entry is not None and self._history is None and entry.base >= timestamp:
            return False
        if self._deleted(key, timestamp):
            return False
        if entry is None:
            bound = self._limits.storage_keys_count
            if len(self._entries) >= bound:
                raise LimitError("storage_keys_count", len(self._entries) + 1, bound)
        newest = self._overriding(key, timestamp) or value
        if self._history is not None and newest is not value:
            self._backend.put(self._stripped(key), value)
        if self._history is not None or entry is None or entry.timestamp < newest.timestamp:
            self._backend.put(self._stripped(key), newest)
        if entry is None:
            self._entries.insert(key, _Entry(key, newest.timestamp, timestamp))
        else:
            entry.timestamp = max(entry.timestamp, newest.timestamp)
            entry.base = max(entry.base, timestamp)
        if self._history is None:  # what is older than the value is refused without it
            self._drop_mark((key, True))
        return True

    def delete(self, key: str, timestamp: Timestamp) -> bool:
        """Take away what is older: the value of a key, or of all keys that match.

        Returns:
            Whether it changed what is remembered; False means that something newer was known.
        """
        if "*" in key:
            return self._update(Mark(key, timestamp))
        entry = self._entries.get(key)
        if entry is not None and self._history is None and entry.base >= timestamp:
            return False
        known = self._marks.get((key, True))
        if known is not None and known.timestamp >= timestamp:
            return False
        self._remember(Mark(key, timestamp))  # first: a crash between leaves what can be repeated
        if entry is not None:
            self._remove(entry, timestamp)
        return True

    def _update(self, mark: Mark) -> bool:
        """An update or a deletion of many keys. If it fails for some, the others are done."""
        known = self._marks.get((mark.key, mark.value is None))
        if known is not None and known.timestamp >= mark.timestamp:
            return False
        self._remember(mark)
        failure: Exception | None = None
        for entry in self._entries.intersecting(mark.key):
            try:
                if mark.value is None:
                    self._remove(entry, mark.timestamp)
                elif self._history is not None or entry.timestamp < mark.timestamp:
                    self._backend.put(self._stripped(entry.key), mark.value)
                    entry.timestamp = max(entry.timestamp, mark.timestamp)
            except Exception as error:  # somebody else's backend: raised again below
                failure = error
        if failure is not None:
            raise failure
        return True

    def _remove(self, entry: _Entry, timestamp: Timestamp) -> None:
        if self._history is None:
            if entry.base >= timestamp:
                return
            # An update of many may be newer than the deletion; without the put it found nothing.
            timestamp = max(timestamp, entry.timestamp)
        self._backend.delete(self._stripped(entry.key), timestamp)
        if entry.timestamp <= timestamp:
            self._entries.remove(entry.key)

    def _deleted(self, key: str, timestamp: Timestamp) -> bool:
        """Whether a deletion that is as new, or newer, was seen."""
        mark = self._marks.get((key, True))
        if mark is not None and mark.timestamp >= timestamp:
            return True
        return any(one.timestamp >= timestamp for one in self._wild[True].intersecting(key))

    def _overriding(self, key: str, timestamp: Timestamp) -> Stored | None:
        """The newest update of many keys that came after a put."""
        found = [one for one in self._wild[False].intersecting(key) if one.timestamp > timestamp]
        return max(found, key=lambda one: one.timestamp).value if found else None

    # Marks.

    def _remember(self, mark: Mark) -> None:
        if self._durable_marks is not None:
            try:
                self._durable_marks.mark(mark)
            except Exception:  # somebody else's backend, or a full disk: deletions make room on it
                self.unsaved_count += 1
        self._take(mark)

    def _take(self, mark: Mark) -> None:
        name = (mark.key, mark.value is None)
        self._marks.pop(name, None)  # so that it is the newest in the order of the dictionary
        self._marks[name] = mark
        if "*" in mark.key:
            self._wild[mark.value is None].insert(mark.key, mark)
        if len(self._marks) > self._limits.storage_marks_count:
            self._drop_mark(next(iter(self._marks)))
            self.forgotten_count += 1

    def _drop_mark(self, name: tuple[str, bool]) -> None:
        mark = self._marks.pop(name, None)
        if mark is None:
            return
        if "*" in mark.key:
            self._wild[mark.value is None].remove(mark.key)
        if self._durable_marks is not None:
            self._durable_marks.unmark(mark)

    def collect(self, before_ns: int) -> int:
        """Forget the marks that are older than a time, in nanoseconds since 1970; how many."""
        old = [
            name for name, mark in self._marks.items() if mark.timestamp.time.as_nanos() < before_ns
        ]
        for name in old:
            self._drop_mark(name)
        return len(old)

    # Questions.

    def keys(self, key_expr: str) -> list[str]:
        """The keys with a value that intersect a key expression, in order."""
        if "*" not in key_expr:
            return [key_expr] if key_expr in self._entries else []
        return sorted(entry.key for entry in self._entries.intersecting(key_expr))

    def newest(self, key_expr: str) -> Timestamp | None:
        """The newest timestamp of the keys that intersect a key expression."""
        found = (entry.timestamp for entry in self._entries.intersecting(key_expr))
        return max(found, default=None)

    def values(self, key: str, times: TimeRange | None, now_ns: int) -> Iterator[Stored]:
        """The newest value of a key; with a time range, those inside of it, oldest first."""
        stripped = self._stripped(key)
        found: Iterable[Stored | None]
        if times is None or self._history is None:
            found = (self._backend.get(stripped),)
        else:
            found = self._history.history(stripped, *_bounds(times, now_ns))
        for value in found:
            if value is not None and (times is None or times.contains(value.timestamp, now_ns)):
                yield value

    def flush(self) -> None:
        """Return when all survives a crash; if it raises, the index is what the backend has."""
        try:
            self._backend.flush()
        except BaseException:
            self.reload()
            raise

    def close(self) -> None:
        """Flush, and let go of the backend."""
        try:
            self._backend.flush()
        finally:
            self._backend.close()

    # Keys towards the backend.

    def _stripped(self, key: str) -> str:
        if self._prefix is None:
            return key
        return key[len(self._prefix) + 1 :]

    def _whole(self, key: str) -> str | None:
        """The key of an entry; None if it is none of this storage."""
        parts = [part for part in (self._prefix, key) if part]
        try:
            whole = str(KeyExpr("/".join(parts)))
        except (KeyExprError, LimitError):
            return None
        return whole if "*" not in whole and includes(self._key_expr, whole) else None


def _bounds(times: TimeRange, now_ns: int) -> tuple[int, int]:
    """A range of time as 64 bits, a little wider than it is."""
    first, last = 0, _TIME_MAX
    if times.start is not None:
        first = (times.start.resolve(now_ns) << 32) // NANOS_PER_SECOND - _SLACK
    if times.end is not None:
        last = (times.end.resolve(now_ns) << 32) // NANOS_PER_SECOND + _SLACK
    return min(max(first, 0), _TIME_MAX), min(max(last, 0), _TIME_MAX)
