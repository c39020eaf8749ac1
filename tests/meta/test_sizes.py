"""A file fits in a head, a function fits on a screen."""

from __future__ import annotations

import ast
from typing import Final

import pytest
from tests.meta.tree import ROOT, python_files, relative

FILE_LINES_MAX: Final = 600  # an alarm: a longer file is listed below with its reason
LISTED_LINES_MAX: Final = 750
LONG_FILES: Final = {
    "src/elea/spark/options.py": "one table of options, and the reader of each kind",
}
FUNCTION_LINES_MAX: Final = 70


def test_no_file_is_too_long() -> None:
    too_long = {}
    for path in python_files(
        *("src", "tests", "attack", "bench", "chaos", "fuzz", "tools", "examples")
    ):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > (LISTED_LINES_MAX if relative(path) in LONG_FILES else FILE_LINES_MAX):
            too_long[relative(path)] = lines
    assert too_long == {}


@pytest.mark.parametrize("name", LONG_FILES)
def test_a_listed_file_is_long(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) > FILE_LINES_MAX


def test_no_function_is_too_long() -> None:
    found = {
        relative(path): long
        for path in python_files("src")
        if (long := long_functions(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def long_functions(source: str) -> list[str]:
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    lengths = {
        f"{node.name}:{node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in functions
    }
    return [name for name, length in lengths.items() if length > FUNCTION_LINES_MAX]


@pytest.mark.parametrize(("body_lines", "found"), [(69, []), (70, ["f:1"])])
def test_the_limit_is_seventy_lines(body_lines: int, found: list[str]) -> None:
    assert long_functions("def f():\n" + "    pass\n" * body_lines) == found
