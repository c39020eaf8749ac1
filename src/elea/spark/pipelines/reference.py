"""Every key of a pipeline's file, as the page `docs/reference/pipeline-file.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from elea.spark.pipelines.gold import KINDS, REQUIRED
from elea.spark.pipelines.reading import ARCHIVE, DECODE, GOLD, PUBLISH, ROS2, SQL, TOP
from elea.spark.pipelines.template import text

_HEAD: Final = """\
# The file of a pipeline

`elea pipeline init` writes one, `elea pipeline check` tells all that is wrong with one, each
problem with its place. Paths are relative to the file.
[First pipeline](../tutorial/first-pipeline.md) shows it at work,
[pipelines.md](../howto/pipelines.md) how to run one.

```yaml
{example}```

## All of it

{top}
## Tables

Each table has a name: a letter, then letters, digits and `_`. It has exactly one of these keys,
which says what it is:

| key | table |
| --- | --- |
| `archive` | samples as they are, with all columns of [a log](log-format.md#rows) |
| `decode` | samples with columns in place of payloads; what cannot be decoded is in NAME`_bad` |
{kinds}| `sql` | what a query makes of other tables; made anew when those have changed |

### `archive`

{archive}
### `decode`

{decode}
Rows have the columns of an archive without `payload`, those of `key`, and those of the schema. A
`schema` is a layout ([predicates.md](predicates.md)), the same as a mapping of YAML, where types
may also have the names of SQL (`double`, `bigint`, `string`), or a file beside the pipeline: its
text is a layout, or it is a `.toml` of [schemas](../howto/decode-payloads.md). A row is bad, and in
NAME`_bad` with `decoder` and `reason`, if its payload cannot be decoded or its key does not fit
`key`. Members that nobody declared become columns from the next batch on; the batch in which one
was first seen can be made anew by `elea pipeline backfill`.

### `ros2`

Beside `tables`, for fleets of ROS 2 ([ros2.md](../howto/ros2.md)):

{ros}
### Gold tables

{gold}
and the key of a kind, with its options:

{options}
### `sql`

{sql}
Tables are known by their names, in any case. The result is collected where the pipeline runs: it is
for what is small beside what it is made of. Key expressions are functions of SQL once
`elea.spark.functions.register` was called.

### `publish`

A key, `publish: "gold/{{robot}}/imu"`, or a mapping:

{publish}
A row is published when it is new or has changed: as JSON, with times as RFC 3339 and octets as
base64, or as CBOR. Who is told twice after a crash drops repeats by `elea.spark.once`; a recorder
does so too. Rows of which no key can be made are logged. While the pipeline runs, a `get` to such a
key of a gold table or view is answered with its last row.
"""


def markdown() -> str:
    """The page."""
    kinds = "".join(f"| `{kind.name}` | {kind.help} |\n" for kind in KINDS.values())
    options = "| kind | option | default | meaning |\n| --- | --- | --- | --- |\n"
    for kind in KINDS.values():
        for option in kind.options:
            default = "required" if option.default is REQUIRED else _default(option.default)
            options += f"| `{kind.name}` | `{option.name}` | {default} | {option.help} |\n"
    return _HEAD.format(
        example=text(),
        top=_table(TOP),
        kinds=kinds,
        archive=_table(ARCHIVE),
        decode=_table(DECODE),
        ros=_table(ROS2),
        gold=_table(GOLD),
        options=options,
        sql=_table(SQL),
        publish=_table(PUBLISH),
    )


def _default(value: object) -> str:
    """A default as a file would say it."""
    if value is None or value == ():
        return "-"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1_000_000:
        return f"{value / 1_000_000:g} seconds"
    return f"`{value}`"


def _table(keys: Mapping[str, str]) -> str:
    rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in keys.items())
    return f"| key | meaning |\n| --- | --- |\n{rows}"
