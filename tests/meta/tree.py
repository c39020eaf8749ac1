"""The repository as the meta tests see it: files, module names, imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "elea"


class Import(NamedTuple):
    """One imported name: the module it is looked for in, the name (or None), and the line."""

    module: str
    name: str | None
    line: int


def python_files(*folders: str) -> list[Path]:
    """Every Python file under the folders of the repository that exist."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """`src/elea/wire/codec.py` to `elea.wire.codec`, a package's `__init__.py` to its package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_of(name: str) -> Path:
    """`elea.wire.batches` to its file, a package to its `__init__.py`."""
    path = SOURCE.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def package_modules() -> list[str]:
    return [module_name(path) for path in sorted(PACKAGE.rglob("*.py"))]


def imports(path: Path) -> Iterator[Import]:
    """Every import in a file, wherever it stands, relative ones made absolute."""
    here = module_name(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
