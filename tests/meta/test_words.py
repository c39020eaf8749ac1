"""Words that must not be left behind, and calls that must never be made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from tests.meta.tree import ROOT, python_files, relative

NOWHERE: Final = {
    "unfinished": r"\b(?:FIXME|TODO|XXX)\b|\bNotImplementedError\b",
    "a path of one machine": r"[\"'\s(=](?:/root|/home|/work|/Users)/",
    "unpickling": r"\bpickle\.loads?\(",
    "evaluating text": r"(?<![\w.])(?:eval|exec)\(",
    "unsafe YAML": r"\byaml\.(?:load|full_load|unsafe_load)\(",
    "a shell": r"\bshell\s*=\s*True\b|\bos\.system\(",
}
ONLY_IN_CLI: Final = r"(?<![\w.])print\("


def words(text: str, patterns: dict[str, str]) -> list[str]:
    return [
        f"line {number}: {what}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in patterns.items()
        if re.search(pattern, line)
    ]


def words_of_files(paths: list[Path], patterns: dict[str, str]) -> list[str]:
    return [
        f"{relative(path)}: {found}"
        for path in paths
        for found in words(path.read_text(encoding="utf-8"), patterns)
    ]


def test_no_forbidden_word() -> None:
    files = python_files("src", "attack", "bench", "chaos", "fuzz", "tools", "examples")
    assert words_of_files([*files, ROOT / "setup.py"], NOWHERE) == []


def test_only_the_command_prints() -> None:
    files = [path for path in python_files("src") if "/cli/" not in relative(path)]
    assert words_of_files(files, {"print outside the command": ONLY_IN_CLI}) == []


def test_texts_are_finished_and_know_no_machine() -> None:
    patterns = {key: NOWHERE[key] for key in ("unfinished", "a path of one machine")}
    patterns["unfinished"] = r"\b(?:FIXME|TODO|TBD|XXX)\b"
    texts = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    assert words_of_files([*texts, ROOT / "Makefile"], patterns) == []


@pytest.mark.parametrize(
    "line",
    [
        "# TODO later",
        'open("/home/me/data")',
        "pickle.loads(data)",
        "eval(text)",
        "yaml.load(text)",
        "run(command, shell=True)",
        "raise NotImplementedError",
    ],
)
def test_each_word_is_found(line: str) -> None:
    assert len(words(line, NOWHERE)) == 1


@pytest.mark.parametrize("line", ["self.evaluate(x)", "yaml.safe_load(t)", "literal_eval(x)"])
def test_harmless_lines_pass(line: str) -> None:
    assert words(line, NOWHERE) == []


def test_results_of_sending_are_declared_once() -> None:
    """FULL meant "not accepted" in `transport` and "accepted, waits" in `routing` and `session`."""
    declared = re.compile(r"^(?:SENT|DROPPED|QUEUED|REFUSED|FULL)(?:: Final)? = \d", re.MULTILINE)
    layers = [
        f"src/elea/{one}"
        for one in ("transport", "routing", "fast", "node", "link", "session", "sim")
    ]
    assert [
        relative(path)
        for path in python_files(*layers)
        if declared.search(path.read_text(encoding="utf-8"))
    ] == []
