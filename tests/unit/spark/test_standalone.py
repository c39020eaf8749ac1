"""A cluster of programs that only look like Spark's; the real one is in tests/spark."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.spark.test_java import a_java

from elea.cli.main import main
from elea.errors import EleaError, InvalidValueError
from elea.spark import jvm
from elea.spark.java import find
from elea.spark.standalone import WORKERS_MAX, Standalone

# Tells of its workers when their logs are there, and stays.
SCRIPT = """\
#!/bin/sh
case "$1" in
  *.Master)
    echo "12:00:00 INFO Master: Starting Spark master at spark://127.0.0.1:4711"
    until [ -e worker-0.log ] && [ -e worker-1.log ]; do sleep 0.01; done
    echo "12:00:01 INFO Master: Registering worker 127.0.0.1:1 with 1 cores"
    echo "12:00:01 INFO Master: Registering worker 127.0.0.1:2 with 1 cores" ;;
esac
echo "arguments: $@"
echo "path: $PYTHONPATH"
sleep 600 &
wait
"""


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", "25.0.2")))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(spark_at(tmp_path / "spark", SCRIPT)))


def spark_at(home: Path, script: str) -> Path:
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "spark-class"
    command.write_text(script)
    command.chmod(0o755)
    return home


def members(group: int) -> int:
    """Processes of a group that are not yet gone."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found += int(fields[2]) == group and fields[0] != "Z"
    return found


def is_gone(group: int) -> bool:
    limit_s = time.monotonic() + 20
    while members(group):
        if time.monotonic() > limit_s:
            return False
        time.sleep(0.01)
    return True


def command_line_of(pid: int) -> str:
    """Return the arguments of a process; Linux shows none while it executes its program."""
    limit_s = time.monotonic() + 20
    while not (command_line := Path(f"/proc/{pid}/cmdline").read_text()):
        assert time.monotonic() < limit_s, f"process {pid} has no arguments"
        time.sleep(0.01)
    return command_line


def test_a_cluster_starts_and_leaves_nothing(tmp_path: Path) -> None:
    with Standalone(tmp_path / "here") as cluster:
        assert cluster.master == "spark://127.0.0.1:4711"
        assert cluster.failed() is None
        groups = [process.pid for process in cluster._processes()]
        assert len(groups) == 3
        assert all(members(group) for group in groups)
        settings = tmp_path / "here" / "conf" / "spark-defaults.conf"
        assert "spark.master spark://127.0.0.1:4711" in settings.read_text()
        assert "-XX:+UseParallelGC" in settings.read_text()
        assert "spark.authenticate.secret " in settings.read_text()
        assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert all(is_gone(group) for group in groups)
    assert (tmp_path / "here" / "master.log").exists()


def test_the_secret_is_no_argument(tmp_path: Path) -> None:
    with Standalone(tmp_path / "here", memory="2g", port=7) as cluster:
        secret = (cluster.directory / "conf" / "secret").read_text()
        for process in cluster._processes():
            command_line = command_line_of(process.pid)
            assert secret not in command_line
            arguments = command_line.split("\0")
            assert arguments[arguments.index("--host") + 1] == "127.0.0.1"


def test_a_worker_is_killed_with_all_that_it_runs(tmp_path: Path) -> None:
    with Standalone() as cluster:
        directory = cluster.directory
        group = cluster._workers[1].pid
        cluster.kill(1)
        assert is_gone(group)
        failure = cluster.failed()
        assert failure is not None
        assert failure.startswith("worker-1 ended with -9")
    assert not directory.exists()


def test_what_does_not_start_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "#!/bin/sh\necho 'no such port'; exit 3\n"
    monkeypatch.setenv("SPARK_HOME", str(spark_at(tmp_path / "broken", script)))
    with pytest.raises(EleaError, match=r"master ended with 3: no such port"):
        Standalone(tmp_path / "here").start()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"workers_count": 0}, f"saw 0; legal is 1 to {WORKERS_MAX}"),
        ({"workers_count": WORKERS_MAX + 1}, f"legal is 1 to {WORKERS_MAX}"),
        ({"cores_count": 0}, "saw 0; legal is 1 and more"),
        ({"memory": "much"}, "legal are such as 512m and 2g"),
        ({"port": 65_536}, "legal is 0 to 65535"),
    ],
)
def test_what_is_not_legal_is_told(given: dict[str, int], complaint: str) -> None:
    with pytest.raises(InvalidValueError, match=complaint):
        Standalone(**given)  # type: ignore[arg-type]


def test_paths_of_python_are_those_of_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"src{os.pathsep}/x")
    cluster = Standalone(tmp_path)
    assert cluster.environment["PYTHONPATH"] == f"{Path.cwd() / 'src'}{os.pathsep}/x"


def test_a_session_goes_where_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jvm._configured_master() is None
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert jvm._configured_master() is None
    text = "# spark.master x\nspark.master.rest.enabled false\nspark.master\tspark://h:1 \n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    assert jvm._configured_master() == "spark://h:1"


def test_the_java_that_was_made_leads_to_the_one_it_is_made_of() -> None:
    java = find()
    again = find({"JAVA_HOME": jvm.environment_of(java)["JAVA_HOME"]})
    assert again == java


def test_the_command_tells_what_programs_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "env"]) == 0
    printed = capsys.readouterr().out
    script = f'{printed}\necho "$JAVA_HOME|$PYSPARK_PYTHON|$SPARK_LOCAL_IP|$SPARK_CONF_DIR"'
    told = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    home, python, address, folder = told.stdout.strip().split("|")
    assert (Path(home) / "bin" / "java").exists()
    assert (python, address) == (sys.executable, "127.0.0.1")
    settings = (Path(folder) / "spark-defaults.conf").read_text()
    assert "spark.connect.grpc.binding.address 127.0.0.1" in settings
    assert "-XX:+UseParallelGC" in settings


def test_the_command_runs_a_cluster_until_it_is_told_to_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elea.cli.main", "spark", "standalone"]
    process = subprocess.Popen(
        [*command, "--directory", tmp_path / "here", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert told["master"] == "spark://127.0.0.1:4711"
    assert told["environment"]["SPARK_CONF_DIR"] == str(tmp_path / "here" / "conf")
