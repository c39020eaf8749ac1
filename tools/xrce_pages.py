"""The pages of `docs/reference` about XRCE: its messages, drawn, and which behaviour is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.interop_table import marked

from elea.xrce.dsl.diagram import diagram
from elea.xrce.dsl.plan import Plan
from elea.xrce.schema.load import schema

ROOT: Final = Path(__file__).resolve().parent.parent
SPECIFICATION: Final = ROOT / "docs" / "spec" / "xrce.md"

_MESSAGES_HEAD: Final = """# Messages of XRCE

Drawn from the definitions in `src/elea/xrce/schema/messages.xrce`; what they mean is in
[the specification](../spec/xrce.md). `|` is one octet, `~` as many as it takes, `x` a bit that is
sent as 0 and ignored.
"""
_CONFORMANCE_HEAD: Final = """# Which behaviour of XRCE is shown

The lines are those of [the specification](../spec/xrce.md), section 21. Each is shown by the tests
that name it; a line without one is open. Of {count} lines {shown} are shown.
"""
_CONFORMANCE_COLUMNS: Final = """| line | behaviour | status | tests |
| --- | --- | --- | --- |
"""


def messages_page() -> str:
    """Every message and declaration with its diagram."""
    text = _MESSAGES_HEAD
    plan = Plan(schema())
    for module in reversed(plan.modules):
        assert module.family is not None
        text += f"\n## {module.family.name}\n"
        for value, one in module.family.members:
            drawn = "\n".join(diagram(plan.schema, module.family.header, value, one.record))
            text += f"\n### {one.name} ({value})\n\n```text\n{drawn}\n```\n"
    return text


def conformance_page() -> str:
    """Every line of the checklist with its tests."""
    shown = shown_by()
    sections = list(checklist())
    count = sum(len(lines) for _, lines in sections)
    text = _CONFORMANCE_HEAD.format(count=count, shown=len(shown))
    for title, lines in sections:
        text += (
            f"\n## {title}\n\n| line | behaviour | status | tests |\n| --- | --- | --- | --- |\n"
        )
        for name, what in lines:
            tests = "<br>".join(f"`{test}`" for test in shown.get(name, ()))
            text += f"| {name} | {what} | {'shown' if tests else 'open'} | {tests} |\n"
    return text


def checklist() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The sections of the checklist, each with the names and words of its lines."""
    text = SPECIFICATION.read_text(encoding="utf-8")
    for section in text[text.index("## 21. ") :].split("### 21.")[1:]:
        title = section.partition("\n")[0].partition(" ")[2]
        lines = re.findall(r"^\| (X-\d+) \| (.+) \|$", section, re.MULTILINE)
        if lines:
            yield title, lines


def shown_by() -> dict[str, list[str]]:
    """`path::test` by the name of each line it shows."""
    found: dict[str, list[str]] = {}
    tests = ROOT / "tests"
    for path in sorted(tests.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if '"X-' in source:
            for test, names in marked(source):
                for name in names:
                    where = f"{path.relative_to(tests).as_posix()}::{test}"
                    found.setdefault(name, []).append(where)
    return {name: tests for name, tests in found.items() if name.startswith("X-")}
