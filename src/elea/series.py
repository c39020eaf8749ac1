"""Series: numbers of payloads over time, thinned to what a screen can show. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from elea.decode.formats import value_of
from elea.encoding import Encoding
from elea.json5 import Json
from elea.provenance import SourceInfo

FIELDS_COUNT: Final = 64  # of one payload that are offered
_DEPTH: Final = 8
_NAME_LEN: Final = 60
_SOURCES_COUNT: Final = 64  # publishers of one key whose numbers are followed
_SN_MASK: Final = 0xFFFF_FFFF
_SN_HALF: Final = 1 << 31
ANY_KEY_EID: Final = 0x8000_0000  # from here on numbers are of any key: what is not heard is no gap
_SILENT: Final = 5  # of the usual distance: then the publisher was silent, and the line is broken
_FAR: Final = 1e300  # further numbers make no axis

Point = tuple[float, float]
Number = tuple[object, int]  # of a publisher's sample: whose it is, and which one


def number_of(source: SourceInfo | None) -> Number | None:
    """The number of a sample among all of its publisher on this key, if it has one."""
    if source is None or source.source_id.eid >= ANY_KEY_EID:
        return None
    return source.source_id, source.source_sn


def numbers(payload: bytes, encoding: Encoding) -> dict[str, float]:
    """The numbers of a payload by their paths; none if it has none, or cannot be read.

    Example:
        >>> numbers(b'{"ok": true, "pos": {"x": 1, "y": [2.5, 3]}}', Encoding("application/json"))
        {'pos.x': 1, 'pos.y[0]': 2.5, 'pos.y[1]': 3}
        >>> numbers(b"21.5", Encoding("text/plain"))
        {'value': 21.5}
    """
    try:
        value = value_of(payload, encoding)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, float] = {}
    _collect(value, "", _DEPTH, found)
    return found


def _collect(value: object, path: str, depth: int, found: dict[str, float]) -> None:
    if len(found) >= FIELDS_COUNT or depth == 0:
        return
    match value:
        case bool():
            pass
        case int() | float():
            if -_FAR < value < _FAR:  # false for what is no number, too
                found[path or "value"] = value
        case dict():
            for name, one in value.items():
                text = str(name)[:_NAME_LEN]
                shown_name = text if text.isprintable() else _escaped(text)
                _collect(one, f"{path}.{shown_name}" if path else shown_name, depth - 1, found)
        case list():
            for index, one in enumerate(value[:FIELDS_COUNT]):
                _collect(one, f"{path}[{index}]", depth - 1, found)


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def thin(points: Sequence[Point], since: float, until: float, columns: int) -> list[Point]:
    """At most four points of each column of pixels: the first, lowest, highest and last.

    They draw the same line as all points would. Points have to be in order of time.

    Example:
        >>> thin([(0, 1), (1, 9), (2, -9), (3, 2), (4, 2), (9, 5)], 0, 10, 2)
        [(0, 1), (1, 9), (2, -9), (4, 2), (9, 5)]
    """
    if len(points) <= columns:
        return list(points)
    scale = columns / max(until - since, 1e-9)
    kept: list[Point] = []
    start = 0
    while start < len(points):
        column = int((points[start][0] - since) * scale)
        end = start + 1
        while end < len(points) and int((points[end][0] - since) * scale) == column:
            end += 1
        group = range(start, end)
        lowest = min(group, key=lambda index: points[index][1])
        highest = max(group, key=lambda index: points[index][1])
        kept.extend(points[one] for one in sorted({start, lowest, highest, end - 1}))
        start = end
    return kept


def usual_step(times: Sequence[float]) -> float:
    """The distance in time between two samples that half of them have; 0 if there are too few."""
    steps = sorted(later - earlier for earlier, later in pairwise(times))
    return steps[len(steps) // 2] if len(steps) > 1 else 0.0


@dataclass(slots=True)
class Losses:
    """Samples that were sent and did not arrive, by the numbers of their publishers."""

    _last: dict[object, tuple[int, float]] = field(default_factory=dict)

    def lost(self, number: Number | None, at_s: float) -> tuple[float, int] | None:
        """Since when and how many before this sample; None if it is the next one."""
        if number is None:
            return None
        publisher, sn = number
        before = self._last.get(publisher)
        if before is None and len(self._last) >= _SOURCES_COUNT:
            del self._last[next(iter(self._last))]
        ahead = 0 if before is None else (sn - before[0]) & _SN_MASK
        if before is not None and not 0 < ahead < _SN_HALF:
            return None  # one that is late or twice
        self._last[publisher] = sn, at_s
        return (before[1], ahead - 1) if before is not None and ahead > 1 else None

    def clear(self) -> None:
        """Forget the numbers: what comes next was not all seen."""
        self._last.clear()


@dataclass(slots=True)
class Row:
    """A sample, as a plot needs it."""

    at_s: float
    payload: bytes
    encoding: Encoding
    number: Number | None


@dataclass(frozen=True, slots=True)
class Plotted:
    """Points of some fields, which other fields there are, and what was lost."""

    fields: tuple[str, ...]
    points: dict[str, list[Point]]
    lost: list[tuple[float, float, int]]
    times: list[float]


def read(rows: Iterable[Row], wanted: Sequence[str], losses: Losses, every: int = 1) -> Plotted:
    """Decode rows, which are in order of time; the first two fields if none is wanted.

    Args:
        every: Decode one row in so many; losses are counted of all.
    """
    fields: dict[str, None] = {}
    points: dict[str, list[Point]] = {name: [] for name in wanted}
    lost: list[tuple[float, float, int]] = []
    times: list[float] = []
    for place, row in enumerate(rows):
        gap = losses.lost(row.number, row.at_s)
        if gap is not None:
            lost.append((gap[0], row.at_s, gap[1]))
        if place % every:
            continue
        times.append(row.at_s)
        found = numbers(row.payload, row.encoding)
        if len(fields) < FIELDS_COUNT:
            fields.update(dict.fromkeys(found))
        if not points and found:
            points = {name: [] for name in list(found)[:2]}
        for name, kept in points.items():
            value = found.get(name)
            if value is not None:
                kept.append((row.at_s, value))
    return Plotted(tuple(fields)[:FIELDS_COUNT], points, lost, times)


def shown(
    plotted: Plotted, since: float, until: float, columns: int, *, whole: bool
) -> dict[str, Json]:
    """What a browser is given: columns of times and values; the line is broken where one is null.

    Times are in milliseconds since `since`. A few samples that are not the `whole` tell too little
    of how long a silence is unusual.
    """
    step, width = usual_step(plotted.times), (until - since) / columns
    silence = max(_SILENT * step, width) if whole and step else math.inf
    bands = _merged(plotted.lost, width)
    ends = [band[1] for band in bands]
    series: dict[str, Json] = {}
    for name, points in plotted.points.items():
        times: list[Json] = []
        values: list[Json] = []
        before = -math.inf
        for at_s, value in thin(points, since, until, columns):
            # Two that are kept and a column apart had none between them.
            silent = math.isfinite(before) and at_s - before > silence
            if silent or bisect_right(ends, at_s) > bisect_right(ends, before):
                times.append(_ms(at_s, since))
                values.append(None)
            times.append(_ms(at_s, since))
            values.append(value)
            before = at_s
        series[name] = [times, values]
    return {
        "fields": list(plotted.fields),
        "since": since,
        "until": until,
        "step": round(step, 6),
        "series": series,
        "lost": [[_ms(start, since), _ms(end, since), count] for start, end, count in bands],
    }


def _merged(lost: list[tuple[float, float, int]], width: float) -> list[tuple[float, float, int]]:
    """Losses that are less than a column apart as one."""
    bands: list[tuple[float, float, int]] = []
    for start, end, count in lost:
        if bands and start - bands[-1][1] < width:
            bands[-1] = (bands[-1][0], end, bands[-1][2] + count)
        else:
            bands.append((start, end, count))
    return bands


def _ms(at_s: float, since: float) -> float:
    return round((at_s - since) * 1e3, 3)
