"""What the functions of SQL for ROS do, on Arrow columns and without Spark (R2-755)."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from elea.errors import MissingDependencyError

numpy: Any
try:
    import numpy
except ModuleNotFoundError:  # an optional package of the extra `ros`
    numpy = None

POINTS: Final = pa.list_(pa.map_(pa.string(), pa.float64()))
# Types of sensor_msgs/msg/PointField.
_TYPES: Final = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}


def ros_points(clouds: pa.Array) -> pa.Array:
    """The points of each PointCloud2, as maps of their fields; null if its geometry is wrong.

    Args:
        clouds: Structures with the members of the message.

    Raises:
        MissingDependencyError: numpy is not installed.
    """
    if numpy is None:
        raise MissingDependencyError("ros_points", "ros")
    return pa.array([_points(cloud) for cloud in clouds.to_pylist()], POINTS)


def _points(cloud: dict[str, Any] | None) -> list[list[tuple[str, float]]] | None:
    if cloud is None or cloud["data"] is None:
        return None
    width, height = int(cloud["width"]), int(cloud["height"])
    step, row_step, data = int(cloud["point_step"]), int(cloud["row_step"]), cloud["data"]
    fields = cloud["fields"]
    if row_step < width * step or len(data) < height * row_step or not step:
        return None
    order = ">" if cloud["is_bigendian"] else "<"
    columns: dict[str, Any] = {}
    octets = numpy.frombuffer(data, "u1", height * row_step).reshape(height, row_step)
    points = octets[:, : width * step].reshape(height * width, step)
    for one in fields:
        kind = _TYPES.get(int(one["datatype"]))
        if kind is None:
            return None
        start, count, size = int(one["offset"]), max(int(one["count"]), 1), int(kind[1])
        if start + count * size > step:
            return None
        cut = numpy.ascontiguousarray(points[:, start : start + count * size])
        values = cut.view(order + kind).astype(float)
        for place in range(count):
            name = one["name"] if count == 1 else f"{one['name']}_{place}"
            columns[name] = values[:, place].tolist()
    names = list(columns)
    return [list(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
