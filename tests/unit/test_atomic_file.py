"""A file is replaced whole or not at all."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import elea
from elea.atomic_file import replace_text, replacing, sync


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_a_file_is_made_and_replaced(tmp_path: Path, durable: bool, shared: bool) -> None:
    file = tmp_path / "state.json"
    for text in ("old", "new, and longer"):
        replace_text(file, text, durable=durable, shared=shared)
        assert file.read_text() == text
        assert names(tmp_path) == ["state.json"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    replace_text(file, "old")

    def interrupted() -> None:
        with replacing(file) as partial:
            partial.write_text("half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert file.read_text() == "old"
    assert names(tmp_path) == ["state.json"]


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom elea.atomic_file import replacing\n"
        "with replacing(Path(sys.argv[1])) as partial:\n"
        "    partial.write_text('half of')\n    os._exit(9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, str(file)], env=environment, check=False)
    assert done.returncode == 9
    assert names(tmp_path) == [".state.json.partial"]
    replace_text(file, "whole")
    assert file.read_text() == "whole"
    assert names(tmp_path) == ["state.json"]


def test_a_private_file_is_private_before_it_has_content(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with replacing(file, mode=0o600) as partial:
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        partial.write_text("pin")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == "pin"


def test_a_program_may_be_run(tmp_path: Path) -> None:
    file = tmp_path / "program"
    replace_text(file, "#!/bin/sh\n", mode=0o700)
    assert stat.S_IMODE(file.stat().st_mode) == 0o700


def test_those_that_share_a_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "cache"
    texts = [str(number) * 10_000 for number in range(8)]

    def write(text: str) -> None:
        for _ in range(20):
            replace_text(file, text, durable=False, shared=True)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_text() in texts
    assert names(tmp_path) == ["cache"]


def test_content_and_names_are_synced_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real_fsync = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        real_fsync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    replace_text(tmp_path / "state", "x")
    assert synced == [".state.partial", tmp_path.name]
    sync(tmp_path / "state")
    assert synced[2:] == ["state"]


# Who renames files without `replacing`, and why.
RENAMES = {
    "atomic_file.py": "it is what all others use",
    "crash.py": "a point that was passed is marked for the test that waits there",
    "spark/home.py": "a directory takes its place, unless another process was first",
    "spark/jvm.py": "Java writes the file, and others beside it, in a directory that goes",
    "spark/scratch.py": "a lock is seen when it is held",
    "store/backends/files.py": "below a descriptor, so that no link leads out of the root",
    "store/exchange/transfer.py": "a directory takes its place",
    "store/log/disk.py": "logs have a disk of their own, which tests make fail",
    "store/log/pack.py": "on that disk",
    "store/log/recovery.py": "on that disk",
    "store/tables/layout.py": "what a task wrote row by row, and synced, gets its name",
    "store/tables/parquet.py": "what was staged gets its name as part of a commit",
}


def test_files_are_replaced_in_one_place() -> None:
    """Write aside, sync, rename was written nine times, three of them without the sync."""
    source = Path(elea.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of_os = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
                is_path = len(node.args) == 1 and not node.keywords
                if node.func.attr == "rename" or (
                    node.func.attr == "replace" and (of_os or is_path)
                ):
                    found.add(path.relative_to(source).as_posix())
    assert found <= {*RENAMES, "session/dispatch.py"}  # there it is a method of ours
