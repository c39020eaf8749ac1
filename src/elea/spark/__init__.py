"""The data space in Apache Spark: `format("zenoh")` reads and writes it; the rest is here.

The packages of the extra `spark` are imported when something is used, not when it is named.
"""

from elea.spark.jvm import session
from elea.spark.repeats import Repeats, once

__all__ = ["Repeats", "once", "session"]
