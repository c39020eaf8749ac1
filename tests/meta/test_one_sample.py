"""docs/topics/one-sample.md: every function exists, and samples pass those that it says."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.meta.tree import ROOT

PAGE = ROOT / "docs" / "topics" / "one-sample.md"
ROWS_COUNT_MAX = 12  # a way with more of them is wrong, not its table
_ROW = re.compile(r"^\| `([\w/]+\.py):([\w.]+)` \|")

# Puts samples and prints, for each step, which functions each thread called: of a sample in steady
# state several times, as its publisher leaves the socket to the I/O thread where that is at work.
PROGRAM = """
import json, os, sys, threading
import elea

calls = {}
is_on = False

def note(frame, event, arg):
    if is_on and event == "call":
        path = frame.f_code.co_filename.rpartition("/src/elea/")[2]
        if path != frame.f_code.co_filename:
            called = f"{path}:{frame.f_code.co_qualname}"
            calls.setdefault(threading.get_ident(), []).append(called)

def opened(mode, listen=(), connect=()):
    return elea.open({
        "mode": mode,
        "listen": {"endpoints": list(listen)},
        "connect": {"endpoints": list(connect)},
        "scouting": {"multicast": {"enabled": False}},
    })

def put(publisher, got):
    got.clear()
    publisher.put(b"x")
    with arrived:
        assert arrived.wait_for(lambda: got, 60)

def take(sample):
    with arrived:
        got.append(sample)
        arrived.notify_all()

arrived, got, steps = threading.Condition(), [], {}
threading.setprofile(note)
for mode in ("peer", "router"):
    far = opened(mode, listen=["tcp/127.0.0.1:0"])
    there = str(far._context.driver.bound()[0])
    reader = far if mode == "peer" else opened("client", connect=[there])
    subscriber = reader.declare_subscriber("a", take)
    near = opened("client", connect=[there])
    near._context.driver.write_at_once()  # puts of a burst would be left to the I/O thread
    publisher = near.declare_publisher("a")
    sys.setprofile(note)
    for step, count in [("new", 3), *[("steady", 1)] * 20]:
        is_on = True
        for _ in range(count):
            put(publisher, got)
        near.info.zid()
        is_on = False
        steps.setdefault(f"{mode} {step}", []).extend(calls.values())
        calls = {}
    sys.setprofile(None)
json.dump(steps, sys.stdout)
sys.stdout.flush()
os._exit(0)
"""
SEEN_IN = {
    "From a publisher to a socket": "peer steady",
    "From a socket to a callback": "peer steady",
    "From a socket to another link": "router steady",
    "A key that is new": "peer new",
}


def _tables() -> dict[str, list[tuple[str, str]]]:
    tables: dict[str, list[tuple[str, str]]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        found = _ROW.match(line)
        if found:
            tables.setdefault(heading, []).append((found[1], found[2]))
    return tables


def _functions(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = (one.name for one in node.body if isinstance(one, ast.FunctionDef))
            found |= {f"{node.name}.{name}" for name in inner}
    return found


@pytest.mark.parametrize("way", _tables())
def test_every_function_exists(way: str) -> None:
    rows = _tables()[way]
    assert len(rows) <= ROWS_COUNT_MAX
    for path, name in rows:
        assert name in _functions(ROOT / "src" / "elea" / path), f"{path}:{name}"


def test_samples_pass_them_in_this_order() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "ELEA_PURE": "1"},
        capture_output=True,
        text=True,
        timeout=300,  # only a hang takes as long
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    steps = json.loads(ended.stdout)
    tables = _tables()
    for way, step in SEEN_IN.items():
        rows = [f"{path}:{name}" for path, name in tables[way]]
        assert any(_passes(rows, calls) for calls in steps[step]), way


def _passes(rows: list[str], calls: list[str]) -> bool:
    """Whether these were called in this order, with others between."""
    left = iter(calls)
    return all(row in left for row in rows)
