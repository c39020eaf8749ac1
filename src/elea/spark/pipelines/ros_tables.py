"""Tables of ROS topics that nobody declared one by one: their names, types and transforms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from elea.errors import ConfigError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import includes
from elea.ros.formats.keys import parse_key
from elea.store.log.reader import LogReader

TF_TOPICS: Final = ("tf", "tf_static")
_TRANSFORM: Final = (
    "select t.header.frame_id as parent, t.child_frame_id as child, t.header.stamp as stamp,"
    " t.transform.translation as translation, t.transform.rotation as rotation,"
    " {is_static} as static from {table} lateral view explode(transforms) as t"
)


def tf_sql(tables: Sequence[str]) -> str:
    """A query for the transforms of tables of TFMessage, a row each."""
    return " union all ".join(
        _TRANSFORM.format(table=table, is_static=str(table == "tf_static").lower())
        for table in tables
    )


def table_name(topic: str) -> str:
    """The name of the table of a topic.

    Example:
        >>> table_name("/robot1/imu")
        'robot1_imu'
    """
    return topic.strip("/").replace("/", "_")


def topics_of(log: Path, patterns: Sequence[str]) -> list[tuple[str, str]]:
    """The topics of a log that patterns include, with their types.

    Raises:
        ConfigError: the log is not a directory here, or a topic has several types.
        KeyExprError: a pattern is none.
    """
    if not log.is_dir():
        raise ConfigError("", f"expected the directory of a log, to find topics in; got {log}")
    wanted = [str(KeyExpr.autocanonize(one.removeprefix("/"))) for one in patterns]
    found: dict[str, str] = {}
    for key in LogReader(log).keys("**"):
        topic = parse_key(key)
        if topic is None or topic.is_device_buffer:
            continue
        if not any(includes(one, topic.name.removeprefix("/")) for one in wanted):
            continue
        if found.setdefault(topic.name, topic.type) != topic.type:
            types = f"{found[topic.name]} and {topic.type}"
            raise ConfigError("", f"{topic.name} has the types {types}; declare a table for each")
    return sorted(found.items())
