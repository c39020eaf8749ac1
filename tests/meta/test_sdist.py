"""A source distribution has what pages and error texts point to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

from tests.meta.tree import ROOT


def test_units_docs_and_the_switch_are_in_it(tmp_path: Path) -> None:
    """The systemd unit and the docs were in neither wheel nor source distribution."""
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path), "sdist"]
    ended = subprocess.run(
        [*command, "-d", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, "ELEA_COMPILE": "0"},
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    [file] = tmp_path.glob("elea-*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        [about] = [name for name in archive.getnames() if name.count("/") == 1 and "PKG-" in name]
        member = archive.extractfile(about)
        assert member is not None
        described = member.read().decode()
    assert {
        "CHANGELOG.md",
        "docs/howto/run-a-router.md",
        "examples/fleet.ipynb",
        "packaging/systemd/elea-router.service",
        "src/elea-as-zenoh.pth",
        "src/elea/web/static/app.css",
        "src/elea/web/static/index.html",
        "src/elea/web/static/js/views/keys.js",
        "src/elea/xrce/schema/messages.xrce",
    } <= names
    assert "src/elea/_buffer.c" in names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]
    # On a package index a path of the repository leads nowhere; in the distribution it does.
    links = re.findall(r"\]\(([^)]+)\)", described)
    assert links
    assert all(one.startswith(("https://", "#")) for one in links), links
    paths = set(re.findall(r"\(`([^`\s]+)`\)", described))
    assert "docs/index.md" in paths
    assert {path.partition("#")[0] for path in paths} <= names


def test_the_metadata_names_people_and_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["authors"]
    # An index shows them as places of this project; that of the protocol is not one.
    assert not [one for one in project.get("urls", {}).values() if "zenoh.io" in one]
