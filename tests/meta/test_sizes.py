"""A file fits in a head, a function fits on a screen."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest
from tests.meta.tree import python_files, relative

FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 70


@pytest.mark.parametrize(
    "path",
    python_files("src", "tests", "attack", "bench", "chaos", "fuzz", "tools", "examples"),
    ids=relative,
)
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES_MAX


@pytest.mark.parametrize("path", python_files("src"), ids=relative)
def test_no_function_is_too_long(path: Path) -> None:
    assert long_functions(path.read_text(encoding="utf-8")) == []


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
