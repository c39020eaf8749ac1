"""Audit: who came, what was refused, what was changed; one JSON line each, chained by hashes.

A line holds the hash of the line before it, so that none can be changed or taken out unseen. Lines
never hold payloads, passwords or values of the configuration. Each goes to a file, if one is
configured, and in short to the logger `elea.audit`. A neighbour that is refused again and again
gets some lines a second; the rest is counted, and the count gets a line.

Events come from threads that must not wait: they are queued, and a thread of the audit writes them.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from io import RawIOBase
from pathlib import Path
from typing import Final

from elea.daemon.events import KEPT_COUNT, Ring
from elea.errors import ConfigError
from elea.json5 import Json
from elea.policy.events import LoggedIn, LoggedOut, LoginRefused, OverQuota, PolicyEvent, Refused
from elea.policy.identity import Identity

FILE: Final = "elea/audit/file"
LINES_PER_SECOND: Final = "elea/audit/lines_per_second"
START: Final = "0" * 32  # what the first line of a chain holds in place of a hash
_LOG: Final = logging.getLogger("elea.audit")
_QUEUE_COUNT_MAX: Final = 10_000  # lines that wait to be written; more are counted as lost
_SOURCES_COUNT_MAX: Final = 4_096  # neighbours whose rate is remembered
_TAIL_LEN: Final = 64 * 1024  # where the last line of a file is looked for
_SECOND_NS: Final = 1_000_000_000
_REOPEN: Final[dict[str, Json]] = {}  # in the queue, in place of a line


@dataclass(slots=True)
class _Rate:
    """The lines of one neighbour in the current second."""

    since_ns: int
    written: int = 0
    left_out: int = 0


class Audit:
    """Writes audit lines.

    `lost` counts lines that could not be written, and those that found no room in the queue.

    Args:
        file: Where lines are added, besides the log; None for nowhere.
        lines_per_second: Refusals of one neighbour that get a line each.
        clock: The time of day in nanoseconds.
        on_line: Told each line, by the thread that writes them.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(
        self,
        file: str | None = None,
        lines_per_second: int = 10,
        *,
        clock: Callable[[], int] = time.time_ns,
        on_line: Callable[[dict[str, Json]], None] = lambda _: None,
    ) -> None:
        self.lost = 0
        self.lines = Ring()  # the last ones, as they were written
        self._on_line = on_line
        self._clock = clock
        self.lines_per_second = lines_per_second
        self._rates: dict[tuple[str, str], _Rate] = {}
        self._queue: queue.SimpleQueue[dict[str, Json] | None] = queue.SimpleQueue()
        self._seq = 0
        self._hash = START
        self._name = file
        self._stream: RawIOBase | None = None if file is None else self._open(file)
        self._writer = threading.Thread(target=self._run, name="elea-audit", daemon=True)
        self._writer.start()

    def policy(self, event: PolicyEvent) -> None:
        """What the node tells; called under its lock, so nothing is written here."""
        match event:
            case Refused():
                refusal = event.refusal
                self._limited(
                    event.identity,
                    {
                        "event": "refused",
                        "reason": str(refusal.reason),
                        "flow": refusal.flow.value,
                        "action": refusal.action.value,
                        "key": refusal.key,
                        "rule": refusal.rule_id,
                        "why": refusal.why,
                        **_who(event.identity),
                    },
                )
            case LoggedIn():
                self.note("login", **_who(event.identity))
            case LoggedOut():
                self.note("logout", why=event.reason, **_who(event.identity))
            case LoginRefused():
                self.note("login_refused", address=event.address, why=event.reason)
            case OverQuota():
                what: dict[str, Json] = {
                    "event": "over_quota",
                    "quota": event.quota_id,
                    "closed": event.closed,
                    **_who(event.identity),
                }
                self._limited(event.identity, what)

    def note(self, event: str, **fields: Json) -> None:
        """Anything else."""
        self._put({"event": event, **fields})

    def verify_kept(self) -> str | None:
        """Whether the lines in memory are one unbroken chain: None, or what is wrong."""
        kept = self.lines.after(0, KEPT_COUNT).entries
        return verify(str(one["line"]) for one in kept)

    def reopen(self) -> None:
        """Go on in a new file of the same name, if the old one was moved away; soon."""
        self._queue.put(_REOPEN)

    def close(self) -> None:
        """Write what is queued, and end."""
        for name, rate in list(self._rates.items()):
            self._tell_left_out(name, rate)
        self._queue.put(None)
        self._writer.join(5)

    def _limited(self, identity: Identity, fields: dict[str, Json]) -> None:
        name = identity.name, identity.zid
        now_ns = self._clock()
        rate = self._rates.get(name)
        if rate is None or not 0 <= now_ns - rate.since_ns < _SECOND_NS:
            if rate is not None:
                self._tell_left_out(name, rate)
            elif len(self._rates) >= _SOURCES_COUNT_MAX:
                oldest = next(iter(self._rates))
                self._tell_left_out(oldest, self._rates.pop(oldest))
            rate = self._rates[name] = _Rate(now_ns)
        if rate.written >= self.lines_per_second:
            rate.left_out += 1
            return
        rate.written += 1
        self._put(fields)

    def _tell_left_out(self, name: tuple[str, str], rate: _Rate) -> None:
        if rate.left_out:
            self.note("left_out", identity=name[0], zid=name[1], count=rate.left_out)

    def _put(self, fields: dict[str, Json]) -> None:
        if self._queue.qsize() >= _QUEUE_COUNT_MAX:
            self.lost += 1
            return
        moment = datetime.fromtimestamp(self._clock() / _SECOND_NS, UTC)
        self._queue.put({"time": moment.isoformat(timespec="microseconds"), **fields})

    # On the writer's thread.

    def _run(self) -> None:
        while (fields := self._queue.get()) is not None:
            if fields is _REOPEN:
                self._change_file()
                continue
            self._seq += 1
            line, self._hash = chained({"seq": self._seq, **fields}, self._hash)
            self.lines.add({"line": line})
            self._on_line(fields)
            if fields.get("event") != "started":  # which the daemon's own line says
                _LOG.info("%s", described(fields), extra={"fields": fields})
            if self._stream is None:
                continue
            try:
                self._stream.write(line.encode() + b"\n")
            except OSError as error:
                self.lost += 1
                _LOG.error("audit lines cannot be written to %s: %s", self._name, error.strerror)
        if self._stream is not None:
            self._stream.close()

    def _change_file(self) -> None:
        if self._name is None or self._stream is None:
            return
        seq, last = self._seq, self._hash
        try:
            stream = self._open(self._name)
        except ConfigError as error:
            _LOG.error("the audit goes on in the old file: %s", error)
            return
        self._stream.close()
        self._stream = stream
        self._seq, self._hash = seq, last  # one chain over all files

    def _open(self, name: str) -> RawIOBase:
        """Open the file to add lines, and go on with its chain."""
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            stream = os.fdopen(descriptor, "r+b", buffering=0)  # a line is one write
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(length - _TAIL_LEN, 0))
            tail = stream.read(min(length, _TAIL_LEN)) or b""
            if tail and not tail.endswith(b"\n"):
                stream.write(b"\n")  # the last line was cut; it stays as it is
        except OSError as error:
            raise ConfigError(FILE, f"{name}: {error.strerror}") from None
        for text in reversed(tail.splitlines()):
            try:
                last = json.loads(text)
                self._seq, self._hash = int(last["seq"]), str(last["hash"])
            except (ValueError, KeyError, TypeError):
                continue
            break
        return stream


def described(fields: dict[str, Json]) -> str:
    """A line of the audit in one of the log: what happened, then what is known of it.

    Example:
        >>> described({"time": "...", "event": "login", "user": "anna", "links": []})
        'login user=anna'
    """
    event = str(fields.get("event", ""))
    told = [
        f"{name}={_shown(value)}"
        for name, value in fields.items()
        if name not in ("time", "event") and value not in (None, "", [])
    ]
    return " ".join([event, *told])


def _shown(value: Json) -> str:
    """A value of a line, short: links as locators without their ports."""
    if isinstance(value, list):
        return ",".join(map(_shown, value))
    if isinstance(value, dict) and "protocol" in value:
        return f"{value['protocol']}/{value['address']}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def chained(fields: dict[str, Json], previous: str) -> tuple[str, str]:
    """A line that follows the one with hash `previous`, and its own hash."""
    body = {**fields, "prev": previous}
    digest = _digest(body)
    return json.dumps({**body, "hash": digest}, separators=(",", ":"), ensure_ascii=True), digest


def verify(lines: Iterable[str]) -> str | None:
    """Whether lines are one unbroken chain: None, or what is wrong where first."""
    previous: str | None = None
    for number, line in enumerate(lines, 1):
        try:
            body = json.loads(line)
            claimed = body.pop("hash")
            before = body["prev"]
        except (ValueError, KeyError, AttributeError, TypeError):
            return f"line {number} is no audit line"
        if _digest(body) != claimed:
            return f"line {number} was changed"
        if previous is not None and before != previous:
            return f"a line is missing before line {number}"
        previous = claimed
    return None


def _digest(body: dict[str, Json]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _who(identity: Identity) -> dict[str, Json]:
    links: list[Json] = [
        {"protocol": link.protocol, "address": link.address, "cert": link.common_name}
        for link in identity.links
    ]
    return {"identity": identity.name, "zid": identity.zid, "user": identity.user, "links": links}


def verify_file(path: Path) -> str | None:
    """As `verify`, for a file."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        return verify(line.rstrip("\n") for line in stream)
