"""The examples of docs/reference/predicates.md run, and its tables are the code's."""

from __future__ import annotations

import doctest
import inspect
import re

from tests.meta.tree import ROOT

from elea.decode import layout
from elea.predicate import STANDARD, compile_predicate, parse, parser
from elea.predicate.evaluate import MappingFields

PAGE = ROOT / "docs" / "reference" / "predicates.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_examples_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0


def test_the_grammars_are_the_code_s() -> None:
    rules = re.compile(r"^ *([a-z-]+) +=(.+?)(?:   +\S.*)?$", re.MULTILINE)
    shown = {name: rule.split() for name, rule in rules.findall(TEXT)}
    for module in (parser, layout):
        for name, rule in rules.findall(inspect.getdoc(module) or ""):
            assert shown[name][: len(rule.split())] == rule.split(), name


def test_every_function_is_on_the_page() -> None:
    assert sorted(re.findall(r"^\| `(\w+)\(", TEXT, re.MULTILINE)) == sorted(STANDARD)


def test_the_table_of_the_logic() -> None:
    words = {"true": True, "false": False, "unknown": None}
    values = {True: 1, False: 0, None: None}
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", TEXT, re.MULTILINE)
    assert len([row for row in rows if row[0] in words]) == 6
    for a, b, both, either, contrary in rows:
        if a in words:
            fields = MappingFields({"a": values[words[a]], "b": values[words[b]]})
            texts = ("a = 1 AND b = 1", "a = 1 OR b = 1", "NOT a = 1")
            found = [compile_predicate(parse(text))(fields) for text in texts]
            assert found == [words[both], words[either], words[contrary]]
