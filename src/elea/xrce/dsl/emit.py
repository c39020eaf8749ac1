"""The schema as Python: modules of classes, and one that reads and writes them.

One function per class, straight down its members. Every bound check of the interpreter is in the
emitted code as well. The output is typed and, once formatted, committed: `tools/gen_xrce.py` writes
it, a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from elea.xrce.dsl import model
from elea.xrce.dsl.check import ROOT
from elea.xrce.dsl.diagram import diagram
from elea.xrce.dsl.emit_read import ReadEmitter
from elea.xrce.dsl.emit_write import WriteEmitter
from elea.xrce.dsl.plan import (
    Class,
    Family,
    Module,
    Plan,
    attribute,
    constant,
    indented,
    snake,
)

_NOTE: Final = "Generated from {source} by tools/gen_xrce.py: do not edit."
_BUFFER: Final = (
    *(
        "Reader",
        "put_byte",
        "put_nat",
        "put_wide",
        "put_count",
        "put_octets",
        "missing",
        "unwanted",
    ),
    "Record",
)


def emit(
    schema: model.Schema, bounds: Mapping[str, str], *, package: str, source: str
) -> dict[str, str]:
    """File name to Python text: the classes by family, then what reads and writes them."""
    plan = Plan(schema)
    homes = dict.fromkeys(_BUFFER, "elea.xrce.buffer")
    for module in plan.modules:
        home = f"{package}.{module.name}"
        homes |= {one.name: home for one in module.classes}
        homes |= {constant(one.name): home for one in _symbols(module)}
        if module.family:
            homes[module.family.name] = home
    homes |= dict.fromkeys(bounds.values(), "elea.limits")
    homes |= {"DecodeError": "elea.errors"}
    homes |= {"Final": "typing", "TypeAlias": "typing", "cast": "typing"}
    note = _NOTE.format(source=source)
    made = {}
    for module in plan.modules:
        what = f"The family {module.family.name}" if module.family else "Records"
        body = _classes(plan, module)
        made[f"{module.name}.py"] = _module(f"{what}, as classes.\n\n{note}", body, homes)
    for name, (what, body) in _codec(plan, bounds).items():
        made[f"{name}.py"] = _module(f"{what}\n\n{note}", body, homes)
    return made


def _module(docstring: str, body: list[str], homes: Mapping[str, str]) -> str:
    """A whole module; it imports what its body mentions and does not define."""
    text = "\n".join(body)
    own = set(re.findall(r"^(?:class |def )?(\w+)(?:\(|: )", text, re.MULTILINE))
    mentioned = set(re.findall(r"\w+", text)) - own
    by_home: dict[str, list[str]] = {}
    for name in sorted(mentioned & homes.keys()):
        by_home.setdefault(homes[name], []).append(name)
    imports = "\n".join(
        f"from {home} import {', '.join(names)}" for home, names in sorted(by_home.items())
    )
    return f'"""{docstring}\n"""\n\nfrom __future__ import annotations\n\n{imports}\n\n{text}\n'


def _symbols(module: Module) -> list[model.Symbol]:
    return [symbol for one in module.enumerations for symbol in one.symbols]


def _classes(plan: Plan, module: Module) -> list[str]:
    body = [f"{constant(one.name)}: Final = {one.value}" for one in _symbols(module)]
    for one in module.classes:
        body += ["", "", *_class(plan, one)]
    if module.family:
        names = dict.fromkeys(one.name for _, one in module.family.members)
        body += ["", "", f"{module.family.name}: TypeAlias = {' | '.join(names)}"]
    return body


def _class(plan: Plan, one: Class) -> list[str]:
    """A class whose members are given by name: two numbers are easily mixed up."""
    names = [attribute(member.name) for member in one.record.members]
    types = [plan.member_type(one.record, member) for member in one.record.members]
    if one.header is not None:
        drawn = diagram(plan.schema, one.header, one.value, one.record)
        docstring = [f"{one.name}.", "", *drawn, ""]
    else:
        docstring = [f"{one.name}: {', '.join(member.name for member in one.record.members)}."]
    parameters = [
        f"{name}: {kind}" + (" = None" if kind.endswith("| None") else "")
        for name, kind in zip(names, types, strict=True)
    ]
    slots = ", ".join(f'"{name}"' for name in sorted(names))
    quoted = ", ".join(f'"{name}"' for name in names)
    text = "\n".join(docstring)
    body = [
        *f'"""{text}"""'.split("\n"),
        "",
        f"__slots__ = ({slots}{',' if len(names) == 1 else ''})",
        "",
        f"def __init__(self, *, {', '.join(parameters)}) -> None:",
        *(f"    self.{name}: Final = {name}" for name in names),
        "",
        "def members(self) -> tuple[str, ...]:",
        f"    return ({quoted}{',' if len(names) == 1 else ''})",
    ]
    return [f"class {one.name}(Record):", *indented(body)]


def _codec(plan: Plan, bounds: Mapping[str, str]) -> dict[str, tuple[str, list[str]]]:
    """The functions for every class and family: module to its title and lines."""
    reads, writes = ReadEmitter(plan, bounds), WriteEmitter(plan, bounds)
    decode: list[str] = []
    encode: list[str] = []
    for module in plan.modules:
        for one in module.classes:
            # What takes bits of a header around it is read and written in place.
            if one.header is not None or not plan.has_flags(one.record):
                decode += _read_class(reads, one)
                encode += _write_class(writes, one)
        if module.family:
            decode += _read_family(module.family)
            encode += _write_family(module.family)
    for lines in reads.lists.values():
        decode += ["", "", *lines]
    for lines in writes.lists.values():
        encode += ["", "", *lines]
    root = snake(ROOT)
    encode += _function(
        f"encode({root}: {ROOT}) -> bytes",
        f"The octets of a {root}.",
        ["out = bytearray()", f"write_{root}(out, {root})", "return bytes(out)"],
    )
    return {
        "decode": ("Octets to records.", decode),
        "encode": ("Records to octets.", encode),
    }


def _read_class(reads: ReadEmitter, one: Class) -> list[str]:
    name = snake(one.name)
    header = ", header: int" if one.header is not None else ""
    signature = f"read_{name}(reader: Reader{header}) -> {one.name}"
    if one.name == ROOT:
        return _function(signature, f"The next {name}.", reads.record(one))
    return _function(f"_{signature}", "", reads.record(one))


def _write_class(writes: WriteEmitter, one: Class) -> list[str]:
    name = snake(one.name)
    signature = f"write_{name}(out: bytearray, this: {one.name}) -> None"
    if one.name == ROOT:
        return _function(signature, f"Append a {name}.", writes.record(one))
    return _function(f"_{signature}", "", writes.record(one))


def _read_family(family: Family) -> list[str]:
    name = snake(family.name)
    lines = [
        "at = reader.pos",
        f'header = reader.byte("{family.header_name}")',
        f"kind = header & 0x{family.header.mask:02X}",
    ]
    for value, one in family.members:
        lines += [f"if kind == {value}:", f"    return _read_{snake(one.name)}(reader, header)"]
    reason = f'f"{family.header_name} is {{kind}}, which has no definition"'
    lines.append(f"raise DecodeError({reason}, at)")
    return _function(f"read_{name}(reader: Reader) -> {family.name}", f"The next {name}.", lines)


def _write_family(family: Family) -> list[str]:
    name = snake(family.name)
    lines: list[str] = []
    classes = list(dict.fromkeys(one.name for _, one in family.members))
    for one in classes[:-1]:
        word = "elif" if lines else "if"
        lines += [f"{word} isinstance({name}, {one}):", f"    _write_{snake(one)}(out, {name})"]
    last = f"_write_{snake(classes[-1])}(out, {name})"
    lines += ["else:", f"    {last}"] if lines else [last]
    signature = f"write_{name}(out: bytearray, {name}: {family.name}) -> None"
    return _function(signature, f"Append a {name}.", lines)


def _function(signature: str, docstring: str, body: Iterable[str]) -> list[str]:
    said = [f'"""{docstring}"""'] if docstring else []
    return ["", "", f"def {signature}:", *indented([*said, *body])]
