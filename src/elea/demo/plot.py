"""A page with plots of one robot: one file of HTML with drawings in it, for any browser."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WIDTH: Final = 900
_HEIGHT: Final = 180
_LEFT: Final = 60
_BELOW: Final = 24
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
    """One line: seconds and values, in the order of time."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one span of time, and the times in it at which something happened."""

    title: str
    series: Sequence[Series]
    marks: Sequence[float] = ()


def page(title: str, charts: Sequence[Chart], rows: Sequence[tuple[str, str]] = ()) -> str:
    """All charts, one below the other, and a table of what was counted."""
    lines = [
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
        for name, value in rows
    ]
    parts = [f"<h2>{html.escape(one.title)}</h2>\n{_svg(one)}" for one in charts]
    table = [f"<table>{''.join(lines)}</table>"] if lines else []
    return _PAGE.format(title=html.escape(title), body="\n".join([*table, *parts]))


def _svg(chart: Chart) -> str:
    points = [point for one in chart.series for point in one.points]
    if not points:
        return "<p>There is nothing to draw.</p>"
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    low, high = min(value for _, value in points), max(value for _, value in points)
    span, height = last - first or 1.0, high - low or 1.0

    def x(at: float) -> float:
        return round(_LEFT + (at - first) / span * (_WIDTH - _LEFT - 10), 1)

    def y(value: float) -> float:
        return round(10 + (high - value) / height * (_HEIGHT - _BELOW - 10), 1)

    parts = [
        f'<text x="4" y="{y(value) + 4}">{value:.4g}</text>'
        f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y(value)}" y2="{y(value)}" stroke="#ddd"/>'
        for value in dict.fromkeys((low, (low + high) / 2, high))
    ]
    parts += [
        f'<text x="{x(first + part * span) - 10}" y="{_HEIGHT - 6}">{part * span:.0f} s</text>'
        for part in (0.0, 0.25, 0.5, 0.75)
    ]
    parts += [
        f'<line x1="{x(at)}" x2="{x(at)}" y1="10" y2="{_HEIGHT - _BELOW}" stroke="#c00"'
        ' stroke-dasharray="3 3"/>'
        for at in chart.marks
    ]
    for number, one in enumerate(chart.series):
        color = _COLORS[number % len(_COLORS)]
        path = " ".join(f"{x(at)},{y(value)}" for at, value in _thinned(one.points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>')
        parts.append(
            f'<text x="{_LEFT + 10 + 90 * number}" y="22" fill="{color}">'
            f"{html.escape(one.name)}</text>"
        )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(parts)}</svg>'


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    step = max(1, len(points) // _POINTS_MAX)
    return points[::step]
