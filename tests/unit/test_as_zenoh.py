"""`elea.as_zenoh` puts Elea in the place of `zenoh`, with the wheel of eclipse-zenoh beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.meta.tree import ROOT, SOURCE

LIMIT_S = 120  # only a hang takes as long
# A package as others write them: it knows `zenoh` alone, and asks for it in every way there is.
PACKAGE = """
import zenoh
import zenoh.ext
from zenoh import Config, Session, ext, handlers, shm
from zenoh.ext import z_deserialize, z_serialize
from zenoh.handlers import FifoChannel, RingChannel
import zenoh.zenoh
import importlib

def modules():
    found = [zenoh, zenoh.ext, zenoh.handlers, zenoh.shm, importlib.import_module("zenoh.shm")]
    return sorted({one.__name__ for one in found})

def session():
    config = Config()
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("listen/endpoints", "[]")
    return zenoh.open(config)

def talk():
    with session() as opened:
        subscriber = opened.declare_subscriber("a/*", RingChannel(8))
        opened.put("a/b", z_serialize(7))
        return type(opened).__module__, z_deserialize(int, subscriber.recv().payload)
"""
MODULES = ["elea", "elea.ext", "elea.handlers", "elea.shm"]
EXPECTED = f"{MODULES} ('elea.session.session', 7)"
SHOW = "import robot; print(robot.modules(), robot.talk())"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "robot.py").write_text(PACKAGE, encoding="utf-8")
    (tmp_path / "prog.py").write_text(
        f"import sys\n{SHOW}\nprint(sys.argv[1:], __name__)\n", encoding="utf-8"
    )
    return tmp_path


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(SOURCE)])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def test_one_import_is_enough_for_packages_of_others(folder: Path) -> None:
    ended = python(folder, "-c", f"import elea.as_zenoh; {SHOW}")
    assert (ended.stdout.strip(), ended.stderr) == (EXPECTED, "")


def test_what_elea_is_stays_as_it_was(folder: Path) -> None:
    """Modules under two names are one module, which keeps its own name, and pickles."""
    ended = python(
        folder,
        "-c",
        "import elea.as_zenoh, elea, zenoh.ext, elea.ext, sys, importlib\n"
        "import elea.as_zenoh as again\nagain.install()\n"
        "assert zenoh is elea and zenoh.ext is elea.ext and sys.modules['zenoh.ext'] is elea.ext\n"
        "assert (elea.__spec__.name, elea.ext.__spec__.name) == ('elea', 'elea.ext')\n"
        "import zenoh.zenoh; assert elea.__spec__.name == 'elea'\n"
        "assert zenoh.KeyExpr('a') == elea.KeyExpr('a') and zenoh.Session is elea.Session\n",
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_module_that_zenoh_does_not_have_is_no_second_copy_of_ours(folder: Path) -> None:
    ended = python(folder, "-c", "import elea.as_zenoh\nimport zenoh.config")
    assert ended.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: no module named 'zenoh.config': elea.as_zenoh is in use, which has"
        " zenoh.ext, zenoh.handlers, zenoh.shm, zenoh.zenoh"
    )


def test_too_late_is_an_error_that_says_what_to_do(folder: Path) -> None:
    (folder / "zenoh.py").write_text("", encoding="utf-8")  # whichever one it is
    ended = python(folder, "-c", "import zenoh\nimport elea.as_zenoh")
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: zenoh is imported already, from ")
    assert "set ELEA_AS_ZENOH=1 in the environment" in last


def test_with_eclipse_zenoh_imported_it_is_too_late(folder: Path) -> None:
    pytest.importorskip("zenoh")
    ended = python(folder, "-c", "import zenoh\nimport elea.as_zenoh")
    assert "zenoh is imported already, from" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("how", [("prog.py",), ("-m", "prog")], ids=" ".join)
def test_a_program_that_is_not_changed(folder: Path, how: tuple[str, ...]) -> None:
    ended = python(folder, "-m", "elea.as_zenoh", *how, "a", "-b")
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [EXPECTED, "['a', '-b'] __main__"]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ([], "usage: python -m elea.as_zenoh"),
        (["-m"], "usage: python -m elea.as_zenoh"),
        (["nofile.py"], "elea.as_zenoh: nofile.py: no such file; usage: "),
        (["-m", "nomodule"], "elea.as_zenoh: no module named nomodule; usage: "),
        (["-m", "nopackage.part"], "elea.as_zenoh: no module named nopackage.part; usage: "),
    ],
)
def test_without_a_program_it_says_how(folder: Path, how: list[str], told: str) -> None:
    """A file that does not exist was a traceback."""
    ended = python(folder, "-m", "elea.as_zenoh", *how)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(told)


def test_help_is_no_mistake(folder: Path) -> None:
    ended = python(folder, "-m", "elea.as_zenoh", "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("usage: python -m elea.as_zenoh")


@pytest.mark.parametrize(("value", "replaced"), [("1", True), ("0", False), ("", False)])
def test_the_switch_is_read_when_python_starts(folder: Path, value: str, replaced: bool) -> None:
    """As `site` does with the file where it is installed; `addsitedir` reads it in the same way."""
    start = folder / "site"
    start.mkdir()
    name = "elea-as-zenoh.pth"
    (start / name).write_bytes((SOURCE / name).read_bytes())
    program = (
        f"import site, sys; site.addsitedir({str(start)!r}); print('elea' in sys.modules,"
        " getattr(sys.modules.get('zenoh'), '__name__', None))"
    )
    ended = python(folder, "-c", program, ELEA_AS_ZENOH=value)
    assert ended.stderr == ""
    assert ended.stdout.strip() == ("True elea" if replaced else "False None")


def test_a_build_has_the_file_that_reads_the_switch(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path / "base")]
    ended = subprocess.run(
        [*command, "build_py", "--build-lib", str(tmp_path / "lib")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=ROOT,
        env={**os.environ, "ELEA_COMPILE": "0"},
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "lib" / "elea-as-zenoh.pth").read_bytes().startswith(b"import os; ")
