"""A Spark cluster on this host: a master and workers, each a process of its own.

To try programs as they will run elsewhere: nothing is shared but files and addresses. All of it
listens on loopback, and who has no secret is refused. The secret is in a file that only its owner
may read, never in an argument that others see.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from elea.atomic_file import replace_text
from elea.errors import EleaError, InvalidValueError
from elea.spark.home import spark_home
from elea.spark.java import Java, find
from elea.spark.jvm import environment_of, in_environment, java_flags, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST: Final = "127.0.0.1"
WORKERS_MAX: Final = 16  # each has a Java of its own, and another for each program
_PRIVATE: Final = 0o600
_START_S: Final = 180.0  # seconds on a quiet host; a busy one takes its time
_STOP_S: Final = 10.0
_POLL_S: Final = 0.05
_TOLD_LEN: Final = 2_000  # octets of a log that an error shows
# They only pass messages on, and have no time to warm up.
_DAEMON_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER: Final = "Master: Registering worker "
_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
logger.master.name = org.apache.spark.deploy.master.Master
logger.master.level = info
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = info
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class Standalone:
    """A master and workers, from `start` until `close`; also as a context.

    Args:
        directory: Where settings, logs and the work of tasks are; a temporary one if not given,
            which is removed at the end.
        workers_count: How many workers.
        cores_count: Tasks at a time, of each.
        memory: Of each, for programs: `1g` is what one executor asks for by default.
        port: Of the master; 0 is a free one.
        quick: For short programs, as of `elea.spark.session`.
        java: What it runs on; `elea.spark.java.find` if not given.

    Raises:
        EleaError: there is no Java.
        InvalidValueError: a number is not legal.

    Example:
        with Standalone() as cluster:
            spark = cluster.session("fleet")
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        workers_count: int = 2,
        cores_count: int = 1,
        memory: str = "1g",
        port: int = 0,
        quick: bool = False,
        java: Java | None = None,
    ) -> None:
        if not 1 <= workers_count <= WORKERS_MAX:
            raise InvalidValueError("workers", f"saw {workers_count}; legal is 1 to {WORKERS_MAX}")
        if cores_count < 1:
            raise InvalidValueError("cores", f"saw {cores_count}; legal is 1 and more")
        if not re.fullmatch(r"[1-9][0-9]*[mg]", memory):
            raise InvalidValueError("memory", f"saw {memory!a}; legal are such as 512m and 2g")
        if not 0 <= port < 2**16:
            raise InvalidValueError("port", f"saw {port}; legal is 0 to 65535")
        self._java = java or find()
        self._is_temporary = directory is None
        self._directory = Path(directory or tempfile.mkdtemp(prefix="elea-spark-")).absolute()
        self._share = ("--cores", str(cores_count), "--memory", memory)
        self._port = port
        self._quick = quick
        self._workers_count = workers_count
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self.master = ""  # such as spark://127.0.0.1:7077

    @property
    def directory(self) -> Path:
        """Where settings are in `conf`, and logs in `master.log`, `worker-0.log` and so on."""
        return self._directory

    @property
    def _scratch(self) -> Path:
        """What Spark and Java need while they run; by themselves they leave it in /tmp."""
        return self._directory / "scratch"

    @property
    def _tidy(self) -> str:
        return f'"-Djava.io.tmpdir={self._scratch}"'

    @property
    def environment(self) -> Mapping[str, str]:
        """What programs, `spark-submit` among them, need in their environment to use it."""
        found = environment_of(self._java) | {"SPARK_CONF_DIR": str(self._directory / "conf")}
        if path := os.environ.get("PYTHONPATH"):  # tasks run in directories of their own
            found["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
        return found

    def start(self) -> None:
        """Start all of it; returns when every worker is known to the master.

        Raises:
            EleaError: something did not start; it shows what that wrote.
        """
        try:
            self._configure()
            self._master = self._launch("master", "Master", "--port", str(self._port))
            found = _MASTER.search(self._awaited("master", _MASTER, 1))
            assert found is not None
            self.master = found.group(1)
            self._configure(f"spark.master {self.master}\n")
            for number in range(self._workers_count):
                work = ("--work-dir", str(self._directory / f"worker-{number}"))
                name = f"worker-{number}"
                self._workers.append(self._launch(name, "Worker", *self._share, *work, self.master))
            self._awaited("master", re.compile(re.escape(_WORKER)), self._workers_count)
        except BaseException:
            self.close()
            raise

    def session(
        self, app: str = "elea", *, quick: bool = False, config: Mapping[str, str] | None = None
    ) -> SparkSession:
        """A session whose tasks run here; as `elea.spark.session`."""
        with in_environment(self.environment):
            return session(app, master=self.master, quick=quick, java=self._java, config=config)

    def kill(self, number: int) -> None:
        """End a worker and its executors, as a host that loses power would."""
        _signal(self._workers[number], signal.SIGKILL)
        self._workers[number].wait()

    def failed(self) -> str | None:
        """Which process ended by itself, and with what; None while all of them run."""
        names = ["master", *(f"worker-{number}" for number in range(len(self._workers)))]
        for name, process in zip(names, self._processes(), strict=False):
            if process.poll() is not None:
                return self._obituary(name, process)
        return None

    def close(self) -> None:
        """End all of it; a temporary directory is removed."""
        processes = list(reversed(self._processes()))
        for process in processes:
            _signal(process, signal.SIGTERM)
        limit_s = time.monotonic() + _STOP_S
        for process in processes:
            try:
                process.wait(max(0.0, limit_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            finally:
                _signal(process, signal.SIGKILL)  # what is left of its group as well
                process.wait()
        self._master, self._workers = None, []
        shutil.rmtree(self._directory if self._is_temporary else self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _processes(self) -> list[subprocess.Popen[bytes]]:
        return [*([] if self._master is None else [self._master]), *self._workers]

    def _configure(self, more: str = "") -> None:
        """Write what master, workers, executors and programs read when they start."""
        folder = self._directory / "conf"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
        self._scratch.mkdir(exist_ok=True)
        options = " ".join([*java_flags(self._java, quick=self._quick), self._tidy])
        secret = self._directory / "conf" / "secret"
        if not secret.exists():
            replace_text(secret, secrets.token_hex(32), durable=False, mode=_PRIVATE)
        settings = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secret.read_text(encoding="utf-8"),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.defaultJavaOptions": options,
            "spark.executor.defaultJavaOptions": options,
            "spark.local.dir": str(self._scratch),
            "spark.master.rest.enabled": "false",  # it knows no secret
            "spark.pyspark.python": environment_of(self._java)["PYSPARK_PYTHON"],
            "spark.ui.enabled": "false",
            "spark.ui.killEnabled": "false",
        }
        text = "".join(f"{name} {value}\n" for name, value in settings.items() if value)
        replace_text(folder / "spark-defaults.conf", text + more, durable=False, mode=_PRIVATE)

    def _launch(self, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        flags = " ".join([*_DAEMON_FLAGS, self._tidy])
        environment = {**os.environ, **self.environment, "SPARK_DAEMON_JAVA_OPTS": flags}
        command = [str(spark_home() / "bin" / "spark-class")]
        command += [f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        command += ["--host", HOST, "--webui-port", "0", *arguments]
        with (self._directory / f"{name}.log").open("wb") as log:
            # A group of its own, so that its executors end with it.
            return subprocess.Popen(  # noqa: S603  # paths of ours, no shell
                command,
                env=environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _awaited(self, name: str, pattern: re.Pattern[str], count: int) -> str:
        """The log of a process when something is in it so often."""
        limit_s = time.monotonic() + _START_S
        while True:
            text = self._log(name)
            if len(pattern.findall(text)) >= count:
                return text
            failure = self.failed()
            if failure is not None:
                raise EleaError(failure)
            if time.monotonic() > limit_s:
                raise EleaError(f"Spark did not start in {_START_S:.0f} s: {text[-_TOLD_LEN:]}")
            time.sleep(_POLL_S)

    def _log(self, name: str) -> str:
        path = self._directory / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace")

    def _obituary(self, name: str, process: subprocess.Popen[bytes]) -> str:
        return f"{name} ended with {process.returncode}: {self._log(name)[-_TOLD_LEN:]}"


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
