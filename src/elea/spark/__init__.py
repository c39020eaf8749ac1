"""The data space in Apache Spark: `format("zenoh")` reads and writes it; the rest is here.

The packages of the extra `spark` are imported when something is used, not when it is named.
"""

from elea.spark.archiving import archive
from elea.spark.jvm import session
from elea.spark.repeats import Repeats, once
from elea.spark.scan import table

__all__ = ["Repeats", "archive", "once", "session", "table"]
