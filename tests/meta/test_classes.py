"""A class of the core has one reason to change, and its containers are its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest
from tests.meta.tree import python_files

_PACKAGES: Final = ("wire", "transport", "routing", "policy", "fast", "node", "link")
METHODS_COUNT_MAX: Final = 20
ATTRIBUTES_COUNT_MAX: Final = 12
LINES_MAX: Final = 250
# Classes that are larger, each with what holds it together.
LARGE: Final = {
    "link/discovery.py:Discovery": "one timer and two state machines share sockets and clock",
    "link/poller.py:SelectorPoller": "one loop: what it watches, who runs it, when it wakes",
    "link/pump.py:LinkPump": "one socket, read and written by two threads under one state",
    "link/shell.py:Shell": "what a node, its links and its sessions may ask of each other",
    "node/connector.py:Connector": "one wish to be connected: its settings, phase and times",
    "node/guards.py:Guards": "chains, accounts and holding change together with the policy",
    "node/neighbours.py:Neighbours": "a neighbour's links, faces and end are one life cycle",
    "node/node.py:Node": "passes inputs on to its machines; the surface of driver and sessions",
    "fast/sink.py:FaceSink": "a compiled loop over samples; its state is a frame's",
    "routing/context.py:Context": "what the parts of routing share, by name",
    "routing/core.py:Routing": "dispatches to its parts; the surface that the node drives",
    "routing/declarations.py:Declarations": "what faces are told, kept equal to what they may know",
    "routing/interests/upstream.py:Upstream": "one interest per key upstream, and who waits for it",
    "routing/linkstate/flooding.py:Flooding": "declarations of all routers, by one rule",
    "routing/linkstate/network.py:Network": "the graph of routers, and the trees over it",
    "routing/queries.py:Queries": "an open query and its legs end together",
    "transport/batching.py:TxQueues": "eight lanes that are compiled as one",
    "transport/multicast.py:GroupTransport": "sending to a group, and all of its members",
    "transport/stats.py:TransportStats": "one counter per line of the reference",
    "transport/unicast.py:Transport": "one neighbour; links join and leave while it lives",
    "wire/buffer.py:Reader": "one method per field of the wire format",
    "fast/plain.py:PlainPush": "the places of all parts of one sample, without objects",
}
_CONTAINERS: Final = ("dict", "list", "set", "deque", "OrderedDict", "defaultdict", "Counter")


def classes(*packages: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for package in packages:
        for path in python_files(f"src/elea/{package}"):
            name = path.as_posix().rpartition("/src/elea/")[2]
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    yield f"{name}:{node.name}", node


def own_attributes(node: ast.AST) -> Iterator[tuple[str, ast.expr | None, str]]:
    """What is assigned to an attribute of `self`: its name, the value, the annotation."""
    for one in ast.walk(node):
        targets: list[ast.expr] = []
        value, annotation = None, ""
        if isinstance(one, ast.AnnAssign):
            targets, value, annotation = [one.target], one.value, ast.unparse(one.annotation)
        elif isinstance(one, ast.Assign):
            targets, value = one.targets, one.value
        for target in targets:
            if _of_self(target):
                yield ast.unparse(target).removeprefix("self."), value, annotation


def _of_self(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def is_large(node: ast.ClassDef) -> bool:
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    attributes = {name for name, _, _ in own_attributes(node)}
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return (
        len(methods) > METHODS_COUNT_MAX
        or len(attributes) > ATTRIBUTES_COUNT_MAX
        or lines > LINES_MAX
    )


def handed_out(node: ast.ClassDef) -> list[str]:
    """Private containers of a class that it gives to the constructor of another one."""
    containers = set()
    for name, value, annotation in own_attributes(node):
        is_made = isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            is_made = value.func.id in _CONTAINERS
        if is_made or annotation.partition("[")[0] in _CONTAINERS:
            containers.add(name)
    found = []
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1][:1].isupper():
            given = [*call.args, *(one.value for one in call.keywords)]
            texts = [ast.unparse(one) for one in given if _of_self(one)]
            found += [one for one in texts if one.removeprefix("self.") in containers]
    return found


def test_large_classes_are_listed_with_what_holds_them_together() -> None:
    assert {name for name, node in classes(*_PACKAGES) if is_large(node)} == LARGE.keys()


def test_no_object_receives_a_container_of_another() -> None:
    found = {name: handed_out(node) for name, node in classes(*_PACKAGES, "session")}
    assert {name: given for name, given in found.items() if given} == {}


@pytest.mark.parametrize(
    ("given", "found"), [("self._links", ["self._links"]), ("self._count", []), ("links", [])]
)
def test_a_container_that_is_handed_out_is_noticed(given: str, found: list[str]) -> None:
    source = (
        "class A:\n    def __init__(self, links):\n        self._links: dict[int, str] = {}\n"
        f"        self._count = 0\n        self._other = Other({given})\n"
    )
    [node] = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert handed_out(node) == found
