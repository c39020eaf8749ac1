"""Spark Connect: a program that is only a client, and a Spark that has Elea."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.spark.listeners import foreign_listeners
from tests.unit.spark.logs import fill, log_at

CLIENT = Path(__file__).with_name("connect_client.py")


def test_a_client_with_the_token_reads_streams_and_archives(remote: str, tmp_path: Path) -> None:
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 80)
    done = subprocess.run(
        [sys.executable, CLIENT, tmp_path / "log", tmp_path],
        env=os.environ | {"SPARK_REMOTE": remote},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "told.json").read_text())
    assert "No authentication token provided" in told.pop("stranger")
    assert told == {
        "kind": "pyspark.sql.connect.session",
        "batch": 80,
        "stream": 80,
        "archive": 10,
        "functions": 80,
        "join": 20,
    }


def test_nothing_listens_beyond_this_host(remote: str) -> None:
    """The session of these tests, its workers, and the port of its clients."""
    assert foreign_listeners() == []
    port = int(remote.split(":")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=20):
        pass
