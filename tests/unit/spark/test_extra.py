"""`import elea.spark` where the extra is not installed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["pyarrow"] = None
try:
    import elea.spark
except ImportError as error:
    print(error)
"""


def test_a_missing_extra_was_told_as_a_missing_pyarrow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (
        "elea.spark needs an optional package: pip install 'elea[spark]'\n",
        "",
    )
