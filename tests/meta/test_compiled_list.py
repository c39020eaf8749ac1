"""Exactly the listed modules are compiled, and a compiled build really runs compiled code."""

from __future__ import annotations

import ast
import importlib
import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.meta.tree import ROOT, module_name, relative

from elea import pure

LISTED: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["elea"]["compile"]
COMPILED = sorted(ROOT / name for name in LISTED)


def test_setup_compiles_exactly_what_is_listed(build: str) -> None:
    sources = runpy.run_path(str(ROOT / "setup.py"))["compiled_sources"]()
    assert sources == [relative(path) for path in COMPILED]
    assert all(path.is_file() for path in COMPILED)
    if build == "compiled":
        assert pure.compiled_modules() == sorted(module_name(path) for path in COMPILED)


def test_modules_come_from_the_build_under_test(build: str) -> None:
    for name in pure.compiled_modules():
        module = importlib.import_module(name)
        assert module.__file__ is not None
        suffix = ".py" if build == "interpreted" else _suffix(module)
        assert Path(module.__file__).suffix == suffix
        assert pure.is_compiled(name) == (build == "compiled")


def _suffix(module: object) -> str:
    """What an extension module's file ends in here; never that of a source."""
    suffix = Path(str(getattr(module, "__file__", ""))).suffix
    assert suffix in (".so", ".pyd")
    return suffix


def test_elea_pure_forces_the_sources() -> None:
    names = [module_name(path) for path in COMPILED]
    asked = f"import importlib; [print(importlib.import_module(n).__file__) for n in {names}]"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "ELEA_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [Path(line) for line in done.stdout.splitlines()] == COMPILED


def test_what_only_the_compiler_needs_is_not_imported_at_run_time() -> None:
    """`mypy_extensions` stands below `if TYPE_CHECKING:`, nowhere else: it is no dependency."""
    for path in COMPILED:
        _needs_no_compiler(ast.parse(path.read_bytes()))


def _needs_no_compiler(tree: ast.Module) -> None:
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "mypy_extensions":
            assert id(node) in guarded
