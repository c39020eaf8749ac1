"""Functions that predicates may call, and how to add one.

A function is pure and total: it takes values as they are in the data and gives a value, or None
for unknown. An argument that is missing makes the result unknown without a call, unless the
function says that it wants to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from elea.decode.values import Kind

EARTH_RADIUS_M: Final = 6_371_008.8  # the mean radius
_COORDINATES_LEN_MAX: Final = 256  # three floats have less than 80 characters


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Args:
        call: What it does. `ValueError`, `TypeError`, `ArithmeticError` and `LookupError` mean
            unknown.
        arity: How many arguments it takes.
        result: The kind of its values, if it is always the same.
        takes_missing: Whether it is called with None for what is not there.
    """

    call: Callable[..., object]
    arity: int
    result: Kind | None = None
    takes_missing: bool = False


class Functions(Mapping[str, Function]):
    """Functions by name; names are case sensitive. It cannot change: `extended` gives a new one.

    Example:
        >>> mine = STANDARD.extended(
        ...     isEven=Function(lambda n: n % 2 == 0, arity=1, result=Kind.BOOLEAN)
        ... )
        >>> sorted(mine)
        ['abs', 'exists', 'inRange', 'isEven', 'length', 'lower']
    """

    __slots__ = ("_by_name",)

    def __init__(self, by_name: Mapping[str, Function]) -> None:
        self._by_name = dict(by_name)

    def extended(self, **added: Function) -> Functions:
        """These and more; a name that is there already gets the new meaning."""
        return Functions({**self._by_name, **added})

    def __getitem__(self, name: str) -> Function:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def coordinates(text: str) -> tuple[float, ...] | None:
    """The two or three finite numbers of a text like `48.0,2.01`; None if it is none.

    Example:
        >>> coordinates("48.0, 2.01"), coordinates("48.0")
        ((48.0, 2.01), None)
    """
    if len(text) > _COORDINATES_LEN_MAX or "_" in text:  # Python reads 1_000 as a number
        return None
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        return None
    return numbers if len(numbers) in (2, 3) and all(map(math.isfinite, numbers)) else None


def _length(text: object) -> int | None:
    return len(text) if isinstance(text, str) else None


def _lower(text: object) -> str | None:
    return text.lower() if isinstance(text, str) else None


def _abs(number: object) -> int | float | None:
    return abs(number) if _is_number(number) else None


def _exists(value: object) -> bool:
    return value is not None


def _in_range(point: object, center: object, radius: object) -> bool | None:
    """Whether two points are at most `radius` apart: metres on the sphere, or Euclidean."""
    if not _is_number(radius):
        return None
    found, middle = _point(point), _point(center)
    if found is None or middle is None:
        return None
    (kind, a), (other_kind, b) = found, middle
    if len(a) != len(b) or {kind, other_kind} == {"sphere", "space"}:
        return None
    if "sphere" in (kind, other_kind):
        distance = _great_circle_m(a, b) if len(a) == 2 else math.nan
    else:
        distance = math.dist(a, b)
    return None if math.isnan(distance) else distance <= radius


def _point(value: object) -> tuple[str, tuple[float, ...]] | None:
    """Coordinates, and whether their names say where they are: `sphere`, `space` or neither."""
    if isinstance(value, str):
        parsed = coordinates(value)
        return None if parsed is None else ("", parsed)
    if isinstance(value, dict):
        if "lat" in value and "lon" in value:
            kind, numbers = "sphere", [value["lat"], value["lon"]]
        elif "x" in value and "y" in value:
            kind, numbers = "space", [value[name] for name in ("x", "y", "z") if name in value]
        else:
            return None
    elif isinstance(value, (list, tuple)):
        kind, numbers = "", list(value)
    else:
        return None
    if len(numbers) not in (2, 3) or not all(map(_is_number, numbers)):
        return None
    return kind, tuple(map(float, numbers))


def _great_circle_m(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The haversine formula: exact enough for points that are close to each other."""
    lat_a, lon_a, lat_b, lon_b = map(math.radians, (*a, *b))
    half = math.sin((lat_b - lat_a) / 2) ** 2
    half += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, half)))


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


STANDARD: Final = Functions(
    {
        "inRange": Function(_in_range, 3, Kind.BOOLEAN),
        "length": Function(_length, 1, Kind.INTEGER),
        "abs": Function(_abs, 1),
        "lower": Function(_lower, 1, Kind.TEXT),
        "exists": Function(_exists, 1, Kind.BOOLEAN, takes_missing=True),
    }
)
