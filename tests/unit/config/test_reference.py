from __future__ import annotations

from pathlib import Path

from elea.config.reference import markdown
from elea.config.schema import KEYS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "config.md"


def test_the_page_is_fresh() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.startswith(markdown())  # pages of services follow


def test_every_key_is_on_the_page_once() -> None:
    page = markdown()
    assert all(page.count(f"| `{key.path}` |") == 1 for key in KEYS)
    assert page.count("*secret*") == 1 + 5  # the word in the introduction, and five keys
