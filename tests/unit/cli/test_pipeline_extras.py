"""A pipeline without its packages names the one extra that brings them all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# As if these packages were not installed.
PROGRAM = """
import sys
absent = set(sys.argv[1].split(","))
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in absent else find(name, *rest)
from elea.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("absent", ["pyspark,yaml,deltalake,pyarrow", "yaml", "pyspark"])
def test_all_packages_are_named_at_once(absent: str, tmp_path: Path) -> None:
    """It asked for `elea[spark]`, then for `elea[yaml]`, then for `elea[delta]`."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, absent, "pipeline", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    (tmp_path / "pipeline.yaml").write_text("name: fleet\n", encoding="utf-8")
    ended = run("run", "--once")
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "elea: elea pipeline needs an optional package: pip install 'elea[pipelines]'"
    ]
