"""How large campaigns are: as `make test` has them, or as `make test-long` does.

Seeds, kills and random examples find more the more of them there are. `make test` takes as many as
fit into its ten minutes, the same ones each time; `make test-long` sets ELEA_TEST_SCALE=long, takes
all of them, and runs the tests marked `long` as well.
"""

from __future__ import annotations

import os
from typing import Final, TypeVar

SCALE: Final = os.environ.get("ELEA_TEST_SCALE", "usual")
if SCALE not in ("usual", "long"):
    raise ValueError(f"ELEA_TEST_SCALE must be usual or long, got {SCALE!r}")
IS_LONG: Final = SCALE == "long"

T = TypeVar("T")


def scaled(usual: T, long: T) -> T:
    """The value for this run."""
    return long if IS_LONG else usual
