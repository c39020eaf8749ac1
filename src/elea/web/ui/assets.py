"""Assets: the files of the page, under paths that change with their content."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from elea.web.ui.paths import STATIC

FOLDER: Final = Path(__file__).parent.parent / "static"
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = {
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "",
    "vary": "accept-encoding",
}
_HASH_LEN: Final = 16
_INDEX: Final = "index.html"
_BASE: Final = b"{{base}}"


@dataclass(frozen=True, slots=True)
class _File:
    plain: bytes
    packed: bytes
    content_type: str


class Assets:
    """All files, read and compressed once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        contents = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        digest = hashlib.sha256()
        for name, content in contents.items():
            digest.update(b"%b\0%d\0%b" % (name.encode(), len(content), content))
        self.base = f"{STATIC}{digest.hexdigest()[:_HASH_LEN]}/"
        contents[_INDEX] = contents[_INDEX].replace(_BASE, self.base.encode())
        self._files: Mapping[str, _File] = {
            name: _File(content, gzip.compress(content, 9), _TYPES[Path(name).suffix])
            for name, content in contents.items()
        }

    def sizes(self) -> dict[str, int]:
        """Compressed bytes by name."""
        return {name: len(file.packed) for name, file in self._files.items()}

    def page(self, request: Request) -> Response:
        """The page itself: asked for each time, so that a new version is seen at once."""
        return self._response(request, self._files[_INDEX], "no-cache")

    def file(self, request: Request) -> Response | None:
        """A file of this version; None if there is none."""
        path: str = request.scope["path"]
        name = path.removeprefix(self.base)
        if name in (path, _INDEX) or name not in self._files:
            return None
        return self._response(request, self._files[name], "public, max-age=31536000, immutable")

    def _response(self, request: Request, file: _File, caching: str) -> Response:
        packs = "gzip" in request.headers.get("accept-encoding", "")
        headers = {**_HEADERS, "content-type": file.content_type, "cache-control": caching}
        if packs:
            headers["content-encoding"] = "gzip"
        return Response(file.packed if packs else file.plain, headers=headers)
