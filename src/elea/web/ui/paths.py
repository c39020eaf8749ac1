"""Which requests are the page's. `@elea` is ours and verbatim, so no key of a user is shadowed."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

ROOT: Final = "/@elea/ui/"
STATIC: Final = f"{ROOT}v/"
ABOUT: Final = f"{ROOT}about"
LIVE: Final = f"{ROOT}live"
PROTOCOL: Final = "elea.live.v1"
_HTML: Final = "text/html"


def is_page(scope: Scope) -> bool:
    """Whether a request is for the page, its files or its data."""
    return scope["path"].startswith(ROOT) or is_shell(scope)


def is_shell(scope: Scope) -> bool:
    """Whether a request is for the page itself or one of its files, which hold no data."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    path: str = scope["path"]
    if path == "/":
        return _HTML in Headers(scope=scope).get("accept", "")
    return path.startswith(STATIC)


def is_navigation(scope: Scope) -> bool:
    """Whether a person followed a link or typed an address, as the browser says."""
    headers = Headers(scope=scope)
    return (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
