"""From the marks of tests to `docs/reference/interop.md`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tools.interop_lines import SECTIONS

ROOT: Final = Path(__file__).resolve().parent.parent
XRCE: Final = "X-"  # lines of the specification of XRCE, on a page of their own
TESTS: Final = ROOT / "tests" / "interop"

_HEAD: Final = """# What works with Eclipse Zenoh

Each line is shown by tests that run Elea against the Eclipse Zenoh 1.10 wheel over real sockets;
where Eclipse says a thing only at times a test cannot choose, a raw transport says it in its place.
*From Elea* is what Elea does and Eclipse sees, *to Elea* the other way round. Tests are below
`tests/interop`; each names its lines, and a line without a test fails the build.
"""


def page() -> str:
    """The page, without the note that it is generated."""
    shown = shown_by()
    text = _HEAD
    for title, lines in SECTIONS.items():
        text += f"\n## {title}\n\n| line | what | direction | status | tests |\n"
        text += "| --- | --- | --- | --- | --- |\n"
        for name, what, direction in lines:
            tests = "<br>".join(f"`{test}`" for test in shown.get(name, ()))
            status = "works" if tests else "planned"
            way = "" if direction.endswith("planned") else direction
            text += f"| {name} | {what} | {way} | {status} | {tests} |\n"
    return text


@cache
def shown_by() -> dict[str, list[str]]:
    """`file::test` by the name of each line it shows."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.glob("test_*.py")):
        for test, names in marked(path.read_text(encoding="utf-8")):
            for name in names:
                if not name.startswith(XRCE):
                    found.setdefault(name, []).append(f"{path.name}::{test}")
    return found


def marked(source: str) -> Iterator[tuple[str, list[str]]]:
    """The tests of a module that name lines."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            names = [name for one in node.decorator_list for name in _names(one)]
            if names:
                yield node.name, names


def _names(decorator: ast.expr) -> list[str]:
    if not isinstance(decorator, ast.Call):
        return []
    function = decorator.func
    is_line = (isinstance(function, ast.Name) and function.id == "line") or (
        isinstance(function, ast.Attribute) and function.attr == "line"
    )
    if not is_line:
        return []
    return [str(one.value) for one in decorator.args if isinstance(one, ast.Constant)]
