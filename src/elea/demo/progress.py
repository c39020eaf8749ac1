"""What a pipeline says of itself, from the file it keeps below its tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STATE: Final = Path("_elea") / "state.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """How a pipeline does.

    Args:
        state: `starting`, `running`, ...; empty: it has said nothing yet.
        rows: Of each table.
        lag: Rows of the log that are in no table yet; None: not known.
        batch_s: How long the last batch took.
        errors: What went wrong last, by table.
    """

    state: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    lag: int | None = None
    batch_s: float | None = None
    errors: dict[str, str] = field(default_factory=dict)


def read(lake: Path) -> Progress:
    """What was said last."""
    try:
        told = json.loads((lake / STATE).read_bytes())
        tables = {name: dict(one) for name, one in told["tables"].items()}
        first = next(iter(tables.values()), {})
        return Progress(
            state=str(told["state"]),
            rows={name: int(one["rows"]) for name, one in tables.items()},
            lag=first.get("lag"),
            batch_s=first.get("batch_s"),
            errors={name: str(one["error"]) for name, one in tables.items() if one.get("error")},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Progress()  # it has not begun, or is of another time
