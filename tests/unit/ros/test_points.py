"""Points of clouds, both byte orders, padding and geometry that is wrong."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from elea.spark.functions.ros import ros_points


def cloud(**changes: Any) -> dict[str, Any]:
    """Two rows of two points: x as f32, ring as u16, a pair of f64; with padding everywhere."""
    order = ">" if changes.get("is_bigendian") else "<"
    form = struct.Struct(f"{order}fHxxddxxxx")
    data = b""
    for row in range(2):
        for place in range(2):
            data += form.pack(row + place / 2, 7 + place, 0.5, row)
        data += bytes(8)
    fields = [
        {"name": "x", "offset": 0, "datatype": 7, "count": 1},
        {"name": "ring", "offset": 4, "datatype": 4, "count": 1},
        {"name": "pair", "offset": 8, "datatype": 8, "count": 2},
    ]
    return {
        "height": 2,
        "width": 2,
        "fields": fields,
        "is_bigendian": False,
        "point_step": form.size,
        "row_step": 2 * form.size + 8,
        "data": data,
        **changes,
    }


def points(one: dict[str, Any]) -> Any:
    [found] = ros_points(pa.array([one])).to_pylist()
    return None if found is None else [dict(point) for point in found]


@pytest.mark.line("R2-755")
@pytest.mark.parametrize("is_bigendian", [False, True])
def test_points_of_a_cloud(is_bigendian: bool) -> None:
    found = points(cloud(is_bigendian=is_bigendian))
    assert found[3] == {"x": 1.5, "ring": 8.0, "pair_0": 0.5, "pair_1": 1.0}
    assert len(found) == 4


@pytest.mark.line("R2-755")
@pytest.mark.parametrize(
    "wrong",
    [
        {"row_step": 30},
        {"data": b"short"},
        {"point_step": 0},
        {"width": 100},
        {"fields": [{"name": "x", "offset": 26, "datatype": 7, "count": 1}]},
        {"fields": [{"name": "x", "offset": 0, "datatype": 99, "count": 1}]},
    ],
)
def test_a_cloud_of_wrong_geometry_has_none(wrong: dict[str, Any]) -> None:
    assert points(cloud(**wrong)) is None
