"""What a pipeline says of itself, from the file it keeps below its tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elea.config import yaml_text
from elea.errors import EleaError

STATE: Final = Path("_elea") / "state.json"
_SORTS: Final = {"archive": "bronze", "decoded": "silver", "bad": "silver"}  # others are gold


@dataclass(frozen=True, slots=True)
class Progress:
    """How a pipeline does.

    Args:
        state: `starting`, `running`, ...; empty: it has said nothing yet.
        pid: The process that said so.
        rows: Of each table,
        kinds: and what each is: `archive`, `decoded`, `bad`, `gold`, ...
        lag: Rows of the log that were in no table yet at the last batch; None: not known.
        batch_s: How long the last batch took.
        errors: What went wrong last, by table.
    """

    state: str = ""
    pid: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    lag: int | None = None
    batch_s: float | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def line(self, behind: int | None) -> str:
        """Rows of all tables of a sort, how many rows behind it is, how long a batch takes."""
        sums: dict[str, int] = {}
        for name, rows in self.rows.items():
            sort = _SORTS.get(self.kinds.get(name, ""), "gold")
            sums[sort] = sums.get(sort, 0) + rows
        words = [f"{sort} {rows:,}" for sort, rows in sums.items()]
        if behind is not None:
            words.append(f"{behind:,} rows behind")
        if self.batch_s is not None:
            words.append(f"batches of {self.batch_s:.1f} s")
        return ", ".join(words)


def read(lake: Path) -> Progress:
    """What was said last."""
    try:
        told = json.loads((lake / STATE).read_bytes())
        tables = {name: dict(one) for name, one in told["tables"].items()}
        first = next(iter(tables.values()), {})
        return Progress(
            state=str(told["state"]),
            pid=int(told["pid"]),
            rows={name: int(one["rows"]) for name, one in tables.items()},
            kinds={name: str(one["kind"]) for name, one in tables.items()},
            lag=first.get("lag"),
            batch_s=first.get("batch_s"),
            errors={name: str(one["error"]) for name, one in tables.items() if one.get("error")},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Progress()  # it has not begun, or is of another time


def storage_of(file: Path) -> Path | None:
    """Where the tables of a pipeline's file are; None: it does not say so, as `check` tells."""
    if file.suffix not in (".yaml", ".yml"):
        return None
    try:
        told = yaml_text.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, EleaError):
        return None
    storage = told.get("storage") if isinstance(told, dict) else None
    return file.parent / Path(storage).expanduser() if isinstance(storage, str) else None
