"""The pages that tell how to extend Elea: few files are touched, all are named, and it works.

A block with the name of a file that exists is a change of it: lines to keep, take out and put in,
as in a patch, with `@@` between places. Any other name is a new file; `try.py` is the program.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.newcomer.page import File, read

ROOT = Path(__file__).resolve().parents[2]
HOWTO = ROOT / "docs" / "howto"
FILES_COUNT_MAX = {
    "add-a-transport-extension.md": 3,
    "add-a-link-scheme.md": 2,
    "add-an-interceptor.md": 2,
    "add-a-command.md": 2,
    "add-a-decoder.md": 2,
}
# Modules that were changed are found before those of the package.
RUNNER = """
import importlib.util, runpy, sys
from pathlib import Path

class Changed:
    def find_spec(self, name, path, target=None):
        file = Path("src", *name.split(".")).with_suffix(".py")
        return importlib.util.spec_from_file_location(name, file) if file.exists() else None

sys.meta_path.insert(0, Changed())
runpy.run_path("try.py", run_name="__main__")
"""


def changed(text: str, change: str) -> str:
    """The text of a file after a change, each place of which must be there once."""
    for place in change.split("@@\n"):
        lines = place.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
        after = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("name", FILES_COUNT_MAX)
def test_the_page_works_and_names_every_file(name: str, tmp_path: Path) -> None:
    page = HOWTO / name
    files = [step for step in read(page).steps if isinstance(step, File)]
    touched = {one.name for one in files} - {"try.py"}
    assert len(touched) <= FILES_COUNT_MAX[name]
    table = page.read_text(encoding="utf-8").partition("## ")[0]
    assert {one for one in touched if f"| `{one}` |" in table} == touched
    for one in files:
        text = one.text
        if (ROOT / one.name).exists():
            text = changed((ROOT / one.name).read_text(encoding="utf-8"), one.text)
        (tmp_path / one.name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one.name).write_text(text, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", RUNNER],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,  # only a hang takes as long
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_place_that_is_not_there_is_noticed() -> None:
    assert changed("a\nb\nc\n", " a\n-b\n+d\n") == "a\nd\nc\n"
    with pytest.raises(AssertionError):
        changed("a\nb\n", " b\n-c\n")
