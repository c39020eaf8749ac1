"""docs/howto/use-rest.md tells all that a configuration may say; tests/newcomer follows it."""

from __future__ import annotations

from tests.meta.tree import ROOT

from elea.web.settings import SECTION

PAGE = (ROOT / "docs" / "howto" / "use-rest.md").read_text(encoding="utf-8")


def test_every_key_of_the_section_is_on_the_page() -> None:
    assert [key.name for key in SECTION.keys if f"`{key.name}`" not in PAGE] == []
