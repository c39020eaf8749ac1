"""The examples of docs/topics/simulation.md run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "topics" / "simulation.md"
EXAMPLES = re.findall(
    r"^```python\n(.+?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("example", EXAMPLES, ids=["programs", "nodes"])
def test_the_examples_run(example: str) -> None:
    exec(compile(example, str(PAGE), "exec"), {})
