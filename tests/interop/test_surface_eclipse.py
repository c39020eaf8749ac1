"""Every name, member, parameter, kind and default of zenoh-python is here, and means the same.

Two witnesses are asked: the type stubs of the wheel, and the wheel itself, with some names more.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import zenoh
import zenoh.ext
import zenoh.shm

import elea

STUBS = Path(str(zenoh.__file__)).parent
WHEEL: dict[str, ModuleType] = {
    "__init__": zenoh,
    "handlers": zenoh.handlers,
    "ext": zenoh.ext,
    "shm": zenoh.shm,
}
OURS = {name: "elea" if name == "__init__" else f"elea.{name}" for name in WHEEL}

# Where the wheel and its own stub disagree, the wheel decides: a program can only have been
# written against what it does.
WHEEL_SAYS_OTHERWISE = {
    "NTP64.__new__",  # the stub's names cannot be given by keyword
    "TimestampId.__new__",
}
# Of the wheel, but not of its interface: the compiled module, and slots that come in pairs in C.
NOT_INTERFACE = {"zenoh", "__class_getitem__", "__delitem__", "__rtruediv__"}
# A property in the stub, a method in the wheel: here it is read and called.
BOTH_WAYS = {"QueryConsolidation.mode"}


@dataclass(frozen=True)
class Call:
    """One function of a stub."""

    module: str
    path: str
    node: ast.FunctionDef


def stub(module: str) -> ast.Module:
    return ast.parse((STUBS / f"{module}.pyi").read_text(encoding="utf-8"))


def is_property(node: ast.FunctionDef) -> bool:
    words = {ast.unparse(one) for one in node.decorator_list}
    return "property" in words or any(word.endswith(".setter") for word in words)


def functions(nodes: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name != "_unstable":
            yield node


def classes(module: str) -> Iterator[ast.ClassDef]:
    for node in stub(module).body:
        if isinstance(node, ast.ClassDef):
            yield node


def resolve(module: str, path: str) -> object:
    value: object = importlib.import_module(OURS[module])
    for part in path.split("."):
        value = getattr(value, part)
    return value


def calls() -> list[Call]:
    found: list[Call] = []
    for module in WHEEL:
        found += [Call(module, node.name, node) for node in functions(stub(module).body)]
        for owner in classes(module):
            found += [
                Call(module, f"{owner.name}.{node.name}", node)
                for node in functions(owner.body)
                if not is_property(node)
            ]
    return found


def numbered(all_calls: list[Call]) -> list[str]:
    """Overloads share a name: pytest wants one id each."""
    seen: dict[str, int] = {}
    names = []
    for call in all_calls:
        seen[call.path] = seen.get(call.path, 0) + 1
        names.append(f"{call.path}-{seen[call.path]}")
    return names


CALLS = calls()


def parameters_of(call: Call) -> list[inspect.Parameter]:
    value = resolve(call.module, call.path.removesuffix(".__new__"))
    assert callable(value), call.path
    given = list(inspect.signature(value).parameters.values())
    return [one for one in given if one.name not in ("self", "cls")]


@pytest.mark.parametrize("call", CALLS, ids=numbered(CALLS))
def test_a_call_that_the_stub_allows_is_allowed(call: Call) -> None:
    ours = parameters_of(call)
    arguments = call.node.args
    theirs = [*arguments.posonlyargs, *arguments.args]
    if theirs and theirs[0].arg in ("self", "cls"):
        theirs = theirs[1:]
    by_position = [
        one
        for one in ours
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)
    ]
    required = len(theirs) - len(arguments.defaults)
    for position, parameter in enumerate(theirs):
        found = by_position[min(position, len(by_position) - 1)]
        if found.kind is found.VAR_POSITIONAL:
            continue
        if parameter not in arguments.posonlyargs and is_named(call):
            assert found.name == parameter.arg
            assert found.kind is found.POSITIONAL_OR_KEYWORD, parameter.arg
        if position >= required:
            same_default(found, arguments.defaults[position - required])
    by_name = {one.name: one for one in ours}
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        assert by_name[parameter.arg].kind in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        if default is not None:
            same_default(by_name[parameter.arg], default)
    named = {one.arg for one in [*theirs, *arguments.kwonlyargs]}
    if is_named(call):
        for one in ours:
            optional = one.default is not one.empty or one.kind in (
                one.VAR_POSITIONAL,
                one.VAR_KEYWORD,
            )
            assert one.name in named or optional, f"{one.name} is asked for here alone"


def is_named(call: Call) -> bool:
    """Whether a program can write the names of the parameters: nobody does for an operator."""
    name = call.node.name
    operator = name.startswith("__") and name != "__new__"
    return not operator and call.path not in WHEEL_SAYS_OTHERWISE


def same_default(found: inspect.Parameter, written: ast.expr) -> None:
    if isinstance(written, ast.Constant):
        assert found.default == written.value, found.name
        assert type(found.default) is type(written.value), found.name
    else:  # `JustAlloc()`: an object of that type, or nothing given, which means the same
        kind = ast.unparse(written).removesuffix("()")
        assert found.default is None or type(found.default).__name__ == kind, found.name


def members() -> list[tuple[str, str, str]]:
    """Properties, constants and members of enumerations, of every class of the stubs."""
    found = []
    for module in WHEEL:
        for owner in classes(module):
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and is_property(node):
                    found.append((module, owner.name, node.name))
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found.append((module, owner.name, node.target.id))
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    found.append((module, owner.name, node.targets[0].id))
    return sorted(set(found))


@pytest.mark.parametrize(("module", "owner", "name"), members())
def test_a_member_is_of_the_same_kind(module: str, owner: str, name: str) -> None:
    ours = resolve(module, owner)
    theirs = getattr(WHEEL[module], owner)
    assert hasattr(ours, name)
    if isinstance(ours, enum.EnumMeta):  # `DEFAULT` and the like are other names of one member
        assert getattr(ours, name).name == repr(getattr(theirs, name)).rpartition(".")[2].upper()
    elif f"{owner}.{name}" not in BOTH_WAYS:
        assert callable(getattr(ours, name)) == callable(getattr(theirs, name))


def test_a_mode_of_consolidation_is_read_and_called() -> None:
    mode = elea.QueryConsolidation(elea.ConsolidationMode.LATEST).mode
    assert mode is mode() is elea.ConsolidationMode.LATEST


def exported() -> list[tuple[str, str]]:
    return [
        (module, name)
        for module, wheel in WHEEL.items()
        for name in dir(wheel)
        if not name.startswith("_") and name not in NOT_INTERFACE
    ]


@pytest.mark.parametrize(("module", "name"), exported())
def test_what_the_wheel_exports_is_exported(module: str, name: str) -> None:
    theirs = getattr(WHEEL[module], name)
    ours = resolve(module, name)
    assert inspect.isclass(theirs) == inspect.isclass(ours)
    assert callable(theirs) == callable(ours)
    if not inspect.isclass(theirs):
        return
    interface = set(dir(theirs)) - NOT_INTERFACE
    assert not {member for member in interface if not hasattr(ours, member)}
    if isinstance(ours, enum.EnumMeta):
        return
    for member in interface:
        if not member.startswith("_") and f"{name}.{member}" not in BOTH_WAYS:
            is_method = callable(getattr(theirs, member))
            assert is_method == callable(getattr(ours, member)), member


def test_modules_are_reached_through_the_package() -> None:
    for name in ("ext", "handlers", "shm"):
        assert getattr(elea, name) is importlib.import_module(f"elea.{name}")
