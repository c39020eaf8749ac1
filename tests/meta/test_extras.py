"""Extras install what the package imports, and nothing else."""

from __future__ import annotations

import ast
import re
import tomllib

from tests.meta.tree import PACKAGE, ROOT

_MODULES = {"pyyaml": "yaml", "protobuf": "google", "prometheus-client": "prometheus_client"}
# Not imported by the package: what installs them, and what needs them.
_FOR_OTHERS = {
    "matplotlib": "examples/fleet.ipynb",  # extra notebook
    "pandas": "src/elea/cli/spark.py",  # a bound on what pyspark imports; doctor looks at it
}
_ON_DEMAND = {"dev", "all"}


def _extras() -> dict[str, list[str]]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, list[str]] = tomllib.loads(text)["project"]["optional-dependencies"]
    return found


def _imported() -> set[str]:
    """The first names of what modules of the package import, by name or by text."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in one.names)
            elif isinstance(one, ast.ImportFrom) and one.module and not one.level:
                found.add(one.module.partition(".")[0])
    return found


def test_every_extra_installs_what_is_imported() -> None:
    """`elea[all]` installed uvloop and cyclonedds, which nothing imports."""
    imported = _imported()
    for extra, requirements in _extras().items():
        if extra in _ON_DEMAND:
            continue
        for requirement in requirements:
            matched = re.match(r"[A-Za-z0-9_.-]+", requirement)
            assert matched is not None
            name = matched[0].lower()
            if name == "elea":
                continue
            if name in _FOR_OTHERS:
                assert name in (ROOT / _FOR_OTHERS[name]).read_text(encoding="utf-8")
                continue
            module = _MODULES.get(name, name)
            assert module in imported, f"extra {extra} installs {name}, which nothing imports"


def test_all_is_every_extra_but_dev() -> None:
    extras = _extras()
    named: set[str] = set()
    for requirement in extras["all"]:
        matched = re.fullmatch(r"elea\[(.*)\]", requirement)
        assert matched is not None, f"{requirement}: `all` names extras"
        named.update(matched[1].split(","))
    assert named <= extras.keys()
    missing = extras.keys() - named - {"all", "dev", "demo"}  # demo is made of the others
    assert missing == set()
