"""`SparkSession.active()` in a file of Python that is loaded before there is a session.

A file may ask for the session at its top, as those of Spark Declarative Pipelines do. To load it,
for `check` or `status` too, needs no Java: it is given a session that is made, or found, when
something of it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING: Final = ("NO_ACTIVE_OR_DEFAULT_SESSION", "SESSION_OR_CONTEXT_NOT_EXISTS")

Maker = Callable[[], "SparkSession"]


@contextmanager
def lazily_active(maker: Maker) -> Iterator[None]:
    """While a file is loaded: `SparkSession.active()` always gives a session.

    Args:
        maker: Makes the session, if the file uses it while it is loaded.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:  # the file says itself what it needs
        yield
        return
    before = SparkSession.__dict__["active"]
    lazy = _lazy(before.__get__(None, SparkSession), maker)
    SparkSession.active = classmethod(lambda cls: lazy)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        SparkSession.active = before  # type: ignore[method-assign]


def needs_session(error: BaseException) -> bool:
    """Whether something could not be done without a session, as `udf("int")`."""
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return condition is not None and condition() in _MISSING


def default_session() -> SparkSession:
    """As `elea.spark.session`."""
    from elea.spark.jvm import session

    return session("elea pipeline")


def _lazy(active: Maker, maker: Maker) -> SparkSession:
    """A session that is looked for each time it is used."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    def found() -> SparkSession:
        with suppress(PySparkRuntimeError):  # there is none yet
            return active()
        return maker()

    class LazySession(SparkSession):
        def __init__(self) -> None:
            pass

        def __getattribute__(self, name: str) -> Any:
            if name == "__class__":
                return SparkSession
            return getattr(found(), name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(found(), name, value)

    return LazySession()
