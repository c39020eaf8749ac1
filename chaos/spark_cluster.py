"""A cluster of Spark on this host: a master, a worker, and the executors that it starts."""

from __future__ import annotations

import secrets
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from chaos.spark_rig import LOCAL, end, environment, marked, wait_for
from tests.ports import free_port

from elea.errors import EleaError
from elea.spark.java import Java, find, packaged, usable_home

MARK = "ELEA_CHAOS_CLUSTER"
# Executors that are killed are replaced as often as that happens.
_MASTER = "-Dspark.deploy.maxExecutorRetries=-1 "


def java() -> Java:
    """The packaged one, which starts soonest; else any."""
    try:
        return packaged()
    except EleaError:
        return find()


class Cluster:
    """While it is entered, or nothing if it is not wanted: then `master` is this process."""

    def __init__(self, root: Path, *, is_wanted: bool) -> None:
        self._root = root
        self._is_wanted = is_wanted
        self._secret = secrets.token_hex(16)
        self.master = LOCAL

    @property
    def config(self) -> dict[str, str]:
        """What a driver needs to be let in."""
        if not self._is_wanted:
            return {}
        return {
            "spark.authenticate.secret": self._secret,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
        }

    def __enter__(self) -> Self:
        if self._is_wanted:
            self._root.mkdir()
            port = free_port()
            self.master = f"spark://127.0.0.1:{port}"
            place = ("--host", "127.0.0.1", "--webui-port", "0")
            self._start("master.Master", *place, "--port", str(port))
            room = ("--cores", "2", "--memory", "2g", "--work-dir", str(self._root / "work"))
            self._start("worker.Worker", *place, *room, self.master)
        return self

    def __exit__(self, *_: object) -> None:
        while pids := marked(f"{MARK}={self._root}") if self._is_wanted else []:
            for pid in pids:
                end(pid)

    def _start(self, name: str, *arguments: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        options = f"-Dspark.authenticate=true -Dspark.authenticate.secret={self._secret}"
        told = self._root / f"{name}.txt"
        with told.open("wb") as file:
            subprocess.Popen(
                [
                    str(Path(spec.origin).parent / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{name}",
                    *arguments,
                ],
                stdout=file,
                stderr=file,
                env=environment()
                | {
                    "JAVA_HOME": str(usable_home(java())),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_MASTER_OPTS": _MASTER + options,
                    "SPARK_WORKER_OPTS": options,
                    MARK: str(self._root),
                },
            )
        ready = {"master.Master": "New state: ALIVE", "worker.Worker": "Successfully registered"}
        wait_for(lambda: ready[name] in told.read_text(errors="replace"), f"{name}: see {told}")

    def executor_of(self, worker: int) -> int:
        """The executor whose worker a process is."""
        pid = worker
        while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
            pid = parent(pid)
        return pid


def parent(pid: int) -> int:
    """Of a process."""
    told = Path(f"/proc/{pid}/stat").read_text()
    return int(told.rpartition(")")[2].split()[1])
