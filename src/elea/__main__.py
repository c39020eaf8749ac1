"""`python -m elea`: the command `elea`."""

from __future__ import annotations

import sys

from elea.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
