"""Fuzz targets of REST requests: any path is a key or a problem; no verb that writes only reads.

The input is a path as it stands in a request line, with or without a query string.
"""

from __future__ import annotations

from elea.errors import SelectorError
from elea.ids import ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.policy.service_keys import only_reads
from elea.selector import Selector, time_range_of
from elea.web.problems import ProblemError
from elea.web.target import key_of, parameters_of

_ZID = ZenohId.parse("a1")
# Queries on these change something: each service is asked for one of its verbs.
_WRITING = [
    KeyExpr(text)
    for text in (
        "@elea/log/all/put/fleet/door",
        "@elea/log/all/commit/spark1",
        "@elea/replay/r1/stop",
        "@elea/replay/r1/seek",
    )
]
SEEDS = [
    b"/demo/a",
    b"/fleet/*/imu?_time=[now(-1h)..]&_raw",
    b"/@/local/router/config/x",
    b"/@elea/log/*/put/fleet/door?kind=delete",
    b"/%40elea/log/all/commit/spark1",
    b"/@elea/**",
    b"/**",
    b"/@*/log/all/put/fleet/door",
    b"/@elea/log/all/info",
    b"/@elea/replay/*/st$*op",
    b"/a//b/%2F/%00/%ff/%",
    b"/?a=1;b=%3B&c=&&=d",
    b"",
]

# Percent signs are split at, which takes 80 bytes for each; the server bounds the request line.
MEMORY_ALLOWANCE = 1024 * 1024


def one_input(data: bytes) -> None:
    path, _, query = data.partition(b"?")
    scope = {"raw_path": path, "query_string": query}
    try:
        key = key_of(scope, _ZID)
    except ProblemError:
        return
    if only_reads(str(key)):
        assert not any(key.intersects(verb) for verb in _WRITING), key
    try:
        parameters = parameters_of(scope)
        selector = Selector(key, parameters)
        time_range_of(selector.parameters)
    except (ProblemError, SelectorError):
        return
