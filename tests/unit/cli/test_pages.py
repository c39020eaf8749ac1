"""The console examples of pages about routers do what the pages say."""

from __future__ import annotations

import pytest
from tests.unit.cli.console import matches, read_page, run_page

PAGES = (
    "tutorial/first-router.md",
    "tutorial/tiny-device.md",
    "howto/debug-a-route.md",
    "howto/run-a-mesh.md",
    "howto/size-a-router.md",
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(name, capsys)


def test_what_is_shown_is_looked_for() -> None:
    assert matches(["a ... c", "..."], "x\na b c\nd\n")
    assert not matches(["b", "a"], "a\nb\n")
    assert not matches(["a.c"], "abc\n")
    assert [one.background for one in read_page(PAGES[0]).commands].count(True) == 3
