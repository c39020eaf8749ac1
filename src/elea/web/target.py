"""The target of a request: the path is a key expression, the query string its parameters."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from elea.errors import KeyExprError, LimitError
from elea.ids import ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.parameters import Parameters
from elea.web.problems import ProblemError

_LOCAL: Final = "@/local"


def key_of(scope: Scope, zid: ZenohId) -> KeyExpr:
    """The key expression in the path; `@/local` means the node `zid`.

    Raises:
        ProblemError: it is none.
    """
    text = _decoded(scope["raw_path"])[1:]
    if not text:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, "the path is a key, such as /demo/a; /openapi.json tells more"
        )
    if text == _LOCAL or text.startswith(f"{_LOCAL}/"):
        text = f"@/{zid}{text.removeprefix(_LOCAL)}"
    try:
        return KeyExpr(text)
    except (KeyExprError, LimitError) as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error


def parameters_of(scope: Scope) -> Parameters:
    """The parameters in the query string."""
    octets: bytes = scope["query_string"]
    return Parameters(_decoded(octets.replace(b"&", b";")))


def _decoded(octets: bytes) -> str:
    try:
        return unquote_to_bytes(octets).decode()
    except UnicodeDecodeError:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, f"{octets[:80]!a} is not UTF-8 when percent-decoded"
        ) from None
