"""How Spark is started: on a Java that is found, on loopback, quietly, and soon if that matters."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elea.atomic_file import replace_text
from elea.errors import EleaError, MissingDependencyError
from elea.spark.home import spark_home
from elea.spark.java import Java, cache_directory, digest_of, find, usable_home
from elea.spark.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*,4]"  # without the 4 a task that fails once ends the query

# Nothing of Spark listens beyond this host, and nobody else on it can speak to it.
_SAFE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.authenticate": "true",
}
# Checkpoints on this host. The other way to write them starts 41 processes for each batch, such as
# `readlink`, this one 9. It is not less safe: on such disks both look, and then rename.
_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
_QUIET: Final = {"spark.ui.showConsoleProgress": "false"}
_UTC: Final = {"spark.sql.session.timeZone": "UTC"}
# Small jobs: planning and code generation cost more than the rows.
SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
# When a query is stopped, Spark looks for an interruption in the message of what was raised, by a
# pattern that takes three frames for each character: 1 MiB, Java's own, is too little for a
# traceback. A thread takes memory only for what it has used.
_STACK_FLAG: Final = "-Xss16m"
_SMALL_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %maxLen{%m %ex{1}}{600}%n
"""
CACHE_ENV: Final = "ELEA_SPARK_CACHE"
_CACHES_MAX: Final = 2  # each has some 200 MB; another Spark has another
_MAKING: Final = "making-"
_END_S: Final = 5.0  # in which it is known that a process ended
_PREPARE_S: Final = 900.0  # a minute, and much more on a busy host
_PREPARE: Final = (
    "import os, sys; os.nice(19); from elea.spark import java, jvm;"
    " jvm.prepare(java.find({'JAVA_HOME': sys.argv[1]}))"
)
_WARM_UP: Final = (
    "import sys; from elea.spark.jvm import warm_up; warm_up(sys.argv[1], sys.argv[2])"
)


def session(
    app: str = "elea",
    *,
    master: str | None = None,
    quick: bool = False,
    java: Java | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session in which `format("zenoh")` works; the one there is, if there is one.

    Args:
        app: The name of the application.
        master: Where it runs: `spark://host:7077` is a cluster. If not given, where Spark's
            settings say (`spark.master` in `$SPARK_CONF_DIR/spark-defaults.conf`), else on this
            host.
        quick: For short programs: it starts faster, and long queries are slower.
        java: What it runs on; `elea.spark.java.find` if not given.
        config: More of Spark's settings. They win over those of here.

    Raises:
        EleaError: there is no Java; it says what to install.
        MissingDependencyError: PySpark is not installed.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea.spark.session", "spark") from error
    chosen = dict(config or {})
    if master is not None:
        chosen["spark.master"] = master
    running = SparkContext._active_spark_context is not None
    if running or "PYSPARK_GATEWAY_PORT" in os.environ:  # somebody started the JVM already
        return _built(SparkSession.builder.appName(app), {**_UTC, **chosen})
    java = java or find()
    chosen.setdefault("spark.master", _configured_master() or LOCAL)
    is_local = chosen["spark.master"].startswith("local")
    settings = _SAFE | _CHECKPOINTS if is_local else {"spark.authenticate": "true"}
    settings |= _QUIET | _UTC
    settings |= SMALL if quick else {}
    flags = [*_flags(java, quick=quick), *_tidy_flags(), chosen.get(_JAVA_OPTIONS, "")]
    if is_local:
        settings |= _tidy()
    settings |= chosen
    settings[_JAVA_OPTIONS] = " ".join(flags).strip()
    with in_environment(environment_of(java, is_local=is_local)):
        return _built(SparkSession.builder.appName(app), settings)


def _tidy() -> dict[str, str]:
    """Settings by which Spark leaves nothing behind on this host; others have their own."""
    return {"spark.local.dir": str(scratch())}


def _tidy_flags() -> list[str]:
    """The same for Java."""
    return [f'"-Djava.io.tmpdir={scratch()}"']


def _built(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    with ending_java():
        made = builder.getOrCreate()
    with_session(made)
    return made


@contextlib.contextmanager
def ending_java() -> Iterator[None]:
    """Kill the Java process that is being launched within, if its launch is interrupted.

    PySpark removes the folder where Java is to write its port: Java fails at that with a stack
    trace and stays for ever, as its main thread no longer waits for the end of its input.

    Raises:
        EleaError: it ended before it was there; how.
    """
    from pyspark import SparkContext, java_gateway

    launched: list[subprocess.Popen[bytes]] = []
    module: Any = java_gateway
    launch = module.Popen

    def noted(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = launch(*args, **kwargs)
        launched.append(process)
        return process

    module.Popen = noted
    try:
        yield
    except BaseException as error:
        if SparkContext._gateway is None and launched:  # else it serves this process
            process = launched[-1]
            code = process.poll()
            process.kill()
            process.wait()
            if code is not None and isinstance(error, Exception):
                raise EleaError(_ended(process.pid, code, "it was starting; start again")) from None
        raise
    finally:
        module.Popen = launch


def with_session(spark: SparkSession) -> None:
    """Make a session that of this thread: by it Spark finds sources and sinks in Python.

    A thread has none by itself, so that `format("zenoh")` would not be found in it.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:  # else it is one of Spark Connect
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def jvm_end(error: BaseException | None = None) -> str | None:
    """How the Java process that this process started ended; None: it lives, or there is none.

    Args:
        error: What was raised: a connection that broke is known sooner than why.
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    is_broken = isinstance(error, OSError | EOFError) or type(error).__module__.startswith("py4j")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S if is_broken else 0)
    code = process.poll()
    return (
        None
        if code is None
        else _ended(process.pid, code, "start again: it goes on where it ended")
    )


def _ended(pid: int, code: int, more: str) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
    return f"Spark's Java process {pid} {how}; {more}"


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def silence_threads() -> None:
    """Leave it to the caller to tell what fails.

    PySpark and Py4J would, with a traceback of each of their threads.
    """
    from pyspark import accumulators
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # Java's frames of each wrong query
    logging.getLogger().addFilter(_is_not_of_py4j)
    for name in ("AccumulatorTCPServer", "AccumulatorUnixServer"):
        if hasattr(accumulators, name):
            getattr(accumulators, name).handle_error = lambda *_: None


def _configured_master() -> str | None:
    """What the settings of a cluster say, which programs find by SPARK_CONF_DIR."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None:
        return None
    try:
        text = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:  # settings may be elsewhere
        return None
    found = re.findall(r"^\s*spark\.master[ \t=:]+(\S+)", text, re.MULTILINE)
    return found[-1] if found else None


def environment_of(java: Java, *, is_local: bool = True) -> dict[str, str]:
    """What the launcher and the workers read from the environment."""
    found = {
        "JAVA_HOME": str(usable_home(java)),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        "SPARK_HOME": str(spark_home()),
    }
    return found | ({"SPARK_LOCAL_IP": "127.0.0.1"} if is_local else {})


def local_settings(java: Java) -> Path:
    """The SPARK_CONF_DIR there is, or one with which Spark's programs keep to this host."""
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder)
    options = " ".join([_STACK_FLAG, *java_flags(java, quick=False)])
    settings = _SAFE | _CHECKPOINTS | {"spark.driver.defaultJavaOptions": options}
    text = "".join(f"{name} {value}\n" for name, value in settings.items() if value)
    path = cache_directory() / f"conf-{digest_of(text)}" / "spark-defaults.conf"
    _written(path, text)
    return path.parent


@contextlib.contextmanager
def in_environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """With these in the environment, for what is started meanwhile."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def java_flags(java: Java, *, quick: bool) -> list[str]:
    """How its memory and compiler are set."""
    if quick:
        return [*_SMALL_FLAGS]
    return [] if java.g1_is_safe else ["-XX:+UseParallelGC"]


def _flags(java: Java, *, quick: bool) -> list[str]:
    flags = [f"-Dlog4j2.configurationFile={_log_settings().as_uri()}"]
    flags += [_STACK_FLAG, *java_flags(java, quick=quick)]
    cache = cache_file(java) if quick else None
    if cache is not None and cache.exists():
        kind = "AOTCache" if _has_aot(java) else "SharedArchiveFile"
        cache.touch()  # the ones that are used stay
        # One that does not fit any more is not used, and that is not worth a line.
        flags += [f"-XX:{kind}={cache}", "-Xlog:disable", "-Xlog:all=error:stderr"]
    return flags


def _log_settings() -> Path:
    path = cache_directory() / f"log4j2-{digest_of(_LOG4J)}.properties"
    _written(path, _LOG4J)
    return path


def _written(path: Path, text: str) -> None:
    """Make a file whose name is made of its text; another process may be at it too."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text, durable=False, shared=True)


def _has_aot(java: Java) -> bool:
    return java.version >= (25,)


def cache_file(java: Java) -> Path | None:
    """Where the start-up cache of a Java and this Spark is, or would be; None: it cannot have one.

    Its name is made of all that it depends on, so that one of another Spark is not even opened.
    """
    if not _has_aot(java) and not (java.home / "lib" / "server" / "classes.jsa").exists():
        return None
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    sizes = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    name = digest_of(java.home, java.version, _SMALL_FLAGS, sizes)
    return cache_directory() / f"{name}.{'aot' if _has_aot(java) else 'jsa'}"


def prepare(java: Java) -> Path:
    """Make the start-up cache of a Java, which `quick` sessions use; takes about a minute.

    Raises:
        EleaError: this Java cannot have one, it was not made, or another process is at it.
    """
    target = cache_file(java)
    if target is None:
        raise EleaError(f"{java} cannot have a start-up cache; pip install 'elea[jdk]' for one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / "prepare.lock"):
        for left in target.parent.glob(f"{_MAKING}*"):  # by one that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=_MAKING) as folder:
            made = Path(folder) / target.name
            kind = "AOTCacheOutput" if _has_aot(java) else "ArchiveClassesAtExit"
            # Java writes it when it ends, after the program has: its output tells when.
            done = subprocess.run(  # noqa: S603  # a path of ours, no shell
                [sys.executable, "-c", _WARM_UP, str(java.home), f"-XX:{kind}={made}"],
                capture_output=True,
                text=True,
                timeout=_PREPARE_S,
            )
            if not made.exists():
                told = (done.stderr or done.stdout)[-500:]
                raise EleaError(f"no start-up cache was made: {told}")
            os.replace(made, target)
        caches = [one for kind in ("aot", "jsa") for one in target.parent.glob(f"*.{kind}")]
        for old in sorted(caches, key=lambda one: -one.stat().st_mtime_ns)[_CACHES_MAX:]:
            old.unlink(missing_ok=True)
    return target


def prepare_later(java: Java) -> bool:
    """Have the start-up cache made by another process, if there is none; True if it was started.

    For the end of short commands. It has the lowest priority, and writes nothing but the cache;
    the variable ELEA_SPARK_CACHE=never keeps it from starting.
    """
    cache = cache_file(java)
    if cache is None or cache.exists() or os.environ.get(CACHE_ENV) == "never":
        return False
    subprocess.Popen(  # noqa: S603  # a path of ours, no shell
        [sys.executable, "-c", _PREPARE, str(java.home)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C at the next command is not for it
    )
    return True


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While no other process is at it; the lock ends with the process."""
    import fcntl  # Late: not every system has it, nor needs it for anything else.

    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EleaError("the start-up cache is being made by another process") from error
        yield


def warm_up(home: str, flag: str) -> None:
    """Use what short programs use, and end; for `prepare`."""
    java = find({"JAVA_HOME": home})
    options = " ".join([*_SMALL_FLAGS, flag, *_tidy_flags()])
    settings = _SAFE | _QUIET | _UTC | SMALL | _tidy()
    settings |= {"spark.master": "local[2]", _JAVA_OPTIONS: options}
    from pyspark.sql import SparkSession

    from elea.spark.trial import trial_log

    with in_environment(environment_of(java)), tempfile.TemporaryDirectory() as folder:
        spark = _built(SparkSession.builder.appName("elea"), settings)
        log = Path(folder) / "log"
        trial_log(log)
        rows = spark.read.format("zenoh").option("log", str(log)).load()
        rows.groupBy("key").count().collect()
        stream = spark.readStream.format("zenoh").option("log", str(log)).load()
        query = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/c")
        query.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
