"""Which build of the compiled modules is in use, and the switch that forces the interpreted one.

A module may lie beside an extension module compiled from it (`tool.elea.compile` of pyproject.toml
lists these). Python prefers the extension; with `ELEA_PURE=1` in the environment a finder in front
of Python's own picks the source. `elea/__init__.py` installs it before anything else is imported.
Nothing here knows what the compiled modules do.
"""

from __future__ import annotations

import os
import sys

# `typing` would cost every `import elea` several milliseconds; type checkers know this idiom.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FORCED = os.environ.get("ELEA_PURE", "") not in ("", "0")

_PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__))
_REASON = os.path.join(_PACKAGE_DIR, "interpreted.txt")  # written by setup.py


class SourceFinder:
    """A meta path finder for modules of `elea` that only ever finds the `.py` file."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith("elea."):
            return None
        from importlib.util import spec_from_file_location  # late: only interpreted runs need it

        for entry in path:
            source = os.path.join(entry, fullname.rpartition(".")[2] + ".py")
            if os.path.isfile(source):
                return spec_from_file_location(fullname, source)
        return None


def install() -> None:
    """Put the finder in front of Python's path finder, once, if `ELEA_PURE` asks for it."""
    if not FORCED or SourceFinder in sys.meta_path:
        return
    # In front of the path finder and not of everything: a coverage tool that wraps the finders
    # behind its own must still see these modules.
    names = [getattr(finder, "__name__", "") for finder in sys.meta_path]
    at = names.index("PathFinder") if "PathFinder" in names else len(names)
    sys.meta_path.insert(at, SourceFinder)


def compiled_modules() -> list[str]:
    """The dotted names of all modules that lie beside an extension module, sorted."""
    from importlib.machinery import EXTENSION_SUFFIXES

    names = []
    for folder, _, files in os.walk(_PACKAGE_DIR):
        package = os.path.relpath(folder, os.path.dirname(_PACKAGE_DIR)).replace(os.sep, ".")
        for name in files:
            stem, _, suffix = name.partition(".")
            if f".{suffix}" in EXTENSION_SUFFIXES and f"{stem}.py" in files:
                names.append(f"{package}.{stem}")
    return sorted(names)


def is_compiled(name: str) -> bool:
    """Whether the module `name` is, or would be, loaded from an extension module.

    It imports neither the module nor its package.
    """
    from importlib.machinery import ExtensionFileLoader, PathFinder  # late: `import elea` is lean

    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__spec__ is not None:
        return isinstance(loaded.__spec__.loader, ExtensionFileLoader)
    if FORCED:
        return False
    folder = os.path.join(os.path.dirname(_PACKAGE_DIR), *name.split(".")[:-1])
    spec = PathFinder.find_spec(name, [folder])
    return spec is not None and isinstance(spec.loader, ExtensionFileLoader)


def build_reason() -> str:
    """Why the build of this package did not compile, as one line, or "" if it does not say."""
    try:
        with open(_REASON, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
