"""The documentation is complete, current and leads somewhere."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import socket
from pathlib import Path

import pytest
from tests.meta.tree import PACKAGE, ROOT, relative
from tools import gen_docs, release

from elea.cli.main import main

TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "fuzz/README.md",
]
RECORDS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
ARCHITECTURE = (ROOT / "docs" / "topics" / "architecture.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
MESSAGE_PACKAGES = ("scouting", "transport", "network", "data")


def test_generated_pages_are_current() -> None:
    folder = ROOT / "docs" / "reference"
    pages = gen_docs.pages()
    old = [name for name in pages if (folder / name).read_text(encoding="utf-8") != pages[name]]
    assert old == [], "run `make docs`"


def test_links_lead_to_files() -> None:
    broken = []
    for path in TEXTS:
        links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
        local = [link for link in links if not link.startswith(("http://", "https://"))]
        broken += [(relative(path), link) for link in local if not (path.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("folder", ["topics", "reference", "tutorial", "howto"])
def test_every_page_is_in_the_index(folder: str) -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = sorted((ROOT / "docs" / folder).glob("*.md"))
    assert [page.name for page in pages if f"({folder}/{page.name})" not in index] == []


@pytest.mark.parametrize("path", RECORDS, ids=relative)
def test_a_decision_record_is_short_and_complete(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert text.startswith(f"# {path.name[:4]}: ")
    assert re.search(
        r"^Status: (accepted|superseded by \d{4})\. Date: \d{4}-\d\d-\d\d\.$", text, re.M
    )
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences", "Rejected"]
    assert path.name in (path.parent / "README.md").read_text(encoding="utf-8")


def test_every_module_of_the_top_level_is_in_the_architecture() -> None:
    entries = [path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()]
    names = sorted(set(entries) - {"__pycache__"})
    assert [name for name in names if not re.search(rf"[`./]{name}\b", ARCHITECTURE)] == []


def test_every_message_is_in_the_architecture_and_nothing_else() -> None:
    wire = PACKAGE / "wire"
    listed = re.findall(r"`((?:scouting|transport|network|data)/[\w/]+\.py)`", ARCHITECTURE)
    present = [
        path.relative_to(wire).as_posix()
        for package in MESSAGE_PACKAGES
        for path in (wire / package).rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert sorted(listed) == sorted(present)


def test_the_tour_of_the_readme_runs() -> None:
    session = "\n".join(re.findall(r"^```python\n(.+?)^```", README, re.MULTILINE | re.DOTALL))
    with socket.create_server(("127.0.0.1", 0)) as probe:  # the port of the page may be in use
        session = session.replace("17447", str(probe.getsockname()[1]))
    test = doctest.DocTestParser().get_doctest(session, {}, "README.md", "README.md", 0)
    assert len(test.examples) > 5
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report = io.StringIO()
    runner.run(test, out=report.write)
    assert runner.failures == 0, report.getvalue()


def test_the_commands_of_the_readme_give_what_they_say() -> None:
    blocks = re.findall(r"^```console\n(.+?)^```", README, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ elea (.+)\n((?:(?!\$ ).+\n)*)", "".join(blocks), re.MULTILINE)
    assert commands
    for command, expected in commands:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = main(shlex.split(command, comments=True))
        assert code == 0, command
        assert output.getvalue().strip() == expected.strip(), command


def test_every_change_fragment_has_a_kind_and_is_assembled() -> None:
    folder = ROOT / "changes"
    text = release.assemble(folder)
    for path in release.fragments(folder):
        first_line = path.read_text(encoding="utf-8").splitlines()[0]
        assert first_line in text
    assert release.MARKER in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
