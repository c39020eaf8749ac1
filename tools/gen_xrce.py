"""Write what is made from the message definitions of XRCE: the codec and the fuzz dictionary.

    python tools/gen_xrce.py

`tests/meta/test_gen_xrce.py` fails when a file is older than the definitions.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from elea.xrce.dsl.bounds import MESSAGE_BOUNDS
from elea.xrce.dsl.dictionary import dictionary, to_text
from elea.xrce.dsl.emit import emit
from elea.xrce.schema.load import schema

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = "src/elea/xrce"


def main() -> int:
    for name, text in files().items():
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"==> {name}")
    return 0


def files() -> dict[str, str]:
    """Path to content, for every generated file."""
    modules = emit(
        schema(), MESSAGE_BOUNDS, package="elea.xrce", source=f"{PACKAGE}/schema/messages.xrce"
    )
    made = {f"{PACKAGE}/{name}": formatted(text) for name, text in modules.items()}
    return {**made, "fuzz/seeds/xrce.dict": to_text(dictionary(schema()))}


def formatted(text: str) -> str:
    """Python as the linter wants it: imports in order, lines of the right length."""
    for arguments in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", f"{PACKAGE}/x.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    sys.exit(main())
