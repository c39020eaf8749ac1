"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import ast
import doctest
import importlib
import io
import os

import pytest
from tests.meta.tree import SOURCE, package_modules, source_of

from elea.pure import compiled_modules

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


# With ELEA_PURE set there is another run, of the compiled build, that has all the others.
CANDIDATES = compiled_modules() if "ELEA_PURE" in os.environ else package_modules()
NAMES = [
    name
    for name in CANDIDATES
    if name != "elea.as_zenoh"  # it would replace `zenoh` here, too
    and ">>> " in source_of(name).read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_docstrings_run(name: str) -> None:
    """Of the source: a compiled module keeps no docstrings."""
    module = importlib.import_module(name)
    path = source_of(name)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report = io.StringIO()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        text = ast.get_docstring(node, clean=False)
        if text and ">>> " in text:
            line = node.body[0].lineno - 1
            test = doctest.DocTestParser().get_doctest(
                text, dict(vars(module)), getattr(node, "name", name), str(path), line
            )
            runner.run(test, out=report.write)
    assert runner.failures == 0, report.getvalue()
    assert runner.tries > 0, f"{path.relative_to(SOURCE)} has examples outside of docstrings only"
