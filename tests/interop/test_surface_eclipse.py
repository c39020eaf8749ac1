"""Every name, member, parameter, kind and default of zenoh-python is here, and means the same.

Two witnesses are asked: the type stubs of the wheel, and the wheel itself, with some names more.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import operator
from collections.abc import Callable, Iterator
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
}
# Of the wheel, but not of its interface: the compiled module.
NOT_INTERFACE = {"zenoh"}
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


def kinds(call: Call) -> dict[str, tuple[object, bool]]:
    """The parameters of a stub: by name their kind, and whether they have a default."""
    found: dict[str, tuple[object, bool]] = {}
    arguments = call.node.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    required = len(by_position) - len(arguments.defaults)
    for position, one in enumerate(by_position):
        only = position < len(arguments.posonlyargs) or one.arg == "self"
        kind = (
            inspect.Parameter.POSITIONAL_ONLY if only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
        found[one.arg] = (kind, position >= required)
    if arguments.vararg is not None:
        found[arguments.vararg.arg] = (inspect.Parameter.VAR_POSITIONAL, False)
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[one.arg] = (inspect.Parameter.KEYWORD_ONLY, default is not None)
    if arguments.kwarg is not None:
        found[arguments.kwarg.arg] = (inspect.Parameter.VAR_KEYWORD, False)
    found.pop("cls", None)
    return found


def is_plain(call: Call) -> bool:
    """Whether the signature says all: no special method, no overload by the handler."""
    name = call.path.split(".")[-1]
    theirs = kinds(call)
    by_handler = "handler" in theirs and not theirs["handler"][1]
    return not (name.startswith("__") or name.endswith("serializer") or by_handler)


PLAIN = [call for call in CALLS if is_plain(call)]


@pytest.mark.parametrize("call", PLAIN, ids=numbered(PLAIN))
def test_parameters_are_of_the_same_kind(call: Call) -> None:
    """As upstream checks its own stubs; what there is besides has a default."""
    value = resolve(call.module, call.path)
    if not callable(value):
        return
    ours = {
        name: (one.kind, one.default is not one.empty)
        for name, one in inspect.signature(value).parameters.items()
    }
    theirs = kinds(call)
    more = {name: one for name, one in ours.items() if name not in theirs}
    assert [name for name in ours if name in theirs] == list(theirs)
    for name, (kind, has_default) in theirs.items():
        assert ours[name][0] is kind, name
        assert ours[name][1] or not has_default, name
    assert all(has_default for _, has_default in more.values()), more


def enums() -> list[tuple[str, str]]:
    """The classes of the wheel that have constants of their own kind."""
    return [
        (module, name)
        for module, name in exported()
        if inspect.isclass(getattr(WHEEL[module], name))
        and isinstance(resolve(module, name), enum.EnumMeta)
    ]


@pytest.mark.parametrize(("module", "name"), enums())
def test_constants_compare_as_in_the_wheel(module: str, name: str) -> None:
    theirs, ours = getattr(WHEEL[module], name), resolve(module, name)
    constants = [one for one in dir(theirs) if isinstance(getattr(theirs, one), theirs)]
    assert constants
    for one in constants:
        their, our = getattr(theirs, one), getattr(ours, one)
        assert int(our) == int(their)
        for other in (int(their), float(int(their)), str(their), None, object()):
            assert (our == other) is (their == other) is False, (one, other)
        for two in constants:
            assert (our == getattr(ours, two)) is bool(their == getattr(theirs, two)), (one, two)
            for compare in (operator.lt, operator.le, operator.gt, operator.ge):
                assert outcome(compare, our, getattr(ours, two)) == outcome(
                    compare, their, getattr(theirs, two)
                )
        assert outcome(operator.lt, our, 100) == outcome(operator.lt, their, 100)
        assert outcome(operator.index, our) == outcome(operator.index, their)


def outcome(function: Callable[..., object], *args: object) -> object:
    """What a call gives, or the kind of what it raises."""
    try:
        return function(*args)
    except TypeError as error:
        return type(error)


def test_names_that_come_in_pairs() -> None:
    for package in (zenoh, elea):
        with pytest.raises(TypeError):
            "a" / package.KeyExpr("b")
        assert package.KeyExpr("a").__rtruediv__("x") is NotImplemented
        assert str(package.TimestampId(bytes=b"\x01\x02")) == "201"
        assert str(package.TimestampId(bytearray(b"\x01"))) == "1"
        assert package.Querier[int] is not None
        provider = package.shm.ShmProvider.default_backend(4_096)
        memory = provider.alloc(8)
        with pytest.raises((NotImplementedError, TypeError), match="can't delete item"):
            del memory[0]


def test_a_hello_prints_as_in_the_wheel() -> None:
    hello = elea.Hello(
        whatami=elea.WhatAmI.PEER, zid=elea.ZenohId.parse("a1b2"), locators=["tcp/127.0.0.1:7447"]
    )
    # As zenoh.scout prints one: only scouting makes them there.
    assert str(hello) == "Hello { zid: a1b2, whatami: Peer, locators: [tcp/127.0.0.1:7447] }"
    assert {"__str__", "__repr__"} <= set(vars(zenoh.Hello))


def test_modules_are_reached_through_the_package() -> None:
    for name in ("ext", "handlers", "shm"):
        assert getattr(elea, name) is importlib.import_module(f"elea.{name}")
