"""Where Spark is, as its programs are told by SPARK_HOME."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from elea.errors import MissingDependencyError
from elea.spark.java import cache_directory, digest_of

_ZIP: Final = "pyspark.zip"


def spark_home() -> Path:
    """The directory of Spark's programs and jars: SPARK_HOME, or the package's.

    Raises:
        MissingDependencyError: PySpark is not installed.
    """
    if chosen := os.environ.get("SPARK_HOME"):  # as PySpark does
        return Path(chosen)
    return _swift(_package())


def _package() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingDependencyError("Spark", "spark")
    return Path(spec.origin).parent


def _swift(package: Path) -> Path:
    """A directory with the same things in it, whose Python processes start sooner.

    Each process of Python that Spark starts finds PySpark in a zip of sources first, and compiles
    them again: 0.6 s of processor time. Here that name leads to the installed modules, which are
    compiled already.
    """
    lib = package / "python" / "lib"
    try:
        facts = (lib / _ZIP).stat()
        made = cache_directory() / f"home-{digest_of(package, facts.st_size, facts.st_mtime_ns)}"
        if not made.exists():
            _make(package, lib, made)
    except OSError:  # another layout, or nowhere to write: slower, and works
        return package
    return made


def _make(package: Path, lib: Path, target: Path) -> None:
    """In one step: another process may be at it too."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="home-making-") as folder:
        draft = Path(folder) / target.name
        (draft / "python" / "lib" / _ZIP).mkdir(parents=True)
        for entry in package.iterdir():
            if entry.name != "python":
                (draft / entry.name).symlink_to(entry)
        for entry in lib.iterdir():
            if entry.name != _ZIP:
                (draft / "python" / "lib" / entry.name).symlink_to(entry)
        (draft / "python" / "lib" / _ZIP / "pyspark").symlink_to(package)
        try:
            os.rename(draft, target)
        except OSError:  # it is there by now, or it cannot be
            if not target.exists():
                raise
