"""Pages about specifications say what these say; every mark of a test names one of the lines."""

from __future__ import annotations

import pytest
from tests.meta.tree import ROOT
from tools.conformance_pages import ALL, DDS, ROS, Conformance

LINES_COUNT = {DDS: 192, ROS: 119}

every = pytest.mark.parametrize("pages", ALL, ids=lambda pages: pages.file)


def names_of(pages: Conformance) -> list[str]:
    return [name for _, found in pages.lines() for name, _ in found]


@every
def test_every_line_of_the_specification_is_found_once(pages: Conformance) -> None:
    names = names_of(pages)
    text = pages.specification.read_text(encoding="utf-8")
    assert len(names) == len(set(names)) == text.count(f"\n* **{pages.prefix}")
    assert len(names) == LINES_COUNT[pages]


@every
def test_every_mark_names_a_line(pages: Conformance) -> None:
    assert pages.shown_by.keys() <= set(names_of(pages))


@every
def test_open_lines_are_said_to_be_open(pages: Conformance) -> None:
    page = pages.page()
    assert page.count("| shown |") == len(pages.shown_by)
    assert page.count("| shown |") + page.count("| open |") == LINES_COUNT[pages]


@every
def test_every_test_of_the_page_exists(pages: Conformance) -> None:
    for tests in pages.shown_by.values():
        for one in tests:
            file, _, name = one.partition("::")
            assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")
