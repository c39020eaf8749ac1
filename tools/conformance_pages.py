"""Pages of `docs/reference` that tell which line of a specification is shown by which tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tools.interop_table import marked

ROOT: Final = Path(__file__).resolve().parent.parent
_TEXT_LEN: Final = 150
_COLUMNS: Final = "| line | behaviour | status | tests |\n| --- | --- | --- | --- |\n"

_DDS_HEAD: Final = """# Which behaviour of the DDS bridge is shown

The lines are those of [the specification](../spec/dds.md), shortened. Each is shown by the tests
that name it; a line without one is open. Of {count} lines {shown} are shown. Tests below
`tests/dds` run against real Cyclone DDS participants in processes of their own.
"""
_ROS_HEAD: Final = """# Which behaviour of ROS 2 is shown

The lines are those of [the specification](../spec/ros2.md), shortened. Each is shown by the tests
that name it, most of them against a session of Eclipse Zenoh that plays a node of rmw_zenoh; a line
without a test is open. Some are open in part only: the tests say what holds. Of {count} lines
{shown} are shown. No real ROS node took part: section 20 of the specification says what nobody has
checked.
"""


@dataclass(frozen=True)
class Conformance:
    """The page of one specification.

    Args:
        file: Its name below `docs/spec`.
        prefix: What the names of its lines begin with.
        head: The beginning of the page, with `count` and `shown` to be filled in.
    """

    file: str
    prefix: str
    head: str

    @property
    def specification(self) -> Path:
        """The specification."""
        return ROOT / "docs" / "spec" / self.file

    def page(self) -> str:
        """Every line with its tests."""
        sections = list(self.lines())
        count = sum(len(found) for _, found in sections)
        text = self.head.format(count=count, shown=len(self.shown_by))
        for title, found in sections:
            text += f"\n## {title}\n\n{_COLUMNS}"
            for name, what in found:
                tests = "<br>".join(f"`{test}`" for test in self.shown_by.get(name, ()))
                text += f"| {name} | {what} | {'shown' if tests else 'open'} | {tests} |\n"
        return text

    def lines(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """The sections, each with the names and the beginnings of its lines."""
        line = rf"^\* \*\*({self.prefix}\d+)\*\* (.*?)(?=^\* |^\||^```|^---|^\n|\Z)"
        for section in self.specification.read_text(encoding="utf-8").split("\n## ")[1:]:
            items = re.findall(line, section, re.MULTILINE | re.DOTALL)
            if items:
                title = section.partition("\n")[0]
                yield title, [(name, _short(what)) for name, what in items]

    @cached_property
    def shown_by(self) -> dict[str, list[str]]:
        """`path::test` by the name of each line it shows."""
        found: dict[str, list[str]] = {}
        tests = ROOT / "tests"
        for path in sorted(tests.rglob("test_*.py")):
            source = path.read_text(encoding="utf-8")
            if f'"{self.prefix}' in source:
                for test, names in marked(source):
                    for name in names:
                        where = f"{path.relative_to(tests).as_posix()}::{test}"
                        found.setdefault(name, []).append(where)
        return {name: one for name, one in found.items() if name.startswith(self.prefix)}


DDS: Final = Conformance("dds.md", "D-", _DDS_HEAD)
ROS: Final = Conformance("ros2.md", "R2-", _ROS_HEAD)
ALL: Final = (DDS, ROS)


def _short(text: str) -> str:
    """One line of a table."""
    words = re.sub(r"\s+", " ", text).strip()
    parts = words.split("`")  # every other one is a name, in which `**` is a wildcard
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r" ?\*\*\[[MS]\](?: \[[MS]\])?\*\*|\*\*", "", parts[place])
    words = "`".join(parts).replace("|", "\\|")
    if len(words) > _TEXT_LEN:
        words = words[:_TEXT_LEN].rpartition(" ")[0] + " ..."
    if words.count("`") % 2:  # a name was cut in two
        words = words.rpartition("`")[0].rstrip() + " ..."
    return words
