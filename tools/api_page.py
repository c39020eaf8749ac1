"""docs/reference/api.md: every public name with its signature and the first paragraph about it.

The source is read, not the objects: a compiled module would show other signatures.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import elea
import elea.store

SRC: Final = Path(__file__).resolve().parent.parent / "src"
WIDTH: Final = 100

MODULES: Final = {
    "elea.ext": "Advanced publishers and subscribers, and the serialization format.",
    "elea.handlers": "Channels and callbacks: how what arrives is handed to the application.",
    "elea.shm": "Buffers with the interface of shared memory.",
    "elea.aio": "The same verbs as coroutines, on the caller's event loop.",
    "elea.spark": "Spark sessions, archives and tables; needs the extra `spark`.",
}
_STORE: Final = (
    "Logs and tables: record, replay, answer from them, exchange; needs the extra `arrow`."
)
_INTRODUCTION: Final = """# The Python API

Names, parameters and defaults are those of zenoh-python 1.10: a program written for it runs with
`import elea as zenoh`, or with [`import elea.as_zenoh`](../topics/zenoh-python.md). What is named
here and not there is Elea's own. Errors are on [a page of their own](errors.md), limits
[as well](limits.md).
"""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """Where a name is defined; `alias` if it is another name for something."""

    module: str
    node: Definition | None
    alias: str = ""


def markdown() -> str:
    """The page, without the line that says it is generated."""
    text = _INTRODUCTION + _passed() + "\n## `elea`\n"
    for name in sorted(elea.__all__, key=str.lower):
        text += _entry(name, _find(elea._HOME_OF[name], name))
    for module, summary in MODULES.items():
        text += f"\n## `{module}`\n\n{summary}\n"
        for name in sorted(_exports(module), key=str.lower):
            text += _entry(name, _find(module, name))
    text += f"\n## `elea.store`\n\n{_STORE}\n"
    for name in sorted(elea.store.__all__, key=str.lower):
        text += _entry(name, _find(elea.store._HOME_OF[name], name))
    return text


def _passed() -> str:
    """What the names of types that only appear in signatures stand for."""
    lines = [
        f"- `{target.id}`: `{ast.unparse(node.value)}`"
        for module in ("elea.session.convert", "elea.session.handlers")
        for node in _tree(module).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.startswith(("Into", "AnyHandler"))
    ]
    return "\nWhat may be passed:\n\n" + "\n".join(lines) + "\n"


@cache
def _tree(module: str) -> ast.Module:
    path = SRC / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_bytes())


def _exports(module: str) -> list[str]:
    return [
        alias.asname or alias.name
        for node in _tree(module).body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    ]


def _find(module: str, name: str) -> Found:
    """Follow imports and assignments to the definition."""
    found = Found(module, None)
    for node in _tree(module).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                found = Found(module, node)  # of overloads, the last one is the function itself
            case ast.ImportFrom(module=str(source)) if source.startswith("elea"):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return _find(source, alias.name)
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Name(id=other)):
                if target == name:
                    return Found(module, None, other)
            case _:
                pass
    return found


def _entry(name: str, found: Found) -> str:
    text = f"\n### `{name}`\n\n"
    if found.node is None:
        return text + f"Another name for `{found.alias}`.\n"
    text += f"```python\n{_headline(name, found)}\n```\n\n{_first_paragraph(found.node)}\n"
    if isinstance(found.node, ast.ClassDef):
        lines = list(_member_lines(found))
        text += "\n" + "\n".join(lines) + "\n" if lines else ""
    return text


def _headline(name: str, found: Found) -> str:
    node = found.node
    if isinstance(node, ast.ClassDef):
        parts = _constructor(found)
        return _wrapped(f"class {name}(", parts, ")") if parts else f"class {name}"
    assert node is not None
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return _wrapped(f"{prefix} {name}(", _parameters(node), f"){_returns(node)}")


def _wrapped(start: str, parts: list[str], end: str) -> str:
    line = start + ", ".join(parts) + end
    if len(line) <= WIDTH:
        return line
    return start + "".join(f"\n    {part}," for part in parts) + "\n" + end


def _constructor(found: Found) -> list[str]:
    """What a program passes to make one; nothing for what only the library makes."""
    assert isinstance(found.node, ast.ClassDef)
    for module, owner in _lineage(found):
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__new__"):
                return [] if _is_internal(module, node) else _parameters(node)
    if not any("dataclass" in ast.unparse(one) for one in found.node.decorator_list):
        return []
    return [
        ast.unparse(node)
        for node in found.node.body
        if isinstance(node, ast.AnnAssign)
        and "ClassVar" not in ast.unparse(node.annotation)
        and not ast.unparse(node.target).startswith("_")
    ]


def _is_internal(module: str, constructor: Function) -> bool:
    """Whether it takes what no program has: a class that is not public, or the session itself."""
    public = {*elea.__all__, *(name for module in MODULES for name in _exports(module))}
    arguments = [*constructor.args.args[1:], *constructor.args.kwonlyargs]
    for one in arguments:
        if one.arg in ("session", "driver", "inner", "handler"):
            return True
        for part in ast.walk(one.annotation or ast.Constant(None)):
            if isinstance(part, ast.Name) and part.id not in public and _is_class(module, part.id):
                return True
    return False


def _is_class(module: str, name: str) -> bool:
    """Whether it names a class of ours; a protocol says only what an object must have."""
    node = _find(module, name).node
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    return isinstance(node, ast.ClassDef) and "Protocol" not in bases


def _parameters(node: Function) -> list[str]:
    """The parameters as a caller sees them: without the first one of a method."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + [*arguments.defaults]
    shown = [_parameter(one, default) for one, default in zip(plain, defaults, strict=True)]
    if arguments.posonlyargs:
        shown.insert(len(arguments.posonlyargs), "/")
    if plain and plain[0].arg in ("self", "cls"):
        del shown[0]
    if arguments.vararg is not None:
        shown.append("*" + _parameter(arguments.vararg, None))
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += map(_parameter, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg is not None:
        shown.append("**" + _parameter(arguments.kwarg, None))
    return shown


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    kind = "" if argument.annotation is None else f": {ast.unparse(argument.annotation)}"
    if default is None:
        return argument.arg + kind
    return f"{argument.arg}{kind}{' = ' if kind else '='}{ast.unparse(default)}"


def _returns(node: Function) -> str:
    return "" if node.returns is None else f" -> {ast.unparse(node.returns)}"


def _first_paragraph(node: Definition) -> str:
    docstring = inspect.cleandoc(ast.get_docstring(node) or "")
    return " ".join(docstring.partition("\n\n")[0].split())


def _lineage(found: Found) -> Iterator[tuple[str, ast.ClassDef]]:
    """The class and those of ours that it inherits from, nearest first."""
    assert isinstance(found.node, ast.ClassDef)
    yield found.module, found.node
    for base in found.node.bases:
        name = ast.unparse(base).partition("[")[0]
        above = _find(found.module, name)
        if isinstance(above.node, ast.ClassDef):
            yield from _lineage(above)


def _member_lines(found: Found) -> Iterator[str]:
    seen: set[str] = set()
    constants: list[str] = []
    lines: dict[str, str] = {}
    for _, owner in _lineage(found):
        for node in owner.body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if not node.name.startswith("_"):
                    if node.name not in seen:
                        lines[node.name] = _member(node)
                case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper():
                    constants.append(name)
                case ast.AnnAssign(target=ast.Name(id=name)) if name.isupper():
                    constants.append(name)
                case _:
                    pass
        seen |= lines.keys()  # what is nearer hides what is above
    if constants:
        yield f"- members: {', '.join(f'`{name}`' for name in dict.fromkeys(constants))}"
    yield from lines.values()


def _member(node: Function) -> str:
    decorators = {ast.unparse(one) for one in node.decorator_list}
    about = _first_paragraph(node)
    tail = f": {about}" if about else ""
    if any(one.endswith("property") for one in decorators) or any(
        one.endswith(".setter") for one in decorators
    ):
        kind = ast.unparse(node.returns) if node.returns is not None else ""
        return f"- `{node.name}: {kind}`{tail}"
    prefix = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    call = f"{node.name}({', '.join(_parameters(node))}){_returns(node)}"
    how = " (class method)" if "classmethod" in decorators else ""
    return f"- `{prefix}{call}`{how}{tail}"
