"""A replay is controlled through keys, by any Zenoh client.

@elea/replay/ID             a liveliness token: this replay runs
@elea/replay/ID/status      get: what it does, as JSON
@elea/replay/ID/pause       put, or get; the payload is not looked at
@elea/replay/ID/resume      likewise
@elea/replay/ID/stop        likewise
@elea/replay/ID/seek        the payload is a moment, as `2024-07-01T13:51:12Z` or `start+90s`
@elea/replay/ID/speed       the payload is a number; 0 is as fast as possible

A get takes its value from the payload or from the parameter `value`, and is answered with the
status after it was done, or with an error: `{"error": "invalid", "detail": "..."}`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from elea.encoding import Encoding
from elea.errors import ClosedError, EleaError, InvalidValueError
from elea.json5 import Json
from elea.keyexpr.match import intersects
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.session.query import Query
from elea.session.session import Session
from elea.zbytes import ZBytes

PREFIX: Final = "@elea/replay"
STATUS: Final = "status"
STOP: Final = "stop"
VERBS: Final = ("pause", "resume", "seek", "speed", STOP)
_LOG: Final = logging.getLogger("elea.store.replay")
_VALUE_LEN_MAX: Final = 256  # of a moment or a number; the longest sensible one has about 40


class Controllable(Protocol):
    """What is controlled."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def seek(self, moment: str) -> None: ...
    def set_speed(self, speed: float) -> None: ...
    def stop(self) -> None: ...
    def status(self) -> dict[str, Json]: ...


class Control:
    """The keys of one replay, until `close`.

    Args:
        session: Where they are declared.
        id: The name of the replay.
        replay: What is controlled.
    """

    __slots__ = ("_declared", "_prefix", "_replay", "refused_count")

    def __init__(self, session: Session, id: str, replay: Controllable) -> None:
        self._prefix = f"{PREFIX}/{id}"
        self._replay = replay
        self.refused_count = 0  # commands that were wrong
        keys = f"{self._prefix}/*"
        self._declared = (
            session.declare_queryable(keys, self._on_query),
            session.declare_subscriber(keys, self._on_sample),
            session.liveliness().declare_token(self._prefix),
        )

    def close(self) -> None:
        """Take the keys away; again is no error."""
        for declared in self._declared:
            with suppress(ClosedError):
                declared.undeclare()

    def _on_sample(self, sample: Sample) -> None:
        if sample.kind is not SampleKind.PUT:
            return
        verb = str(sample.key_expr).rpartition("/")[2]
        try:
            self._do(verb, _text(sample.payload))
        except EleaError as error:
            self.refused_count += 1
            _LOG.warning("%s: %s", sample.key_expr, error)

    def _on_query(self, query: Query) -> None:
        with query:
            asked = str(query.key_expr)
            status = f"{self._prefix}/{STATUS}"
            verb = asked.rpartition("/")[2]
            if "*" in verb or asked == status:
                # Who asks for all keys wants to know, not to do everything at once.
                if intersects(asked, status):
                    self._answer(query, status)
                return
            try:
                value = query.payload
                given = query.parameters.get("value") or ""
                told = given if value is None else _text(value)
                if verb == STOP:  # there may be nobody left to answer afterwards
                    self._answer(query, f"{self._prefix}/{verb}")
                self._do(verb, told)
                if verb != STOP:
                    self._answer(query, f"{self._prefix}/{verb}")
            except EleaError as error:
                self.refused_count += 1
                refusal = json.dumps({"error": "invalid", "detail": str(error)})
                query.reply_err(refusal, encoding=Encoding.APPLICATION_JSON)

    def _answer(self, query: Query, key: str) -> None:
        text = json.dumps(self._replay.status())
        query.reply(key, text, encoding=Encoding.APPLICATION_JSON)

    def _do(self, verb: str, value: str) -> None:
        acts: dict[str, Callable[[], None]] = {
            "pause": self._replay.pause,
            "resume": self._replay.resume,
            "seek": lambda: self._replay.seek(value),
            "speed": lambda: self._replay.set_speed(_number(value)),
            STOP: self._replay.stop,
        }
        if verb not in acts:
            reason = f"saw {verb!a}; legal are {', '.join((*VERBS, STATUS))}"
            raise InvalidValueError("command of a replay", reason)
        acts[verb]()


def _text(payload: ZBytes) -> str:
    if len(payload) > _VALUE_LEN_MAX:
        raise InvalidValueError("value", f"saw {len(payload)} octets; legal are {_VALUE_LEN_MAX}")
    try:
        return payload.to_string().strip()
    except ValueError as error:
        raise InvalidValueError("value", "saw octets that are no UTF-8; legal is text") from error


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        reason = f"saw {text[:40]!a}; legal is a number, as 0.5, 1 or 20; 0 is as fast as possible"
        raise InvalidValueError("speed", reason) from error
