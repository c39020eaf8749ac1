"""Services: logs and devices of this node, from what its services tell of themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from elea.json5 import Json
from elea.operate.text import escape

RECORDINGS: Final = "recorder/recordings/"
_DEVICES: Final = "xrce/devices/"
_GATEWAY: Final = "xrce/gateway"
_BRIDGES: Final = ("dds/bridge", "ros2dds/bridge")
_ROWS_COUNT: Final = 500
_NAMES_COUNT: Final = 20
_LEFT_COUNT: Final = 50

Services = Mapping[str, Json]
Facts = Mapping[str, Json]


def recordings(services: Services) -> Iterator[tuple[str, Facts, Mapping[str, Facts]]]:
    """Each recording, what it tells, and its logs by name; none if it failed."""
    for key, told in sorted(services.items()):
        if key.startswith(RECORDINGS) and isinstance(told, dict):
            books = {name: _facts(book) for name, book in _facts(told.get("logs")).items()}
            yield key.rpartition("/")[2], told, books


def logs(services: Services) -> dict[str, Json]:
    """All logs that are recorded here, and recordings that have none."""
    rows: list[Json] = []
    for name, told, books in recordings(services):
        expressions = _texts(told.get("key_exprs"))
        head: dict[str, Json] = {
            "recording": escape(name),
            "keys": list(expressions),
            "directory": _text(told.get("directory")),
            "without_log": _count(told.get("without_log")),
        }
        if not books:
            state = _text(told.get("state")) or "no log yet"
            error = _text(told.get("error"))
            rows.append({**head, "name": escape(name), "state": state, "error": error})
        for log_name, book in books.items():
            ends = book.get("ends")
            rows.append(
                {
                    **head,
                    "name": escape(log_name),
                    "state": _text(book.get("state")),
                    "error": _text(book.get("last_error")),
                    "shards": len(ends) if isinstance(ends, list) else None,
                    **{
                        field: _count(book.get(field))
                        for field in (
                            *("rows", "octets", "gaps", "dropped", "duplicates", "lag_ms"),
                            *("filled", "acknowledged", "restarts", "reopened"),
                        )
                    },
                }
            )
    return {"logs": rows[:_ROWS_COUNT], "skip": max(0, len(rows) - _ROWS_COUNT)}


def histories(densities: Services, infos: Services) -> dict[str, Json]:
    """How much logs have of each span of time, and who reads them."""
    found: dict[str, Json] = {}
    for name, value in densities.items():
        told = _facts(value)
        rows = [one for one in _list(told.get("rows")) if isinstance(one, int)]
        since, until = told.get("from"), told.get("to")
        if isinstance(since, int | float) and isinstance(until, int | float):
            lost = _count(told.get("lost"))
            found[escape(name)] = {"from": since, "to": until, "rows": [*rows], "lost": lost}
    readers: list[Json] = []
    for name, value in infos.items():
        told = _facts(value)
        ends = {
            str(shard): _count(_facts(one).get("end"))
            for shard, one in enumerate(_list(told.get("shards")))
        }
        for consumer, one in _facts(told.get("consumers")).items():
            offsets = _facts(_facts(one).get("offsets"))
            behind = sum(
                max(0, (ends.get(shard) or 0) - (_count(offset) or 0))
                for shard, offset in offsets.items()
            )
            lease_ns = _count(_facts(one).get("lease_until_ns"))
            until_s = None if lease_ns is None else lease_ns / 1e9
            readers.append([escape(name), escape(consumer), behind, until_s])
    return {"density": found, "consumers": readers[:_ROWS_COUNT]}


def doors(services: Services) -> list[Json]:
    """The doors for questions in SQL that are open here, each with the names of its tables."""
    told = _facts(services.get("sql/sql"))
    key = _text(told.get("key"))
    if not key.startswith("@sql/"):
        return []
    return [
        [key.removeprefix("@sql/"), [escape(one) for one in sorted(_facts(told.get("tables")))]]
    ]


def devices(services: Services) -> dict[str, Json]:
    """Devices of the XRCE gateway here, those that left and why, and bridges to DDS."""
    gateway = services.get(_GATEWAY)
    told = _facts(gateway)
    rows = [_device(key, services[key]) for key in sorted(services) if key.startswith(_DEVICES)]
    left = told.get("left")
    gone: list[Json] = [
        [_text(one.get("pid")), _text(one.get("why")), _count(one.get("reason"))]
        for one in map(_facts, left if isinstance(left, list) else ())
    ]
    found: dict[str, Json] = {
        "gateway": None,
        "devices": rows[:_ROWS_COUNT],
        "left": gone[-_LEFT_COUNT:][::-1],
        "bridges": [
            _bridge(key, services[key])
            for key in sorted(services)
            if any(key == one or key.startswith(f"{one}/") for one in _BRIDGES)
        ],
        "skip": max(0, len(rows) - _ROWS_COUNT),
    }
    if told:
        found["gateway"] = {
            "listen": list(_texts(told.get("listen"))),
            "counts": _counts(told.get("counts")),
        }
    return found


def _device(key: str, value: Json) -> Json:
    told = _facts(value)
    named = [_text(one) for one in _facts(told.get("names")).values()]
    return {
        "pid": escape(key.removeprefix(_DEVICES)),
        "source": _text(told.get("source")),
        "state": _text(told.get("state")),
        "lease_ms": _count(told.get("lease_ms")),
        "unacknowledged": _count(told.get("unacknowledged")),
        "names": [*named[:_NAMES_COUNT]],
        "names_skip": max(0, len(named) - _NAMES_COUNT),
        "writes": len(_facts(told.get("publishers"))),
        "reads": len(_facts(told.get("subscribers"))),
        "counts": _counts(told.get("counts")),
    }


def _bridge(key: str, value: Json) -> Json:
    told = _facts(value)
    return {
        "name": escape(key),
        "domain": _count(told.get("domain")),
        "library": _text(told.get("library")),
        "participants": _count(told.get("participants")),
        "endpoints": _count(told.get("endpoints")),
        "routes": _counts(told.get("routes_by_state")),
        "standby": told.get("standby") is True,
        "stuck": _text(told.get("stuck")),
        "counts": _counts(told.get("counts")),
    }


def _facts(value: object) -> Facts:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return escape(value) if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [escape(one) for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _counts(value: object) -> list[Json]:
    """Names and counts, those that are 0 left out."""
    return [
        [escape(name), count]
        for name, count in sorted(_facts(value).items())
        if isinstance(count, int) and not isinstance(count, bool) and count
    ]
