"""The scheme of docs/howto/write-a-link-scheme.md is a scheme."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.link.rig import Case, Pair, Rig

from elea.errors import LinkError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "write-a-link-scheme.md"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    [code] = re.findall(r"^```python\n(.+?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    path = tmp_path / "abstract.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("abstract", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    name = f"abstract/elea-test-{os.getpid()}"
    return Case("abstract", module.Abstract(), lambda _: name)


def test_it_carries_octets_and_ends(case: Case, pair: Callable[[Case], Pair]) -> None:
    ends = pair(case)
    ends.write(ends.near, b"there")
    assert ends.read(ends.far, 5) == b"there"
    ends.write(ends.far, b"back")
    ends.far.close()
    assert ends.read(ends.near, 4) == b"back"
    assert ends.next(ends.near) == b""
    assert ends.near.info.remote == ends.listener.locator


def test_it_says_what_fails(case: Case, rig: Callable[[Case], Rig]) -> None:
    one = rig(case)
    listener = one.listen()
    with pytest.raises(LinkError, match="something listens there already"):
        one.listen()
    listener.close()
    with pytest.raises(LinkError, match="nothing listens there"):
        one.dial(listener)
