"""T51: requests without the token that write: by their method, or as queries to services."""

from __future__ import annotations

import http.client
import json
from typing import Final

from attack.harness import MIB, Check, Target, until
from attack.users import TOKEN, offsets, services

THREAT: Final = "T51"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 1, "full": 50}  # times that everything is tried
SERVICES: Final = services
_COMMIT: Final = json.dumps({"offsets": {"0": 1}}).encode()
_PATHS: Final = (
    *("/@elea/log/*/put/fleet/door", "/@elea/log/*/put/fleet/door?kind=delete"),
    *("/%40elea/log/all/put/fleet/door?kind=put", "/@elea/*/*/put/fleet/door?kind=delete"),
    *("/@elea/log/all/commit/spark", "/@elea%2Flog%2Fall%2Fcommit%2Fspark"),
    *("/@elea/**", "/@elea/log/**", "/@elea/replay/*/stop", "/fleet/door"),
)


def attack(target: Target, size: int) -> list[Check]:
    """Try every method on every path, with and without a body."""
    seen: list[str] = []
    let_in = 0
    with target.session() as watcher:
        with watcher.declare_subscriber("fleet/**", lambda one: seen.append(str(one.key_expr))):
            watcher.put("fleet/first", "1", ack="stored")
            for _ in range(size):
                for path in _PATHS:
                    is_key = path == "/fleet/door"
                    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
                        for body in (None, b"OPEN", _COMMIT):
                            reads = is_key and method in ("GET", "HEAD") and body is None
                            let_in += _ask(target, method, path, body) < 400 and not reads
            allowed = _ask(target, "PUT", "/fleet/last", b"x", TOKEN)
            until(lambda: "fleet/last" in seen)
        moved = len(offsets(watcher))
    return [
        Check("let_in", let_in, 0),
        Check("published", len([one for one in seen if one == "fleet/door"]), 0),
        Check("offsets_moved", moved, 0),
        Check("token_refused", float(allowed != 200), 0),
    ]


def _ask(
    target: Target, method: str, path: str, body: bytes | None, token: str | None = None
) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", target.http_port, timeout=60)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
