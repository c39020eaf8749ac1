"""Environments as a new user has them: a wheel of this tree, and what some extras bring.

Nothing is downloaded: what an extra needs is linked from the environment of these tests, and what
it does not need is not there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.meta.tree import ROOT

_BUILT_OF = ("LICENSE", "README.md", "pyproject.toml", "setup.py")
_SCRIPT = "#!{python}\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n"


class Environments:
    """Environments below a directory that all processes of a test run share."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def with_extras(self, extras: str) -> Path:
        """The directory of an environment with Elea and these extras, separated by commas."""
        path = self._directory / f"env-{extras or 'none'}"
        with self._alone():
            if not path.exists():
                made = path.with_suffix(".partial")
                shutil.rmtree(made, ignore_errors=True)
                self._make(made, path, extras)
                made.rename(path)
        return path

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make(self, made: Path, path: Path, extras: str) -> None:
        installed = self._wheel()
        venv.create(made, with_pip=False, symlinks=True)
        [site] = made.glob("lib/python*/site-packages")
        for entry in installed.iterdir():
            (site / entry.name).symlink_to(entry)
        _link([distribution(name) for name in sorted(requirements(installed, extras))], site)
        for script, target in _scripts(installed).items():
            module, _, function = target.partition(":")
            file = made / "bin" / script
            python = path / "bin" / "python"
            file.write_text(_SCRIPT.format(python=python, module=module, name=function))
            file.chmod(0o755)

    def _wheel(self) -> Path:
        """The files of a wheel of this tree, not compiled: that is another test's."""
        unpacked = self._directory / "wheel"
        if not unpacked.exists():
            source, built = self._directory / "source", self._directory / "built"
            shutil.rmtree(source, ignore_errors=True)
            shutil.copytree(
                ROOT / "src",
                source / "src",
                ignore=shutil.ignore_patterns("*.so", "*.pyc", "__pycache__", "*.egg-info"),
            )
            for name in _BUILT_OF:
                shutil.copy(ROOT / name, source)
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "wheel", str(source), "--wheel-dir", str(built)),
                    *("--no-deps", "--no-build-isolation", "--quiet"),
                    "--disable-pip-version-check",
                ],
                check=True,
                env={**os.environ, "ELEA_COMPILE": "0"},
            )
            [wheel] = built.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked.with_suffix(".partial"))
            unpacked.with_suffix(".partial").rename(unpacked)
        return unpacked


def requirements(installed: Path, extras: str) -> set[str]:
    """What these extras of the wheel bring, and what that needs in turn; canonical names."""
    [own] = Distribution.discover(name="elea", path=[str(installed)])
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    pending = [(own, extra) for extra in ("", *extras.split(","))]
    while pending:
        needing, extra = pending.pop()
        for text in needing.requires or ():
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(requirement.name)
            if name != "elea":
                found.add(name)
            for further in ("", *requirement.extras):
                if (name, further) not in seen:
                    seen.add((name, further))
                    pending.append((own if name == "elea" else _present(name, text), further))
    return found


def _present(name: str, text: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise LookupError(f"{text} is needed and not installed here: run `make setup`") from None


def _link(packages: list[Distribution], site: Path) -> None:
    """Put packages into an environment, as links to the files and folders that they bring."""
    owners: dict[str, set[str]] = {}
    for package in packages:
        for file in package.files or ():
            owners.setdefault(file.parts[0], set()).add(package.name)
    for package in packages:
        for file in package.files or ():
            if file.parts[0] in ("..", "__pycache__"):
                continue
            depth = 1 if len(owners[file.parts[0]]) == 1 else 2  # `google` is of several
            target = site.joinpath(*file.parts[:depth])
            if not target.is_symlink():
                target.parent.mkdir(exist_ok=True)
                target.symlink_to(str(package.locate_file(Path(*file.parts[:depth]))))


def _scripts(installed: Path) -> dict[str, str]:
    [own] = Distribution.discover(name="elea", path=[str(installed)])
    return {one.name: one.value for one in own.entry_points if one.group == "console_scripts"}
