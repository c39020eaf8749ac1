"""The pages about XRCE say what the specification says, and every mark names one of its lines."""

from __future__ import annotations

import re

from tests.meta.tree import ROOT
from tools import xrce_pages

SPECIFICATION = (ROOT / "docs" / "spec" / "xrce.md").read_text(encoding="utf-8")
BOX = re.compile(r"(?<![|~])([|~][^|~]{15}[|~]|(?:\|[A-Zx]){3}\|[ 0-9]{9}\|)")


def test_every_mark_names_a_line() -> None:
    lines = {name for _, section in xrce_pages.checklist() for name, _ in section}
    assert len(lines) == 132
    assert xrce_pages.shown_by().keys() <= lines


def test_open_lines_are_said_to_be_open() -> None:
    page = xrce_pages.conformance_page()
    assert page.count("| shown |") == len(xrce_pages.shown_by())
    assert page.count("| shown |") + page.count("| open |") == 132


def diagrams(text: str) -> dict[str, list[str]]:
    """The boxes below each header octet, by that octet's row."""
    found: dict[str, list[str]] = {}
    rows: list[str] = []
    for line in text.splitlines():
        match = BOX.search(line)
        if match is None:
            rows = []
        elif re.fullmatch(r"(?:\|[A-Zx]){3}\|[ 0-9]{9}\|", match[1]):
            rows = found.setdefault(match[1], [])
        elif found:
            rows.append(match[1])
    return found


def test_diagrams_are_those_of_the_specification() -> None:
    start = SPECIFICATION.index("### 7.1 ")
    drawn = diagrams(xrce_pages.messages_page().partition("## Declaration")[0])
    compared = 0
    for section in SPECIFICATION[start : SPECIFICATION.index("## 8. ")].split("### 7.")[1:]:
        title = section.partition("\n")[0].split()[1]
        if title in ("Declare", "BatchedData", "Ping", "Conduit"):
            continue  # drawn side by side, as loops, together, or twice
        for header, rows in diagrams(section).items():
            assert drawn[header] == rows, title
            compared += 1
    assert compared == 12
