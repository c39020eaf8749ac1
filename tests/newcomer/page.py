"""A page of the documentation as steps: commands, programs, files, and what they print.

How a page is written, so that people and tests read the same:

- A block `console` has commands, each after `$ `, and below a command what it prints. `...` stands
  for anything within a line, or alone for any number of lines. A command that ends in `&` goes on.
- A block `python` is a program. All of a page run in one interpreter, as in a notebook.
- A block of any other kind is a file if the line before it ends in its name: "`router.json5`:".
- A block without a kind is what processes that go on, and programs, print by then.
- `skip="reason"` after the kind of a block leaves it to readers.
- `Needs: `elea[...]`` in the first lines says which extras the page is for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r'^```(?P<kind>\w*)(?: skip="(?P<skip>[^"]+)")?$')
_FILE = re.compile(r"`([\w./-]+)`:$")
_NEEDS = re.compile(r"^Needs: `elea(?:\[([\w,]+)\])?`", re.MULTILINE)


@dataclass
class Command:
    """A command of a shell, and what the page says that it prints."""

    line: int
    text: str
    shown: list[str] = field(default_factory=list)

    @property
    def background(self) -> bool:
        return self.text.endswith("&") and not self.text.endswith("&&")

    @property
    def foreground_text(self) -> str:
        return self.text[:-1].rstrip() if self.background else self.text


@dataclass
class Program:
    """A block of Python."""

    line: int
    text: str


@dataclass
class File:
    """A file that readers write."""

    line: int
    name: str
    text: str


@dataclass
class Printed:
    """What processes that go on print by now."""

    line: int
    shown: list[str]


Step = Command | Program | File | Printed


@dataclass
class Page:
    """A page, read."""

    extras: str  # separated by commas, sorted
    steps: list[Step]
    skipped: dict[int, str]  # reasons, by line

    @property
    def runs(self) -> bool:
        return any(isinstance(step, Command | Program) for step in self.steps)


def read(path: Path) -> Page:
    """The steps of a page, in order."""
    text = path.read_text(encoding="utf-8")
    needs = _NEEDS.search("\n".join(text.splitlines()[:8]))
    extras = ",".join(sorted((needs[1] or "").split(","))) if needs else ""
    steps: list[Step] = []
    skipped: dict[int, str] = {}
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            if lines[number].startswith("```"):
                raise ValueError(f"{path.name}:{number + 1}: unknown form of a block")
            number += 1
            continue
        end = lines.index("```", number + 1)
        body = lines[number + 1 : end]
        if fence["skip"]:
            skipped[number + 1] = fence["skip"]
        else:
            steps += _steps(fence["kind"], body, number + 2, _name(lines, number))
        number = end + 1
    return Page(extras, steps, skipped)


def _name(lines: list[str], fence: int) -> str:
    """The name of the file that a block is, by the line before it; else nothing."""
    before = next((line for line in reversed(lines[:fence]) if line.strip()), "")
    found = _FILE.search(before)
    return found[1] if found else ""


def _steps(kind: str, body: list[str], line: int, name: str) -> list[Step]:
    text = "".join(f"{one}\n" for one in body)
    if kind == "console":
        return list(_commands(body, line))
    if name:
        return [File(line, name, text)]
    if kind == "python":
        return [Program(line, text)]
    return [Printed(line, body)] if not kind else []


def _commands(body: list[str], line: int) -> list[Command]:
    commands: list[Command] = []
    continued = False
    for number, text in enumerate(body, line):
        if continued:
            commands[-1].text += "\n" + text
        elif text.startswith("$ "):
            commands.append(Command(number, text.removeprefix("$ ")))
        else:
            commands[-1].shown.append(text)
            continue
        continued = text.endswith("\\")
    return commands


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether these lines are what is shown, and nothing else."""
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == "..." else _pattern(line) + r"\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def contains(shown: list[str], printed: list[str]) -> bool:
    """Whether each line that is shown is among these, in this order."""
    lines = iter(printed)
    return all(any(re.fullmatch(_pattern(one), line) for line in lines) for one in shown)


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*"
