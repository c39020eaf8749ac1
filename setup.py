"""The one build step pyproject.toml cannot state: compile modules with mypyc.

Exactly the files that `tool.elea.compile` of pyproject.toml lists become extension modules.
ELEA_COMPILE in the environment decides:

- unset: compile where a C compiler works; else, or if compiling fails, the build goes on without:
  interpreted Elea does the same, more slowly. One line of the build says why. pip hides it unless
  asked with -v, so the package keeps it, and `elea --version` and `elea doctor` repeat it.
- 1: compile, and fail where that is not possible: a wheel that has to be compiled is.
- 0: do not compile.

ELEA_OPTIMIZE is the level that the C compiler is given, 0 to 3 (default: 3). 0 compiles in half the
time, for builds that are tried and thrown away.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).parent
# Read when Python starts, from beside the packages: with ELEA_AS_ZENOH=1, `zenoh` is Elea.
AT_START = Path("src/elea-as-zenoh.pth")
# In the package where it is not compiled: why. `elea.version` reads it.
REASON = Path("elea/interpreted.txt")
_RELATIVE_LINK = re.compile(r"\[([^]]+)\]\((?!https?:|#)([^)\s]+)\)")
_PROBE = "#include <Python.h>\nint elea_probe(void) { return PY_MAJOR_VERSION; }\n"


def compiled_sources() -> list[str]:
    """The files that are compiled, as sorted paths relative to the repository."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed: list[str] = tomllib.load(file)["tool"]["elea"]["compile"]
    return sorted(listed)


def compiler_in_use() -> str:
    return os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"


def compiler_trouble(compiler: str) -> str | None:
    """Why `compiler` cannot build an extension module, as one line, or None if it can."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.c"
        probe.write_text(_PROBE, encoding="ascii")
        include = sysconfig.get_path("include")
        command = [*shlex.split(compiler), f"-I{include}", "-c", str(probe), "-o", f"{probe}.o"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            works = headers_missing = False
        else:
            works = done.returncode == 0 and Path(f"{probe}.o").exists()
            headers_missing = "Python.h" in done.stderr
    if works:
        return None
    if headers_missing:
        return f"no Python.h for CC={compiler}"
    return f"no working C compiler (CC={compiler})"


def optimization() -> str:
    level = os.environ.get("ELEA_OPTIMIZE", "3")
    if level not in ("0", "1", "2", "3"):
        raise SystemExit(f"ELEA_OPTIMIZE must be 0, 1, 2 or 3, got {level!r}")
    return level


def extensions(sources: Iterable[str]) -> list[Extension]:
    """What mypyc makes of `sources`; SystemExit where it does not accept them."""
    # Late, so that an interpreted build works where mypy does not exist.
    from mypyc.build import mypycify

    # Libraries of extras are missing while pip builds in isolation. What becomes `Any` for want of
    # their types is an error in interpreted modules only; `make lint` checks those with all types.
    lenient = [
        "--follow-imports=silent",
        "--ignore-missing-imports",
        "--disable-error-code=import-untyped",
    ]
    # One group named "elea": the modules call each other natively, inside `elea__mypyc`.
    hot = mypycify([*lenient, *sources], opt_level=optimization(), group_name="elea")
    return [*hot, Extension("elea._buffer", ["src/elea/_buffer.c"])]


class Optional(build_ext):  # type: ignore[misc]  # it has no types
    """Leaves the extension modules out, all of them, where one cannot be compiled."""

    def run(self) -> None:
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            for path in self.get_outputs():
                Path(path).unlink(missing_ok=True)
            self.extensions: list[Extension] = []
            reason = f"the C compiler failed ({failure_of(error)})"
            report_fallback(reason)
            write_reason(self.build_lib, reason)


class WithStart(build_py):  # type: ignore[misc]  # it has no types
    """Builds the packages, and adds what setuptools has no key for: `AT_START` and `REASON`."""

    interpreted_because = ""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / AT_START, self._start())
            write_reason(self.build_lib, self.interpreted_because)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), str(self._start())]

    def _start(self) -> Path:
        return Path(self.build_lib) / AT_START.name


def described_by(readme: str) -> str:
    """The README for a package index, where paths of the repository lead nowhere: they are text."""
    flat = _RELATIVE_LINK.sub(r"\1 (`\2`)", readme)
    return f"{flat.rstrip()}\n\nPaths such as `docs/index.md` are in the source distribution.\n"


def failure_of(error: Exception) -> str:
    """What failed, without the hundred arguments of a compiler."""
    cause = error.args[0] if error.args else error
    if isinstance(cause, subprocess.CalledProcessError):
        return f"{cause.cmd[0]} ended with exit code {cause.returncode}; pip install -v shows more"
    return str(error)


def report_fallback(reason: str) -> None:
    print(f"elea: built interpreted: {reason}; ELEA_COMPILE=1 makes this an error", file=sys.stderr)


def write_reason(build_lib: str, reason: str) -> None:
    """Keep in the built package why it is not compiled; "" where it is."""
    path = Path(build_lib) / REASON
    path.unlink(missing_ok=True)  # of an earlier build in the same folder
    if reason:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{' '.join(reason.split())}\n", encoding="utf-8")


def main() -> None:
    wanted = os.environ.get("ELEA_COMPILE", "")
    if wanted not in ("", "0", "1"):
        raise SystemExit(f"ELEA_COMPILE must be 0, 1 or unset, got {wanted!r}")
    optimization()  # a wrong level ends here, not as a failure of mypyc
    sources = [] if wanted == "0" or not set(sys.argv) & _BUILDING else compiled_sources()
    commands: dict[str, type[Command]] = {"build_py": WithStart}
    described = {
        "long_description": described_by((ROOT / "README.md").read_text(encoding="utf-8")),
        "long_description_content_type": "text/markdown",
    }
    if wanted == "1":
        setup(ext_modules=extensions(sources) if sources else [], cmdclass=commands, **described)
        return
    found: list[Extension] = []
    reason = "ELEA_COMPILE=0" if wanted == "0" else ""
    if sources and not (reason := compiler_trouble(compiler_in_use()) or ""):
        try:
            found = extensions(sources)
        except (ImportError, SystemExit) as error:  # mypyc ends the process when types are wrong
            reason = f"mypyc failed ({error})"
    if sources and reason:
        report_fallback(reason)
    WithStart.interpreted_because = reason
    if found:
        commands["build_ext"] = Optional
    setup(ext_modules=found, cmdclass=commands, **described)


# Commands of setuptools that make something to run; a list of requirements needs no compiler.
_BUILDING = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

if __name__ == "__main__":
    main()
