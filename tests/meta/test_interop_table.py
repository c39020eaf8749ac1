"""The table of what works with Eclipse Zenoh: each line has its tests, each mark its line."""

from __future__ import annotations

from tests.meta.tree import ROOT
from tools.interop_lines import PLANNED, SECTIONS
from tools.interop_table import marked, page, shown_by

LINES = [line for lines in SECTIONS.values() for line in lines]


def test_every_line_is_there_once() -> None:
    names = [name for name, _, _ in LINES]
    assert len(names) == len(set(names))


def test_a_test_shows_each_line() -> None:
    shown = shown_by()
    assert [name for name, _, _ in LINES if name not in PLANNED and not shown.get(name)] == []


def test_what_is_planned_has_no_test_yet() -> None:
    assert PLANNED & shown_by().keys() == set()


def test_every_mark_names_a_line() -> None:
    assert shown_by().keys() <= {name for name, _, _ in LINES}


def test_every_test_of_the_page_exists() -> None:
    text = page()
    for tests in shown_by().values():
        for one in tests:
            assert f"`{one}`" in text
            file, _, name = one.partition("::")
            assert f"def {name}(" in (ROOT / "tests" / "interop" / file).read_text(encoding="utf-8")


def test_marks_are_found_in_both_spellings() -> None:
    source = """
@line("E1", "E2")
@other("X")
def test_one(): ...
@pytest.mark.line("E3")
def test_two(): ...
def test_three(): ...
"""
    assert list(marked(source)) == [("test_one", ["E1", "E2"]), ("test_two", ["E3"])]
