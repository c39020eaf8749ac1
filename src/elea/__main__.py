"""`python -m elea`, and the commands `elea` and `elead`: nothing is imported before it is guarded.

Ctrl-C in the moment in which modules are loaded ends a command as it does later.
"""

from __future__ import annotations

import sys


def elea() -> int:
    """The command `elea`."""
    try:
        from elea.cli.main import main
    except KeyboardInterrupt:
        return _INTERRUPTED
    return main()


def daemon() -> int:
    """The command `elead`: `elea router` under the name of a daemon."""
    try:
        from elea.cli.router import elead
    except KeyboardInterrupt:
        return _INTERRUPTED
    return elead()


_INTERRUPTED = 130  # as elea.cli.exit_codes, which would be an import

if __name__ == "__main__":
    sys.exit(elea())
