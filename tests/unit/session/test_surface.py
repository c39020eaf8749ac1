"""Every name, method, parameter and default of zenoh-python's stubs exists here."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest
import zenoh

import elea

STUBS = Path(str(zenoh.__file__)).parent

# The stub and the wheel differ in the names of these parameters; positions are the same in all.
ONLY_POSITIONS = {"NTP64.__new__", "TimestampId.__new__"}


def functions(nodes: list[ast.stmt]) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_unstable"):
            found.setdefault(node.name, []).append(node)
    return found


def stub_of(module: str) -> ast.Module:
    return ast.parse((STUBS / f"{module}.pyi").read_text(encoding="utf-8"))


def modules() -> list[tuple[str, str]]:
    return [
        ("__init__", "elea"),
        ("handlers", "elea.handlers"),
        ("ext", "elea.ext"),
        ("shm", "elea.shm"),
    ]


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one) == "property" for one in node.decorator_list)


def cases() -> list[tuple[str, str, str | None]]:
    found: list[tuple[str, str, str | None]] = []
    for stub, module in modules():
        for node in stub_of(stub).body:
            if isinstance(node, ast.ClassDef):
                names: set[str] = set(functions(node.body))
                names |= {
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                }
                found.append((module, node.name, None))
                found += [(module, node.name, name) for name in sorted(names - {"__new__"})]
            elif isinstance(node, ast.FunctionDef) and node.name != "_unstable":
                found.append((module, node.name, None))
    return sorted(set(found), key=str)


@pytest.mark.parametrize(("module", "name", "member"), cases())
def test_the_name_exists(module: str, name: str, member: str | None) -> None:
    value = getattr(importlib.import_module(module), name)
    if member is not None:
        assert hasattr(value, member)


def callables() -> list[tuple[str, str, ast.FunctionDef]]:
    found: list[tuple[str, str, ast.FunctionDef]] = []
    for stub, module in modules():
        tree = stub_of(stub)
        for name, nodes in functions(tree.body).items():
            found.append((module, name, nodes[0]))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for name, nodes in functions(node.body).items():
                    if name.startswith("__") and name != "__new__":
                        continue
                    if not is_property(nodes[0]):
                        found.append((module, f"{node.name}.{name}", nodes[0]))
    return found


@pytest.mark.parametrize(
    ("module", "path", "node"), callables(), ids=[path for _, path, _ in callables()]
)
def test_parameters_and_defaults_are_the_same(
    module: str, path: str, node: ast.FunctionDef
) -> None:
    value: object = importlib.import_module(module)
    for part in path.removesuffix(".__new__").split("."):
        value = getattr(value, part)
    assert callable(value)
    try:
        signature = inspect.signature(value)
    except ValueError:
        pytest.fail(f"{path} hides its parameters")
    ours = dict(signature.parameters)
    ours.pop("self", None)
    theirs = [*node.args.posonlyargs, *node.args.args]
    if theirs and theirs[0].arg in ("self", "cls"):
        theirs = theirs[1:]
    for position, parameter in enumerate(theirs):
        found = list(ours.values())[position]
        assert found.kind is not inspect.Parameter.KEYWORD_ONLY, parameter.arg
        if parameter not in node.args.posonlyargs and path not in ONLY_POSITIONS:
            assert found.name == parameter.arg
    for parameter in node.args.kwonlyargs:
        assert parameter.arg in ours
    required = len(theirs) - len(node.args.defaults)
    for position, found in enumerate(ours.values()):
        name = found.name
        if position < required or name not in {one.arg for one in theirs + node.args.kwonlyargs}:
            continue
        if name in {arg.arg for arg in node.args.kwonlyargs}:
            default = node.args.kw_defaults[[a.arg for a in node.args.kwonlyargs].index(name)]
            if default is None:
                continue
        assert found.default is not inspect.Parameter.empty, name


def test_modules_are_reached_through_the_package() -> None:
    for name in ("ext", "handlers", "shm"):
        assert getattr(elea, name) is importlib.import_module(f"elea.{name}")
