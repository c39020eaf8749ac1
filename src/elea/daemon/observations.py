"""Parts of the admin space that are for those who ask for them by name: a query on everything is
not answered with them.

    @/ZID/ROLE/keys?top=100;by=rate     keys with the most traffic; counted while this is asked for
    @/ZID/ROLE/keys/KEYEXPR             the counters of the keys that match
    @/ZID/ROLE/events?after=N;max=100   what happened since event N
    @/ZID/ROLE/audit?after=N;max=100    audit lines since line N, and whether their chain holds
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from elea.daemon.events import KEPT_COUNT, Ring
from elea.fast.traffic import OTHERS
from elea.json5 import Json
from elea.keyexpr.match import intersects
from elea.node.node import Node
from elea.parameters import Parameters
from elea.session.ports import DriverPort

NAMES: Final = ("keys", "events", "audit")
_TOP_MAX: Final = 10_000
_ORDERS: Final = ("rate", "bytes", "age")
_SECOND_NS: Final = 1_000_000_000

Counter = tuple[str, int, int, int]


def is_named(key: str, root: str, name: str) -> bool:
    """Whether a key expression asks for a part by its name."""
    rest = key[len(root) :] if key.startswith(root) else "/".join(["", *key.split("/")[3:]])
    return rest == f"/{name}" or rest.startswith(f"/{name}/")


def keys(driver: DriverPort, node: Node, parameters: Parameters) -> Json:
    """The keys with the most traffic since counting began.

    Raises:
        ValueError: a parameter is not legal.
    """
    top = _number(parameters, "top", 100, _TOP_MAX)
    by = parameters.get("by") or "rate"
    if by not in _ORDERS:
        raise ValueError(f"invalid by={by}: expected one of {', '.join(_ORDERS)}")
    counters, counted_s, now_ns = _counters(driver, node)
    own = [one for one in counters if one[0] != OTHERS]
    own.sort(key=lambda one: (-(one[1:][_ORDERS.index(by)]), one[0]))
    rows: list[Json] = [[one[0], *_cells(one, now_ns)] for one in own[:top]]
    return {
        "counted_s": counted_s,
        "columns": ["key", "messages", "bytes", "age_s"],
        "keys": rows,
        "others": [_cells(one, now_ns) for one in counters if one[0] == OTHERS],
        "left_out": max(0, len(own) - top),
    }


def counters_of(driver: DriverPort, node: Node, key_expr: str) -> Iterator[tuple[str, Json]]:
    """The counters of the keys that an expression matches."""
    counters, counted_s, now_ns = _counters(driver, node)
    for one in counters:
        if one[0] != OTHERS and intersects(key_expr, one[0]):
            messages, octets, age_s = _cells(one, now_ns)
            told = {"messages": messages, "bytes": octets, "age_s": age_s, "counted_s": counted_s}
            yield one[0], told


def tail(ring: Ring, parameters: Parameters, name: str) -> dict[str, Json]:
    """What is new in a ring.

    Raises:
        ValueError: a parameter is not legal.
    """
    after = _number(parameters, "after", 0, 1 << 62)
    most = _number(parameters, "max", 100, KEPT_COUNT)
    return ring.after(after, most).json(name)


def _counters(driver: DriverPort, node: Node) -> tuple[list[Counter], float, int]:
    with driver.lock:
        now_ns = driver.now_ns()
        node.traffic.want(now_ns)
        counted_s = round((now_ns - node.traffic.since_ns) / _SECOND_NS, 3)
        return node.traffic.counts(), counted_s, now_ns


def _cells(one: Counter, now_ns: int) -> list[Json]:
    return [one[1], one[2], round(max(0, now_ns - one[3]) / _SECOND_NS, 3)]


def _number(parameters: Parameters, name: str, usual: int, most: int) -> int:
    text = parameters.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise ValueError(f"invalid {name}={text}: expected a whole number up to {most}")
    return int(text)
