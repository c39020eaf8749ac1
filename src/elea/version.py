"""What this is: the package's version, the wire version it speaks, and which build is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea import pure
from elea.pure import compiled_modules, is_compiled

VERSION: Final = "0.1.0.dev0"
WIRE_VERSION: Final = 9  # the version octet of INIT, JOIN, SCOUT and HELLO
# Its two options have pip build anew, whatever is installed or kept.
_AGAIN: Final = "ELEA_COMPILE=1 pip install --force-reinstall --no-cache-dir ..."
_TO_COMPILE: Final = (
    f"for speed, install a C compiler and the headers of Python, then elea again: {_AGAIN}"
)
_SWITCHED_OFF: Final = "ELEA_COMPILE=0"  # the reason that setup.py writes

if TYPE_CHECKING:
    COMPILED: bool
    """Whether modules come from compiled extensions (see `elea.pure`)."""
else:

    def __getattr__(name: str) -> bool:
        # Answered on first use: it looks at the disk, and most programs never ask.
        if name != "COMPILED":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        modules = compiled_modules()
        globals()["COMPILED"] = bool(modules) and all(map(is_compiled, modules))
        return globals()["COMPILED"]


def why_interpreted() -> str:
    """Where `COMPILED` is false: why, as far as that is known, and what to do about it."""
    if pure.FORCED:
        return "ELEA_PURE is set; unset it for speed"
    reason = pure.build_reason()  # none in a source tree, or in a wheel of another builder
    if reason == _SWITCHED_OFF:
        return f"when it was installed: {reason}; for speed, install elea again: {_AGAIN}"
    return f"when it was installed: {reason}; {_TO_COMPILE}" if reason else _TO_COMPILE
