"""Compile modules in place, when something changed and when a C compiler works.

    python tools/compile_modules.py

Without a working compiler it says so in one line and removes extension modules of earlier builds,
so that the run is really interpreted. With one, failing to compile is an error.
"""

from __future__ import annotations

import ast
import hashlib
import os
import runpy
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
STAMP = ROOT / "build" / "compiled.stamp"


def main() -> int:
    building = runpy.run_path(str(ROOT / "setup.py"))
    sources = [ROOT / name for name in building["compiled_sources"]()]
    if not sources:
        remove_extensions()
        print("==> no modules are listed: nothing to compile")
        return 0
    compiler: str = building["compiler_in_use"]()
    trouble = building["compiler_trouble"](compiler)
    if trouble:
        remove_extensions()
        print(f"==> {trouble}: running interpreted")
        return 0
    digest = build_digest(sources, compiler)
    if is_built(sources, digest):
        print(f"==> {len(sources)} modules are compiled, up to date")
        return 0
    remove_extensions()
    print(f"==> compiling {len(sources)} modules with mypyc (about a minute) ...", flush=True)
    started = time.monotonic()
    if not compile_in_place():
        remove_extensions()
        return 1
    STAMP.write_text(digest + "\n", encoding="ascii")
    print(f"==> compiled in {time.monotonic() - started:.0f} s")
    return 0


def build_digest(sources: Iterable[Path], compiler: str) -> str:
    """What the compiled modules were made from: change any of it and they are stale.

    Constants and types of imported modules are compiled in, so these count as sources too.
    """
    parts = [compiler, version("mypy"), str(sysconfig.get_config_var("EXT_SUFFIX"))]
    digest = hashlib.sha256("\n".join(parts).encode())
    for path in [*sorted(with_imports(sources)), *SOURCE.rglob("*.c"), ROOT / "setup.py"]:
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def with_imports(sources: Iterable[Path]) -> set[Path]:
    """The sources and every module of this package they import, directly or not."""
    seen: set[Path] = set()
    todo = list(sources)
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                stem = SOURCE.joinpath(*name.split("."))
                found = (stem.with_suffix(".py"), stem / "__init__.py")
                todo += [file for file in found if name.startswith("elea.") and file.exists()]
    return seen


def is_built(sources: Iterable[Path], digest: str) -> bool:
    if not STAMP.exists() or STAMP.read_text(encoding="ascii").strip() != digest:
        return False
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    modules = [path.with_suffix("") for path in sources]
    modules += [SOURCE / "elea__mypyc", SOURCE / "elea" / "_buffer"]
    return all(Path(f"{module}{suffix}").exists() for module in modules)


def compile_in_place() -> bool:
    """Run setup.py; its output is shown only if it fails."""
    STAMP.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--force"],
        cwd=ROOT,
        env={**os.environ, "ELEA_COMPILE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout, flush=True)
        print("==> compiling failed although the C compiler works; see above", file=sys.stderr)
    return done.returncode == 0


def remove_extensions() -> None:
    """Delete what earlier builds left, so that Python finds the sources."""
    STAMP.unlink(missing_ok=True)
    for pattern in ("elea__mypyc.*.so", "elea__mypyc.*.pyd", "elea/**/*.so", "elea/**/*.pyd"):
        for path in SOURCE.glob(pattern):
            path.unlink()


if __name__ == "__main__":
    sys.exit(main())
