"""What was synchronised is there after kill -9, whole, and nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.test_router import process, ready_line
from tests.unit.daemon.rig import ANYWHERE, ask
from tests.unit.store.volumes import opened
from tests.unit.store.writer import KEYS_COUNT, payload_of

import elea
from elea.store.backend import Reports, Stored
from elea.store.storage import Storage
from elea.store.testing import at


def killed(kind: str, root: Path, lines_count: int) -> int:
    """Run the writer, and kill it in the middle of its work; what it said last."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.store.writer", kind, str(root)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
    )
    assert writer.stdout is not None
    try:
        said = [writer.stdout.readline() for _ in range(lines_count)]
    finally:
        writer.kill()
        rest, _ = writer.communicate()
    return int([*said, *rest.splitlines()][-1])


def shown(storage: Storage) -> dict[str, tuple[int, bytes]]:
    found = {}
    for key in storage.keys("**"):
        [value] = storage.values(key, None, 0)
        found[key] = (value.timestamp.time.as_secs() - at(0).time.as_secs(), value.payload)
    return found


@pytest.mark.parametrize("kind", ["fs", "sqlite"])
def test_what_was_said_to_be_safe_is(kind: str, tmp_path: Path) -> None:
    for lines_count in (1, 5, 12):
        safe = killed(kind, tmp_path, lines_count)
        storage = Storage(backend := opened(kind, tmp_path))
        assert not isinstance(backend, Reports) or backend.problems() == []
        found = shown(storage)
        for slot in range(KEYS_COUNT):
            key = f"k/{slot}"
            numbers = range(slot, safe, KEYS_COUNT)
            if not numbers:
                continue
            last = numbers[-1]
            if key in found:
                number, payload = found[key]
                assert number >= last  # that one, or one that was not said to be safe yet
                assert payload == payload_of(number)
                assert number % 11 != 10
            elif last % 11 != 10:
                # Gone, although it was put: a deletion came after it and was not said to be safe.
                assert not storage.put(key, Stored(payload_of(last), at(last)))
        storage.close()


@pytest.mark.parametrize("volume", ["fs", "sqlite"])
def test_what_a_router_answered_survives_it(volume: str, tmp_path: Path) -> None:
    kept = {
        "volumes": {volume: {"root": str(tmp_path / "kept")}},
        "storages": {"demo": {"key_expr": "demo/**", "volume": volume}},
    }
    arguments = ("--listen", ANYWHERE, "--cfg", f"plugins/storage_manager:{json.dumps(kept)}")
    expected: dict[str, bytes] = {}
    for turn in range(3):
        with process(tmp_path, *arguments) as router:
            endpoint = ready_line(router).split()[-1]
            with elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}) as client:
                assert ask(client, "demo/**") == expected
                for number in range(20):
                    client.put(f"demo/{number % 8}", f"{turn} {number}")
                client.delete(f"demo/{turn}")
                expected = ask(client, "demo/**")
                assert len(expected) == 7
                router.kill()
    assert "Traceback" not in (tmp_path / "log").read_text()
