"""A page with plots of one robot: one file of HTML with drawings in it, for any browser."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WIDTH: Final = 900
_HEIGHT: Final = 180
_LEFT: Final = 60
_ABOVE: Final = 26  # for the legend
_BELOW: Final = 24
_TICKS: Final = (1, 2, 5, 10)
_POINTS_MAX: Final = 1_200  # more than there are pixels in a row cannot be seen
_COLORS: Final = ("#1f6feb", "#d1480c", "#2a8f4e")
_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 960px; color: #222 }}
svg {{ width: 100%; height: auto; background: #fafafa; border: 1px solid #ddd }}
h2 {{ font-size: 1rem; margin: 1.5rem 0 .3rem }} text {{ font: 11px system-ui, sans-serif }}
td, th {{ padding: .1rem .8rem .1rem 0; text-align: left }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Series:
    """One line: seconds since 1970 and values, in the order of time."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one span of time, and the times in it at which something happened, and what."""

    title: str
    series: Sequence[Series]
    marks: Sequence[float] = ()
    what: str = ""


def page(
    title: str, charts: Sequence[Chart], rows: Sequence[tuple[str, str]] = (), counted: str = ""
) -> str:
    """All charts, one below the other, and a table of what was counted, with its heading."""
    lines = [
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
        for name, value in rows
    ]
    parts = [f"<h2>{html.escape(one.title)}</h2>\n{_svg(one)}" for one in charts]
    heading = f"<h2>{html.escape(counted)}</h2>" if counted else ""
    table = [f"{heading}<table>{''.join(lines)}</table>"] if lines else []
    return _PAGE.format(title=html.escape(title), body="\n".join([*parts, *table]))


def _svg(chart: Chart) -> str:
    points = [point for one in chart.series for point in one.points]
    if not points:
        return "<p>There is nothing to draw.</p>"
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    ticks = _ticks(min(value for _, value in points), max(value for _, value in points))
    low, high = ticks[0], ticks[-1]
    span, height = last - first or 1.0, high - low or 1.0

    def x(at: float) -> float:
        return round(_LEFT + (at - first) / span * (_WIDTH - _LEFT - 10), 1)

    def y(value: float) -> float:
        return round(_ABOVE + (high - value) / height * (_HEIGHT - _BELOW - _ABOVE), 1)

    parts = [
        f'<text x="4" y="{y(value) + 4}">{value:.4g}</text>'
        f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y(value)}" y2="{y(value)}" stroke="#ddd"/>'
        for value in ticks
    ]
    parts += [
        f'<text x="{x(at) - 10}" y="{_HEIGHT - 6}">{_clock(at)}</text>'
        for at in (first + part * span for part in (0.0, 0.25, 0.5, 0.75))
    ]
    parts += [
        f'<line x1="{x(at)}" x2="{x(at)}" y1="{_ABOVE}" y2="{_HEIGHT - _BELOW}" stroke="#c00"'
        f' stroke-dasharray="3 3"/><text x="{x(at) + 4}" y="{_ABOVE + 12}" fill="#c00">'
        f"{html.escape(chart.what)}</text>"
        for at in chart.marks
    ]
    for number, one in enumerate(chart.series):
        color = _COLORS[number % len(_COLORS)]
        path = " ".join(f"{x(at)},{y(value)}" for at, value in _thinned(one.points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>')
        parts.append(
            f'<text x="{_LEFT + 10 + 90 * number}" y="16" fill="{color}">'
            f"{html.escape(one.name)}</text>"
        )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(parts)}</svg>'


def _ticks(low: float, high: float) -> list[float]:
    """Round values from below the lowest to above the highest.

    Example:
        >>> _ticks(43.2, 95.1)
        [40.0, 60.0, 80.0, 100.0]
    """
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 3))
    step = next(one * power for one in _TICKS if span / (one * power) <= 4)
    first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    step = max(1, len(points) // _POINTS_MAX)
    return points[::step]
