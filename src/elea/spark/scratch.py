"""Scratch: where Spark and Java put what they need while they run, removed when the process ends.

By themselves they leave a good part of it in the directory for temporary files: native libraries,
artifacts of sessions; and all of it when they are killed. So each process has a directory of its
own. One whose process was killed is removed by the next: its lock is free.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

_PREFIX: Final = "elea-spark-run-"
_LOCK: Final = "lock"
_END_S: Final = 20.0  # for Java to end; what is removed before that it may write again


def scratch() -> Path:
    """The directory of this process."""
    return _of_process(os.getpid())


@lru_cache(maxsize=1)  # one that was forked has another
def _of_process(pid: int) -> Path:
    root = Path(tempfile.gettempdir())
    sweep(root)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    draft = (made / f"{_LOCK}.new").open("w")
    fcntl.flock(draft, fcntl.LOCK_EX)
    Path(draft.name).rename(made / _LOCK)  # nobody sees it before it is held

    def remove() -> None:
        if os.getpid() == pid:
            _end_java()
            shutil.rmtree(made, ignore_errors=True)
            draft.close()

    atexit.register(remove)
    return made


def sweep(root: Path) -> None:
    """Remove the directories of processes that were killed."""
    for lock in root.glob(f"{_PREFIX}*/{_LOCK}"):
        # Of other users, or gone meanwhile: not ours to remove. Held: its process lives.
        with suppress(OSError), lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


def _end_java() -> None:
    """End the Java that PySpark started, which otherwise ends a little after this process."""
    if "pyspark" not in sys.modules:
        return  # it was not started
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if isinstance(process, subprocess.Popen) and process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
