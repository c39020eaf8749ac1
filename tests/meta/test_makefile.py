"""`make help` lists every target a person may call, and CI runs what a developer runs."""

from __future__ import annotations

import os
import re
import subprocess

from tests.meta.tree import ROOT


def test_help_is_the_default_and_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    [phony] = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    done = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = re.findall(r"^  make ([\w-]+) +\S", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(set(phony.split()) - {"compiled"})


def test_ci_runs_make_test_and_builds_packages() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert text.endswith("make test\nexec make test-packages\n")
