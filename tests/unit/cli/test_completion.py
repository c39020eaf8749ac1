"""What shells complete: the scripts are run by the shells that are installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

import pytest

from elea.cli.main import VERBS, main

LIMIT_S = 120


@cache
def script(shell: str) -> str:
    from contextlib import redirect_stdout
    from io import StringIO

    printed = StringIO()
    with redirect_stdout(printed):
        assert main(["completion", shell]) == 0
    return printed.getvalue()


CASES = [
    (["elea", "que"], ["querier", "queryable"]),
    (["elea", "put", "--pri"], ["--priority"]),
    (["elea", "put", "--priority", "real"], ["real-time"]),
    (["elea", "put", "--cfg", "a:1", "--congestion-control", "dr"], ["drop"]),
    (["elea", "liveliness", "s"], ["sub"]),
    (["elea", "liveliness", "sub", "--his"], ["--history"]),
    (["elea", "completion", "fi"], ["fish"]),
    (["elead", "--config-c"], ["--config-check"]),
]


@pytest.mark.parametrize(("words", "expected"), CASES, ids=lambda one: " ".join(one))
def test_bash(words: list[str], expected: list[str]) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no bash")
    listed = " ".join(words)
    program = (
        f"{script('bash')}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}\n_elea\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ended = subprocess.run(
        [shell, "--norc", "-c", program],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.stderr == ""
    assert set(expected) <= set(ended.stdout.split())
    assert all(one.startswith(words[-1]) for one in ended.stdout.split())


@pytest.mark.parametrize(("words", "expected"), CASES, ids=lambda one: " ".join(one))
def test_zsh(words: list[str], expected: list[str]) -> None:
    shell = shutil.which("zsh")
    if shell is None:
        pytest.skip("no zsh")
    # What its completion system would be given: the last argument names an array.
    program = (
        "compdef() {}\n_files() {}\nshow() { print -rl -- ${(P)1} }\n"
        "_describe() { show ${@[-1]} }\ncompadd() { show ${@[-1]} }\n"
        f"{script('zsh')}\n"
        f"words=({' '.join(words)}); CURRENT={len(words)}; _elea\n"
    )
    ended = subprocess.run(
        [shell, "-f", "-c", program],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.stderr == ""
    assert set(expected) <= {line.partition(":")[0] for line in ended.stdout.splitlines()}


@pytest.mark.parametrize(("words", "expected"), CASES, ids=lambda one: " ".join(one))
def test_fish(words: list[str], expected: list[str]) -> None:
    shell = shutil.which("fish")
    if shell is None:
        pytest.skip("no fish")
    # As input: the script is longer than one argument may be.
    program = f"{script('fish')}\ncomplete -C '{' '.join(words)}'\n"
    ended = subprocess.run(
        [shell, "--no-config"],
        input=program,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.stderr == ""
    assert set(expected) <= {line.partition("\t")[0] for line in ended.stdout.splitlines()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_sound_and_knows_every_verb(shell: str) -> None:
    assert all(verb in script(shell) for verb in VERBS)
    found = shutil.which(shell)
    if found is None:
        return
    ended = subprocess.run(
        [found, "-n"],
        input=script(shell),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "invalid choice: 'csh'" in capsys.readouterr().err
