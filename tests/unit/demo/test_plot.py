"""The page of a robot is one whole document, whatever is drawn."""

from __future__ import annotations

from xml.etree import ElementTree

from elea.demo import plot


def svg(text: str) -> ElementTree.Element:
    start, end = text.index("<svg"), text.index("</svg>") + len("</svg>")
    return ElementTree.fromstring(text[start:end])


def test_lines_and_marks_are_drawn() -> None:
    lines = [plot.Series("a < b", [(0.0, 1.0), (1.0, 3.0)]), plot.Series("c", [(0.5, 2.0)])]
    text = plot.page("one & all", [plot.Chart("t", lines, marks=[0.25])], [("rows", "1,2")])
    drawn = svg(text)
    points = [one.attrib["points"] for one in drawn.iter("polyline")]
    assert len(points) == 2
    first, last = (tuple(map(float, one.split(","))) for one in points[0].split())
    assert first[0] < last[0]
    assert first[1] > last[1]  # the page counts downwards
    assert "one &amp; all" in text
    assert "a &lt; b" in text
    assert "<td>1,2</td>" in text
    assert text.count("stroke-dasharray") == 1


def test_many_points_are_thinned_and_none_is_said() -> None:
    many = plot.Series("many", [(float(at), 5.0) for at in range(10_000)])
    [line] = svg(plot.page("t", [plot.Chart("t", [many])])).iter("polyline")
    assert len(line.attrib["points"].split()) < 2_000
    assert "nothing to draw" in plot.page("t", [plot.Chart("t", [plot.Series("no", [])])])


def test_times_are_of_the_clock_and_counts_say_of_what() -> None:
    """Ticks were seconds since the start, values like 69.67, and counts of all robots one's own."""
    line = plot.Series("temp", [(1_700_000_000.0, 43.2), (1_700_000_060.0, 95.1)])
    chart = plot.Chart("t", [line], marks=[1_700_000_030.0], what="the alert hot")
    text = plot.page("r05", [chart], [("rows", "12")], "Counted of the whole fleet")
    assert "22:13:20" in text
    ticks = [one.text for one in svg(text).iter("text")]
    assert {"40", "60", "80", "100"} <= set(ticks)
    assert "the alert hot" in ticks
    assert text.index("Counted of the whole fleet") > text.index("</svg>")
