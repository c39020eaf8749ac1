"""ProblemError: an answer that says no, and why, as RFC 9457 has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

CONTENT_TYPE: Final = "application/problem+json"


class ProblemError(Exception):
    """Raised by a handler, and shown to who asked.

    Args:
        status: The status code.
        detail: What was seen, what was legal, what to do.
        reason: What it is counted as.
        headers: Further headers.
    """

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        reason: str = "request",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail
        self.reason = reason
        self.headers = headers

    def response(self) -> Response:
        """The answer."""
        body = {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
        }
        return Response(
            json.dumps(body).encode(),
            status_code=self.status.value,
            headers=dict(self.headers or {}),
            media_type=CONTENT_TYPE,
        )
