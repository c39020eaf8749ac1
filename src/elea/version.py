"""What this is: the package's version, the wire version it speaks, and which build is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea.pure import hot_modules, is_compiled

VERSION: Final = "0.1.0.dev0"
WIRE_VERSION: Final = 9  # the version octet of INIT, JOIN, SCOUT and HELLO
TO_COMPILE: Final = (  # what to do where COMPILED is false
    "install a C compiler and the headers of Python, then install elea again with ELEA_COMPILE=1"
    " in the environment, which says why if it still cannot be compiled"
)

if TYPE_CHECKING:
    COMPILED: bool
    """Whether every hot module comes from a compiled extension (see `elea.pure`)."""
else:

    def __getattr__(name: str) -> bool:
        # Answered on first use: it looks at the disk, and most programs never ask.
        if name != "COMPILED":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        modules = hot_modules()
        globals()["COMPILED"] = bool(modules) and all(map(is_compiled, modules))
        return globals()["COMPILED"]
