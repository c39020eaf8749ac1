"""What pip makes of a clone: built in isolation from the source distribution, as for a user.

A compiled wheel where a C compiler works, a pure one and one line about it where none does. Nothing
of the development environment is visible to these builds, so that a requirement that only this
environment fulfils is found here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest
from tests.meta.tree import ROOT

_HAS_COMPILER = bool(shutil.which("cc") or shutil.which("gcc"))
_TAG = f"cp3{sys.version_info.minor}"
_OTHER_PYTHONS = [f"python3.{minor}" for minor in (11, 12, 13, 14)]

# One sample from session to session over loopback: the build moves data, it does not only import.
_PROGRAM = """
import queue, sys, tempfile
import elea, elea.version
assert elea.version.COMPILED is (sys.argv[1] == "compiled")
received = queue.Queue()
with tempfile.TemporaryDirectory() as folder:
    endpoint = f"unixsock-stream/{folder}/first"
    with elea.open({"mode": "peer", "listen": {"endpoints": [endpoint]}}) as here:
        with elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}) as there:
            subscriber = here.declare_subscriber("first/**", received.put)
            there.put("first/hour", "hello")
            print(received.get(timeout=60).payload.to_string())
"""


def _environment(**changes: str) -> dict[str, str]:
    """This process's environment less what would choose a build or reach our own packages."""
    hidden = ("PYTHONPATH", "CC", "ELEA_COMPILE", "ELEA_OPTIMIZE", "ELEA_PURE", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "ELEA_NO_SCOUTING": "1", **changes}


def _run(*command: str | Path, **changes: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=_environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this tree."""
    folder = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    names = listed.stdout.decode().split("\0")[:-1] if listed.returncode == 0 else []
    if not names:
        pytest.skip("the tree is not a git checkout; its files cannot be listed")
    clone = folder / "clone"
    for name in names:
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, clone / name)
    program = f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=clone,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [archive] = folder.glob("*.tar.gz")
    return archive


def _wheel(source: Path, folder: Path, python: str = sys.executable, **changes: str) -> Path:
    """The wheel that pip builds in isolation; what it printed is kept beside it."""
    printed = _run(
        *(python, "-m", "pip", "wheel", "--no-deps", "--verbose", "--wheel-dir", folder, source),
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        **changes,
    )
    (folder / "printed").write_text(printed, encoding="utf-8")
    [wheel] = folder.glob("*.whl")
    return wheel


def _installed(wheel: Path, folder: Path, python: str = sys.executable) -> Path:
    """The `bin` of an empty environment with this wheel alone."""
    if python == sys.executable:
        venv.create(folder, symlinks=True)
    else:
        _run(python, "-m", "venv", "--without-pip", folder)
    target = folder / "bin" / "python"
    _run(sys.executable, "-m", "pip", "--python", target, "install", "--quiet", "--no-deps", wheel)
    return folder / "bin"


def test_the_source_distribution_has_what_a_build_needs(source: Path) -> None:
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py", "src/elea/_buffer.c"} <= names


@pytest.mark.packages
@pytest.mark.skipif(not _HAS_COMPILER, reason="no C compiler here")
def test_pip_compiles_where_a_compiler_works(source: Path, tmp_path: Path) -> None:
    wheel = _wheel(source, tmp_path, ELEA_OPTIMIZE="0")  # half the time, the same modules
    assert f"-{_TAG}-{_TAG}-" in wheel.name, (tmp_path / "printed").read_text(encoding="utf-8")
    programs = _installed(wheel, tmp_path / "env")
    assert "compiled: yes" in _run(programs / "elea", "--version")
    assert _run(programs / "python", "-c", _PROGRAM, "compiled") == "hello\n"


@pytest.mark.packages
def test_pip_says_in_one_line_that_there_is_no_compiler(source: Path, tmp_path: Path) -> None:
    wheel = _wheel(source, tmp_path, CC="no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    printed = (tmp_path / "printed").read_text(encoding="utf-8")
    [line] = [line for line in printed.splitlines() if "elea: built interpreted" in line]
    assert "no-such-compiler" in line
    assert "ELEA_COMPILE=1" in line
    programs = _installed(wheel, tmp_path / "env")
    # pip shows that line only if asked: the package tells it, too.
    version = _run(programs / "elea", "--version")
    assert "compiled: no (when it was installed: no working C compiler (CC=no-such" in version
    assert "ELEA_COMPILE=1 pip install --force-reinstall --no-cache-dir" in version
    assert _run(programs / "python", "-c", _PROGRAM, "interpreted") == "hello\n"


@pytest.mark.long
@pytest.mark.packages
@pytest.mark.skipif(not _HAS_COMPILER, reason="no C compiler here")
@pytest.mark.parametrize("python", _OTHER_PYTHONS)
def test_every_python_that_is_here_gets_a_compiled_wheel(
    python: str, source: Path, tmp_path: Path
) -> None:
    if shutil.which(python) is None or not _starts(python):
        pytest.skip(f"{python} is not installed")
    wheel = _wheel(source, tmp_path, python)
    tag = "cp" + python.removeprefix("python").replace(".", "")
    assert f"-{tag}-{tag}-" in wheel.name
    programs = _installed(wheel, tmp_path / "env", python)
    assert _run(programs / "python", "-c", _PROGRAM, "compiled") == "hello\n"


def _starts(python: str) -> bool:
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0
