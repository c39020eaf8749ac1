"""The sections of storages, historians and the SQL door as parts of `docs/reference/config.md`."""

from __future__ import annotations

from typing import Final

from elea.store.backends.options import rows
from elea.store.historian.service import SECTION as HISTORIAN
from elea.store.settings import STORAGE, VOLUME
from elea.store.sql.settings import SECTION as SQL

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
    text += rows()
    text += _HISTORIAN
    return text + HISTORIAN.rows() + _SQL + SQL.rows()
