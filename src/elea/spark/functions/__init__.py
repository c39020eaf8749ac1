"""Key expressions and timestamps in Spark SQL, and the join of keys with key expressions."""

from elea.spark.functions.columns import (
    hlc_time,
    ke_chunk,
    ke_fields,
    ke_includes,
    ke_intersects,
    register,
    ros_points,
    try_ke_includes,
    try_ke_intersects,
)
from elea.spark.functions.join import ke_join
from elea.spark.functions.matcher import Matcher

__all__ = [
    "Matcher",
    "hlc_time",
    "ke_chunk",
    "ke_fields",
    "ke_includes",
    "ke_intersects",
    "ke_join",
    "register",
    "ros_points",
    "try_ke_includes",
    "try_ke_intersects",
]
