"""What is made from the message definitions of XRCE is what is committed."""

from __future__ import annotations

import pytest
from tests.meta.tree import ROOT
from tools import gen_xrce

FILES = gen_xrce.files()


@pytest.mark.parametrize("name", sorted(FILES))
def test_generated_files_are_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == FILES[name], "run tools/gen_xrce.py"
