"""What a package promises exists, and importing the root package costs next to nothing."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.meta.tree import PACKAGE, module_name

import elea
import elea.ros
import elea.store

LAZY = (PACKAGE, PACKAGE / "ros", PACKAGE / "store")  # their names are loaded on first use
PACKAGES = [path for path in sorted(PACKAGE.rglob("__init__.py")) if path.parent not in LAZY]


def test_packages_hold_their_docstrings_and_their_exports() -> None:
    for path in PACKAGES:
        _holds_its_docstring_and_its_exports(path)


def _holds_its_docstring_and_its_exports(path: Path) -> None:
    docstring, *rest = ast.parse(path.read_bytes()).body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    imported: set[str] = set()
    for node in rest:
        assert isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign)), ast.unparse(node)
        if isinstance(node, ast.Assign):
            assert ast.unparse(node.targets[0]) == "__all__"
        elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            imported |= {alias.asname or alias.name for alias in node.names}
    module = importlib.import_module(module_name(path))
    assert imported == set(getattr(module, "__all__", ()))
    for name in imported:
        assert hasattr(module, name)


@pytest.mark.parametrize("module", [elea, elea.ros, elea.store])
def test_every_public_name_resolves(module: ModuleType) -> None:
    for name in module.__all__:
        assert getattr(module, name) is getattr(
            importlib.import_module(module._HOME_OF[name]), name
        )


@pytest.mark.parametrize("module", [elea, elea.ros, elea.store])
def test_type_checkers_see_the_same_names(module: ModuleType) -> None:
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_bytes())
    for_checkers = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module not in (None, "elea", "importlib")
        for alias in node.names
        if alias.asname == alias.name
    }
    assert for_checkers == {(home, name) for name, home in module._HOME_OF.items()}


def test_dir_and_version() -> None:
    assert set(elea.__all__) <= set(dir(elea))
    assert elea.__version__ == importlib.import_module("elea.version").VERSION
    missing = "no_such_name"
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(elea, missing)


def test_import_elea_loads_nothing_but_itself() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import os;"
        "before = set(sys.modules); import elea; new = sorted(set(sys.modules) - before);"
        "import json; print(json.dumps(new))"
    )
    # -S and -E: what `site` or the environment would import first must not hide anything.
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["__future__", "elea", "elea.pure"]
