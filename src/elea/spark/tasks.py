"""What is done once in each Python process that runs tasks of Spark."""

from __future__ import annotations

import gc
import sys


def settle() -> None:
    """Take what is loaded by now for what stays, in a process that runs tasks.

    After every task Spark collects garbage, and looks at all modules for it: 50 ms of a processor,
    as much as for 50 000 rows. What is frozen is not looked at.
    """
    if gc.get_freeze_count() or "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext  # late: logs are read without Spark, too

    if TaskContext.get() is not None:
        gc.freeze()
