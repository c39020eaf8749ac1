"""The options of `format("zenoh")` as the page `docs/reference/spark-options.md`."""

from __future__ import annotations

from typing import Final

from elea.spark.options import OPTIONS

_HEAD: Final = """\
# Options of `format("zenoh")`

For `spark.read`, `spark.readStream`, `df.write` and `df.writeStream` ([spark.md](spark.md)). Their
case does not matter. One that is unknown, wrong, or for another use is an error where `load` or
`start` is called; it names the legal ones.

| option | for | default | meaning |
| --- | --- | --- | --- |
"""


def markdown() -> str:
    """The page."""
    rows = [
        f"| `{option.name}` | {', '.join(f'`{use}`' for use in option.uses)} |"
        f" {option.default or '-'} | {option.meaning.replace('|', chr(92) + '|')} |\n"
        for option in OPTIONS
    ]
    return _HEAD + "".join(rows)
