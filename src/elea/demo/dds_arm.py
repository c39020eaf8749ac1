# mypy: ignore-errors
"""The type of the DDS robot's topic, as its vendor has it; the bridge never sees this file.

No postponed annotations: the binding of Cyclone DDS reads them as they are.
"""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import array, float64, int32


@dataclass
@final
class Arm(IdlStruct, typename="fleet::Arm"):
    """An arm of six joints."""

    n: int32
    joints: array[float64, 6]
    load: float64
    mode: str
