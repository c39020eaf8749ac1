"""`elea.ros.types`: definitions that every program has, as classes by name."""

from __future__ import annotations

from typing import Final

from elea.ros.catalog import Types

types: Final = Types()
