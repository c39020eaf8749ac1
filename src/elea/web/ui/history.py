"""History: what a plot shows of the past, asked of historians as any client asks them."""

from __future__ import annotations

import json
import time
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from operator import itemgetter

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elea.errors import KeyExprError, LimitError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.operate.text import escape
from elea.selector import Selector
from elea.series import Losses, Row, number_of, read, shown
from elea.session.rights import Action, only_reads
from elea.timestamp import Timestamp
from elea.web.payloads import ERROR_KEY, Entry
from elea.web.problems import ProblemError
from elea.web.rest import ask, body_of, count, permit
from elea.web.state import State, identity_of

_SPAN_S_MAX = 400 * 86_400.0
_SERIES = "application/json;elea-series"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which key, which fields of it, when, and how wide it is drawn."""

    key: str
    fields: tuple[str, ...]
    since: float
    until: float
    columns: int

    def selector(self, versions_max: int) -> Selector:
        """What historians are asked: for a series; others than ours answer with versions."""
        times = f"_time=[{_rfc3339(self.since)}..{_rfc3339(self.until)}]"
        series = f"_series={','.join(self.fields) or '*'};_columns={self.columns}"
        return Selector(f"{self.key}?{times};{series};_order=desc;_max={versions_max}")


class History:
    """Reads the past of one key, as many at once as the bounds allow.

    Args:
        state: Of the service.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._running_count = 0

    async def answer(self, request: Request) -> Response:
        """Points of some fields, the newest if there are too many, and what was lost.

        Raises:
            ProblemError: it is not legal, denied, or too many are read at once.
        """
        state, identity = self._state, identity_of(request.scope)
        asked = _asked(await json_of(request, state), state)
        most = state.limits.ui_history_count
        selector = asked.selector(most)
        told = str(selector.parameters)
        await permit(state, identity, Action.QUERY, asked.key, told)
        await count(state, identity, Action.QUERY, asked.key, told, length=0)
        if self._running_count >= state.limits.ui_histories_count:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._running_count} plots are being read; try again in a second",
                reason="pages",
                headers={"retry-after": "1"},
            )
        self._running_count += 1
        try:
            entries: list[Entry] = []
            series: list[dict[str, Json]] = []
            length, error, is_cut = 0, "", False
            timeout_s = state.settings.query_timeout_ms / 1e3
            async with aclosing(ask(state, identity, selector, timeout_s, None, None)) as replies:
                async for entry in replies:
                    if entry.kind == ERROR_KEY:
                        error = escape(entry.payload[:200].decode(errors="replace"))
                        continue
                    length += len(entry)
                    if str(entry.encoding) == _SERIES and length <= state.limits.ui_history_len:
                        series += _series(entry.payload)
                        continue
                    if len(entries) >= most or length > state.limits.ui_history_len:
                        is_cut = True
                        break
                    entries.append(entry)
            is_cut |= len(entries) >= most
            if series and not entries:
                return JSONResponse({**_joined(series), "error": error})
            return JSONResponse(await state.call(lambda: _points(entries, asked, error, is_cut)))
        finally:
            self._running_count -= 1


def _series(payload: bytes) -> list[dict[str, Json]]:
    """What a historian of ours answered; nothing if it is not what it should be."""
    try:
        part = json.loads(payload)
        times_and_values = list(part["series"].values())
        legal = all(len(times) == len(values) for times, values in times_and_values)
        numbers = [part["since"], part["until"], part["step"], part["rows"]]
        legal &= all(isinstance(one, int | float) for one in numbers)
        legal &= isinstance(part["fields"], list) and isinstance(part["lost"], list)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
    return [part] if legal else []


def _joined(parts: list[dict[str, Json]]) -> dict[str, Json]:
    """The fullest answer. Historians of one key have the same versions, or some of them."""
    return max(parts, key=lambda part: int(str(part["rows"])))


def _points(entries: list[Entry], asked: Asked, error: str, is_cut: bool) -> dict[str, Json]:
    """Called by a worker."""
    rows: dict[tuple[int, bytes], Row] = {}  # two historians may tell the same
    for entry in entries:
        if entry.kind == "PUT" and entry.timestamp is not None:
            time64 = Timestamp.parse(entry.timestamp).get_time_as_ntp64()
            row = Row(time64.as_secs_f64(), entry.payload, entry.encoding, number_of(entry.source))
            rows.setdefault((int(time64), entry.payload), row)
    ordered = [rows[key] for key in sorted(rows, key=itemgetter(0))]  # floats would be equal
    found = read(ordered, asked.fields, Losses())
    part = shown(found, asked.since, asked.until, asked.columns, whole=True)
    return {**part, "rows": len(ordered), "cut": is_cut, "error": error}


async def json_of(request: Request, state: State) -> dict[str, object]:
    """The body of a request of the page.

    Raises:
        ProblemError: it is no JSON object, or too long.
    """
    body = await body_of(request, state)
    try:
        if len(body) > state.limits.ui_query_len:
            raise ValueError
        value = json.loads(body)
        json.dumps(value, ensure_ascii=False).encode()  # JSON can say half of a surrogate pair
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        detail = "expected a JSON object of Unicode text, at most 16 KiB long"
        raise ProblemError(HTTPStatus.BAD_REQUEST, detail)
    return value


def _asked(body: dict[str, object], state: State) -> Asked:
    limits = state.limits
    try:
        key = str(KeyExpr(str(body.get("key", ""))))
    except (KeyExprError, LimitError) as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error
    if "*" in key or not only_reads(key):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "a plot shows one key, without wildcards")
    fields = body.get("fields", [])
    if (
        not isinstance(fields, list)
        or not all(isinstance(one, str) for one in fields)
        or len(fields) > limits.series_fields_count
    ):
        detail = f"expected a list of at most {limits.series_fields_count} texts for fields"
        raise ProblemError(HTTPStatus.BAD_REQUEST, detail)
    now = time.time()
    until = _number(body, "until", now, 0, now + 86_400)
    since = _number(body, "since", until - 600, until - _SPAN_S_MAX, until - 1e-3)
    columns = int(_number(body, "columns", 800, 1, limits.series_columns_count))
    return Asked(key, tuple(fields), since, until, columns)


def _number(body: dict[str, object], name: str, usual: float, least: float, most: float) -> float:
    value = body.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        detail = f"expected a number from {least:g} to {most:g} for {name}"
        raise ProblemError(HTTPStatus.BAD_REQUEST, detail)
    return float(value)


def _rfc3339(at_s: float) -> str:
    return datetime.fromtimestamp(max(0.0, at_s), UTC).isoformat().replace("+00:00", "Z")
