"""The durable log: samples in Arrow segments, on disk before they are acknowledged."""

from importlib.util import find_spec

from elea.errors import MissingDependencyError

if find_spec("pyarrow") is None:
    raise MissingDependencyError("the durable log", "arrow")
