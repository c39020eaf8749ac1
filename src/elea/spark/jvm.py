"""How Spark is started: on a Java that is found, on loopback, quietly, and soon if that matters."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.errors import EleaError, MissingDependencyError
from elea.spark.java import Java, cache_directory, digest_of, find, usable_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*,4]"  # without the 4 a task that fails once ends the query

# Nothing of Spark listens beyond this host, and nobody else on it can speak to it.
_SAFE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.authenticate": "true",
}
_QUIET: Final = {"spark.ui.showConsoleProgress": "false"}
_UTC: Final = {"spark.sql.session.timeZone": "UTC"}
# Small jobs: planning and code generation cost more than the rows.
SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
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
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
_PREPARE_S: Final = 300.0
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
        master: Where it runs: `spark://host:7077` is a cluster; on this host if not given.
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
    chosen.setdefault("spark.master", LOCAL)
    is_local = chosen["spark.master"].startswith("local")
    settings = {**(_SAFE if is_local else {"spark.authenticate": "true"}), **_QUIET, **_UTC}
    settings |= SMALL if quick else {}
    flags = [*_flags(java, quick=quick), chosen.get(_JAVA_OPTIONS, "")]
    settings |= chosen
    settings[_JAVA_OPTIONS] = " ".join(flags).strip()
    with _environment(java, is_local=is_local):
        return _built(SparkSession.builder.appName(app), settings)


def _built(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextlib.contextmanager
def _environment(java: Java, *, is_local: bool) -> Iterator[None]:
    """What the launcher and the workers read from the environment, while they are started."""
    wanted = {"JAVA_HOME": str(usable_home(java))}
    wanted["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    if is_local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
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


def _flags(java: Java, *, quick: bool) -> list[str]:
    flags = [f"-Dlog4j2.configurationFile={_log_settings().as_uri()}"]
    if not quick:
        return flags if java.g1_is_safe else [*flags, "-XX:+UseParallelGC"]
    flags += _SMALL_FLAGS
    cache = cache_file(java)
    if cache is not None and cache.exists():
        kind = "AOTCache" if _has_aot(java) else "SharedArchiveFile"
        # One that does not fit any more is not used, and that is not worth a line.
        flags += [f"-XX:{kind}={cache}", "-Xlog:disable", "-Xlog:all=error:stderr"]
    return flags


def _log_settings() -> Path:
    path = cache_directory() / f"log4j2-{digest_of(_LOG4J)}.properties"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_LOG4J, encoding="utf-8")
    return path


def _has_aot(java: Java) -> bool:
    return java.version >= (25,)


def cache_file(java: Java) -> Path | None:
    """Where the start-up cache of a Java and this Spark is, or would be; None: it cannot have one.

    Its name is made of all that it depends on, so that one of another Spark is not even opened.
    """
    if not _has_aot(java) and not (java.home / "lib" / "server" / "classes.jsa").exists():
        return None
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    jars = sorted((Path(spec.origin).parent / "jars").glob("*.jar"))
    sizes = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    name = digest_of(java.home, java.version, _SMALL_FLAGS, sizes)
    return cache_directory() / f"{name}.{'aot' if _has_aot(java) else 'jsa'}"


def prepare(java: Java) -> Path:
    """Make the start-up cache of a Java, which `quick` sessions use; takes about a minute.

    Raises:
        EleaError: this Java cannot have one, or it was not made.
    """
    target = cache_file(java)
    if target is None:
        raise EleaError(f"{java} cannot have a start-up cache; pip install 'elea[jdk]' for one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
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
            raise EleaError(f"no start-up cache was made: {(done.stderr or done.stdout)[-500:]}")
        os.replace(made, target)
    for old in target.parent.glob(f"*{target.suffix}"):  # each has some 200 MB
        if old != target:
            old.unlink(missing_ok=True)
    return target


def warm_up(home: str, flag: str) -> None:
    """Use what short programs use, and end; for `prepare`."""
    java = find({"JAVA_HOME": home})
    options = " ".join([*_SMALL_FLAGS, flag])
    settings = _SAFE | _QUIET | _UTC | SMALL | {"spark.master": "local[2]", _JAVA_OPTIONS: options}
    from pyspark.sql import SparkSession

    from elea.spark.trial import trial_log

    with _environment(java, is_local=True), tempfile.TemporaryDirectory() as folder:
        spark = _built(SparkSession.builder.appName("elea"), settings)
        log = Path(folder) / "log"
        trial_log(log)
        rows = spark.read.format("zenoh").option("log", str(log)).load()
        rows.groupBy("key").count().collect()
        stream = spark.readStream.format("zenoh").option("log", str(log)).load()
        query = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/c")
        query.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
