"""The build step: no compiler is said in one line, a stale build is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import setup
from setuptools import Distribution, Extension
from tools import compile_modules


@pytest.mark.parametrize("compiler", ["/bin/false", "/nonexistent/cc"])
def test_a_compiler_that_does_not_work_is_named(compiler: str) -> None:
    assert setup.compiler_trouble(compiler) == f"no working C compiler (CC={compiler})"


def test_missing_headers_are_told_apart_from_a_missing_compiler(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'fatal error: Python.h: No such file' >&2\nexit 1\n")
    compiler.chmod(0o755)
    trouble = setup.compiler_trouble(str(compiler))
    assert trouble is not None
    assert trouble.startswith(f"no Python.h for CC={compiler}")


def test_a_compiler_that_fails_midway_leaves_nothing_compiled_and_its_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.c", tmp_path / "bad.c"
    good.write_text("#include <Python.h>\nPyObject *PyInit_good(void) { return NULL; }\n")
    bad.write_text("#error no\n")
    modules = [Extension("elea.good", [str(good)]), Extension("elea.bad", [str(bad)])]
    command = setup.Optional(Distribution({"name": "elea", "ext_modules": modules}))
    built = tmp_path / "built"
    command.build_lib, command.build_temp = str(built), str(tmp_path / "temporary")
    command.ensure_finalized()
    command.run()
    assert list(tmp_path.rglob("good*.o")) != []  # that one was compiled
    assert [path.name for path in built.rglob("*") if path.is_file()] == ["interpreted.txt"]
    [reason] = (built / setup.REASON).read_text().splitlines()
    assert re.fullmatch(r"the C compiler failed \(\S+ ended with exit code 1; .{1,60}\)", reason)
    assert f"elea: built interpreted: {reason}; ELEA_COMPILE=1" in capfd.readouterr().err
    assert command.get_outputs() == []


def test_a_change_in_an_imported_module_makes_the_build_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants of imported modules are compiled in, so an old build would keep the old value."""
    source = tmp_path / "src"
    (source / "elea").mkdir(parents=True)
    (tmp_path / "setup.py").write_text("")
    (source / "elea" / "limits.py").write_text("BOUND = 1\n")
    (source / "elea" / "other.py").write_text("")
    hot = source / "elea" / "fields.py"
    hot.write_text("from elea.limits import BOUND\n")
    monkeypatch.setattr(compile_modules, "ROOT", tmp_path)
    monkeypatch.setattr(compile_modules, "SOURCE", source)

    first = compile_modules.build_digest([hot], "cc")
    (source / "elea" / "other.py").write_text("UNRELATED = 1\n")
    assert compile_modules.build_digest([hot], "cc") == first
    assert compile_modules.build_digest([hot], "clang") != first
    (source / "elea" / "limits.py").write_text("BOUND = 2\n")
    assert compile_modules.build_digest([hot], "cc") != first
