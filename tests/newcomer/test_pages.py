"""Every page of tutorial and howto does what it says, with nothing but the wheel and its extras.

Each is followed in an empty directory, on a host of its own, by walk.py; page.py says how pages are
written. `make test` follows the tutorial, `make test-packages` the rest; those that start Spark are
for `make test-long`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from tests.interop.namespaces import host
from tests.meta.test_exercises import FILES_COUNT_MAX
from tests.meta.tree import ROOT
from tests.newcomer.environments import Environments
from tests.newcomer.page import Command, File, contains, matches, read

from elea.config_file import NO_SCOUTING_ENV

DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(DOCS).as_posix(): read(path)
    for folder in ("tutorial", "howto")
    for path in sorted((DOCS / folder).glob("*.md"))
}
# Pages that have nothing to run.
TO_READ = {
    "howto/exactly-once.md": "tells what holds; the programs are on pages that it names",
    "howto/size-a-log.md": "figures",
    **{
        f"howto/{name}": "changes Elea itself; tests/meta/test_exercises.py follows it"
        for name in FILES_COUNT_MAX
    },
}
# Pages of which no test can follow a step.
ELSEWHERE = {
    "howto/cluster.md": "several hosts, Kubernetes, Databricks; what one host can do is in"
    " tests/spark/test_cluster.py, test_connect.py and test_declarative.py",
}
STARTS_SPARK = sorted(
    name
    for name, page in PAGES.items()
    if {"spark", "pipelines", "demo"} & {*page.extras.split(",")}
)
SETUPS = {"tutorial/first-pub-sub.md": ("card", "loopback")}
_LIMIT_S = 1_800  # only a hang takes as long
_ALONE = ("--pid", "--fork", "--mount-proc", "--kill-child")


def cases() -> list[ParameterSet]:
    found = []
    for name in sorted({*PAGES} - {*TO_READ} - {*ELSEWHERE}):
        marks = []
        if name in STARTS_SPARK:
            marks = [pytest.mark.long]
        elif not name.startswith("tutorial/"):
            marks = [pytest.mark.packages]
        for setup in SETUPS.get(name, ("card",)):
            found.append(pytest.param(name, setup, marks=marks, id=f"{name}-{setup}"))
    return found


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """Shared by the processes of a test run, of which each has a folder in one."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return Environments(folder / "newcomer")


@pytest.mark.parametrize(("name", "setup"), cases())
def test_a_page_does_what_it_says(
    name: str, setup: str, environments: Environments, tmp_path: Path
) -> None:
    command = host(setup, *_ALONE)
    python = environments.with_extras(PAGES[name].extras) / "bin" / "python"
    ended = subprocess.run(
        [*command, str(python), "-m", "tests.newcomer.walk", str(DOCS / name)],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-8_000:]


def test_every_page_is_followed_or_has_a_reason() -> None:
    runs = {name for name, page in PAGES.items() if page.runs}
    assert {*PAGES} - runs <= {*TO_READ}
    assert {*TO_READ} <= {*PAGES} - runs
    assert {*ELSEWHERE} <= runs


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_what_it_needs(name: str) -> None:
    lines = (DOCS / name).read_text(encoding="utf-8").splitlines()[:16]
    assert any(line.startswith("Needs: `elea") for line in lines)


def test_a_page_is_read(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(
        "# A page\n\nNeeds: `elea[b,a]`.\n\nWrite `x.json5`:\n\n```json5\n{}\n```\n\n"
        "```console\n$ elea router &\nready\n$ one \\\n  two\n```\n\n```\nprinted\n```\n"
        '\n```console skip="no"\n$ rm\n```\n'
    )
    page = read(file)
    assert page.extras == "a,b"
    written, router, one, printed = page.steps
    assert isinstance(written, File)
    assert (written.name, written.text) == ("x.json5", "{}\n")
    assert isinstance(router, Command)
    assert (router.background, router.foreground_text, router.shown) == (
        *(True, "elea router"),
        ["ready"],
    )
    assert isinstance(one, Command)
    assert one.text == "one \\\n  two"
    assert page.skipped == {22: "no"}
    assert not isinstance(printed, Command)


def test_what_is_shown_is_looked_for() -> None:
    assert matches(["a ... c", "..."], ["a b c", "d", "e"])
    assert matches([], [])
    assert not matches([], ["more"])
    assert not matches(["a"], ["a", "more"])
    assert not matches(["a.c"], ["abc"])
    assert contains(["b", "d"], ["a", "b", "c", "d"])
    assert not contains(["b", "a"], ["a", "b"])


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != NO_SCOUTING_ENV}
    return {**kept, "PYTHONPATH": str(ROOT)}
