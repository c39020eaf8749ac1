"""The one build step pyproject.toml cannot state: compile the hot modules with mypyc.

A plain build gives a pure wheel. With ELEA_COMPILE=1 in the environment exactly the files matching
`tool.elea.compile` of pyproject.toml become extension modules; then failing to compile fails the
build, because a wheel that says it is compiled must be.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).parent


def hot_sources() -> list[str]:
    """The files that are compiled, as sorted paths relative to the repository."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        pattern: str = tomllib.load(file)["tool"]["elea"]["compile"]
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


def main() -> None:
    sources = hot_sources() if os.environ.get("ELEA_COMPILE") == "1" else []
    if not sources:
        setup()
        return
    # Late, so that a pure build works where mypy does not exist.
    from mypyc.build import mypycify

    # One group named "elea": the modules call each other natively, inside `elea__mypyc`.
    hot = mypycify(sources, opt_level="3", group_name="elea")
    setup(ext_modules=[*hot, Extension("elea._buffer", ["src/elea/_buffer.c"])])


if __name__ == "__main__":
    main()
