"""Operating: the requests of the page that change something, or run a question in SQL.

A put needs a proven user, on loopback too: every user of the host reaches loopback. `--ui` makes a
token and prints it in a link; `operate_token_file` names one that stays.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from elea.encoding import Encoding
from elea.errors import InvalidValueError, KeyExprError, LimitError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.operate.text import escape
from elea.selector import Selector
from elea.session.rights import Action, Identity
from elea.web.payloads import ERROR_KEY
from elea.web.problems import ProblemError
from elea.web.rest import ask, count, permit
from elea.web.settings import OPERATOR
from elea.web.state import State, identity_of
from elea.web.ui.history import json_of

_AUDIT: Final = logging.getLogger("elea.web.audit")
_ROWS_COUNT: Final = 1_000  # of an answer in SQL that are shown
_CELL_LEN: Final = 1_000
_COLUMNS_COUNT: Final = 200


class Operating:
    """Puts, deletes and questions in SQL.

    Args:
        state: Of the service.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    async def put(self, request: Request) -> Response:
        """Publish a value, or a delete.

        Raises:
            ProblemError: without the right to operate, or access rules deny it.
        """
        state, identity = self._state, identity_of(request.scope)
        require_operator(state, identity)
        body = await json_of(request, state)
        try:
            key = str(KeyExpr(str(body.get("key", ""))))
            encoding = Encoding(str(body.get("encoding") or "text/plain"))
        except (KeyExprError, LimitError, InvalidValueError) as error:
            raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error
        payload = str(body.get("payload", "")).encode()
        deletes = body.get("delete") is True
        action = Action.DELETE if deletes else Action.PUT
        outcome = "refused"
        try:
            await permit(state, identity, action, key)
            await count(state, identity, action, key, length=len(payload))
            if deletes:
                await state.call(lambda: state.session.delete(key))
            else:
                await state.call(lambda: state.session.put(key, payload, encoding=encoding))
            outcome = "done"
        finally:
            line = {
                "operate": action.value,
                "key": key[:256],
                "user": identity.user,
                "client": identity.links[0].address,
                "outcome": outcome,
            }
            _AUDIT.warning("%s", json.dumps(line))
        return JSONResponse({"key": escape(key), "length": len(payload), "deleted": deletes})

    async def sql(self, request: Request) -> Response:
        """Ask a question in SQL at a door, which only reads and has its own bounds.

        Raises:
            ProblemError: access rules deny it, or the door says what is wrong.
        """
        state, identity = self._state, identity_of(request.scope)
        body = await json_of(request, state)
        door, text = str(body.get("door", "")), str(body.get("text", ""))
        try:
            key = str(KeyExpr(f"@sql/{door}"))
        except (KeyExprError, LimitError) as error:
            raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error
        if "*" in key or "/" in door:
            raise ProblemError(HTTPStatus.BAD_REQUEST, "expected the name of one door")
        parameters = f"format=json;rows={_ROWS_COUNT}"
        await permit(state, identity, Action.QUERY, key, parameters, has_payload=True)
        await count(state, identity, Action.QUERY, key, parameters, length=len(text))
        begun_s = time.monotonic()
        selector = Selector(f"{key}?{parameters}")
        timeout_s = state.settings.query_timeout_ms / 1e3
        payload: bytes | None = None
        problem = ""
        octets = text.encode()
        async with aclosing(ask(state, identity, selector, timeout_s, octets, None)) as replies:
            async for entry in replies:
                if entry.kind == ERROR_KEY:
                    problem = _reason(entry.payload)
                else:
                    payload = entry.payload
        if payload is None and problem:
            raise ProblemError(HTTPStatus.BAD_REQUEST, problem)
        if payload is None:
            detail = f"nothing answers {key} within {timeout_s:g} s: plugins/sql opens a door"
            raise ProblemError(HTTPStatus.NOT_FOUND, detail)
        rows = await state.call(partial(_rows, payload))
        columns = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
        columns = columns[:_COLUMNS_COUNT]
        cells: list[Json] = [
            [_cell(row.get(name)) for name in columns] for row in rows if isinstance(row, dict)
        ]
        return JSONResponse(
            {
                "columns": [escape(name) for name in columns],
                "rows": cells,
                "cut": problem,
                "seconds": round(time.monotonic() - begun_s, 3),
            }
        )


def may_operate(state: State, identity: Identity) -> bool:
    """Whether somebody proved to be one who may change something."""
    return identity.user is not None and (
        identity.user == OPERATOR or identity.user in state.settings.tokens
    )


def require_operator(state: State, identity: Identity) -> None:
    """Raise if somebody may not change anything.

    Raises:
        ProblemError: no token was shown.
    """
    if not may_operate(state, identity):
        raise ProblemError(
            HTTPStatus.UNAUTHORIZED,
            "this page only reads: open it by the link that `elea router --ui` prints on a"
            " terminal, or with the token of plugins/rest/operate_token_file",
            reason="token",
            headers={"www-authenticate": 'Bearer realm="elea operate"'},
        )


def _rows(payload: bytes) -> list[Json]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _reason(payload: bytes) -> str:
    """What a door says is wrong."""
    text = payload[:2_000].decode(errors="replace")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return escape(text)
    if not isinstance(told, dict):
        return escape(text)
    return escape(f"{told.get('error', 'refused')}: {told.get('detail', '')}")


def _cell(value: Json) -> Json:
    """Numbers stay, all else is a text that is safe to show."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return escape(value if isinstance(value, str) else json.dumps(value))[:_CELL_LEN]
