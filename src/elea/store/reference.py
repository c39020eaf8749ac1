"""The sections of storages, historians and the SQL door as parts of `docs/reference/config.md`."""

from __future__ import annotations

from typing import Final

from elea.store.historian.service import SECTION as HISTORIAN
from elea.store.settings import STORAGE, VOLUME
from elea.store.sql.settings import SECTION as SQL

# Of the volumes that Elea brings: where it stands, name, which of them, what it means.
OPTIONS: Final = (
    ("volumes/<volume>", "root", "`fs`, `sqlite`, `log`", "the directory below which it writes"),
    (
        "volumes/<volume>",
        "low_water_percent",
        "`fs`, `sqlite`, `log`",
        "of the disk that stays free; 5",
    ),
    ("storages/<name>/volume", "dir", "`fs`, `sqlite`, `log`", "its place below `root`; its name"),
    ("storages/<name>/volume", "quota", "all", "octets it may hold; no bound, 256 MiB in memory"),
    ("storages/<name>/volume", "history", "`memory`, `sqlite`", "`latest` or `all` values; latest"),
    ("storages/<name>/volume", "retain", "`log`", "octets; the oldest values go beyond them"),
    ("storages/<name>/volume", "retain_age", "`log`", "seconds; values that are older may go"),
)

_HEAD: Final = """
## `plugins/storage_manager`

Storages of a router ([keep-values.md](../howto/keep-values.md)). `volumes` holds one object per
volume, `storages` one per storage. The volume `memory` is there without being named.

| key | meaning and default | legal |
| --- | --- | --- |
"""

_HISTORIAN: Final = """
## `plugins/historian`

Answers queries from logs ([query-history.md](../howto/query-history.md)).

| key | meaning and default | legal |
| --- | --- | --- |
"""

_SQL: Final = """
## `plugins/sql`

Answers SQL over tables ([query-with-sql.md](../howto/query-with-sql.md)).

| key | meaning and default | legal |
| --- | --- | --- |
"""


def markdown() -> str:
    """The part, to be put behind the others."""
    text = _HEAD
    text += STORAGE.rows("storages/<name>/")
    text += VOLUME.rows("volumes/<volume>/")
    for place, name, which, meaning in OPTIONS:
        text += f"| `{place}/{name}` | {meaning} | for {which} |\n"
    text += _HISTORIAN
    return text + HISTORIAN.rows() + _SQL + SQL.rows()
