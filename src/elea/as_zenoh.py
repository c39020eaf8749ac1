"""Put Elea in the place of `zenoh`, for this whole process.

`import elea.as_zenoh`, before anything imports `zenoh`, and every later `import zenoh`,
`from zenoh.ext import ...` or `import zenoh.handlers` gives Elea: in the program, and in packages
of others. Programs that cannot be changed are run with `ELEA_AS_ZENOH=1` in the environment (a
`.pth` file of the installed package reads it when Python starts), or with
`python -m elea.as_zenoh PROGRAM [ARGUMENT ...]`.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final, NoReturn

NAME: Final = "zenoh"
VARIABLE: Final = "ELEA_AS_ZENOH"  # read by src/elea-as-zenoh.pth, too

# What the wheel of eclipse-zenoh has, and where it is here. `zenoh.zenoh` is its extension module.
_PARTS: Final = {
    "zenoh.ext": "elea.ext",
    "zenoh.handlers": "elea.handlers",
    "zenoh.shm": "elea.shm",
    "zenoh.zenoh": "elea",
}
_WRONG_USAGE: Final = 2  # as the commands of Elea, and Python itself
_USAGE: Final = "usage: python -m elea.as_zenoh (PROGRAM | -m MODULE) [ARGUMENT ...]"


class _Parts:
    """Finds the modules below `zenoh`: those of Elea, each loaded when it is first imported.

    It also keeps the path of the package from being searched: `zenoh.config` would be a second
    copy of `elea.config`.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of Elea that stands for a name below `zenoh`; None for other names.

        Raises:
            ModuleNotFoundError: eclipse-zenoh has no such module, either.
        """
        if not fullname.startswith(f"{NAME}."):
            return None
        if fullname not in _PARTS:
            known = ", ".join(_PARTS)
            raise ModuleNotFoundError(
                f"no module named {fullname!r}: elea.as_zenoh is in use, which has {known}",
                name=fullname,
            )
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of Elea, loaded under its own name."""
        module = import_module(_PARTS[spec.name])
        spec.loader_state = module.__spec__  # which the import system replaces by `spec`
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: the module is loaded. It keeps the spec of its own name."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state


def install() -> None:
    """Let `zenoh` and its parts mean Elea from now on. Legal twice.

    Raises:
        ImportError: another `zenoh` is imported already; objects of both would meet.
    """
    elea = import_module("elea")
    present = sys.modules.get(NAME)
    if present is elea:
        return
    if present is not None:
        raise ImportError(
            f"zenoh is imported already, from {getattr(present, '__file__', None)}: import"
            f" elea.as_zenoh before the first import of zenoh, or set {VARIABLE}=1 in the"
            " environment before Python starts",
            name=NAME,
        )
    sys.modules[NAME] = elea
    sys.meta_path.insert(0, _Parts())


def run(arguments: Sequence[str]) -> None:
    """Run a program, or with `-m` a module, as `python` would; its child processes likewise."""
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(f"{_USAGE}\n")
        return
    if not arguments or arguments == ["-m"]:
        _refuse(_USAGE)
    os.environ[VARIABLE] = "1"
    if arguments[0] == "-m":
        _check_module(arguments[1])
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if not os.path.exists(arguments[0]):
        _refuse(f"elea.as_zenoh: {arguments[0]}: no such file; {_USAGE}")
    sys.argv = list(arguments)
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def _check_module(name: str) -> None:
    """Refuse a module that is not there; one that fails while it is imported shows why itself."""
    sys.path[0] = ""
    try:
        found = find_spec(name)
    except ModuleNotFoundError:  # a package before the last dot
        found = None
    if found is None:
        _refuse(f"elea.as_zenoh: no module named {name}; {_USAGE}")


def _refuse(text: str) -> NoReturn:
    sys.stderr.write(f"{text}\n")
    sys.exit(_WRONG_USAGE)


install()
if __name__ == "__main__":
    run(sys.argv[1:])
