"""The keys of the section `plugins/dds`, with their meaning (dds.md 20)."""

from __future__ import annotations

from typing import Final

NAME: Final = "dds"
ROS_NAME: Final = "ros2dds"
DOMAIN_MAX: Final = 232

# Name, what is legal, what it means and its default. `docs/reference/config.md` shows them.
KEYS: Final = (
    ("scope", "a key", "prefix of all keys; none"),
    ("domain", f"0 to {DOMAIN_MAX}", "the DDS domain; `ROS_DOMAIN_ID`, else 0"),
    ("localhost_only", "true or false", "whether DDS is used on loopback alone; true"),
    ("allow", "regular expressions, or `{publishers, ...}`", "keys or ROS interfaces; all"),
    ("deny", "regular expressions, or `{publishers, ...}`", "what is not bridged; none"),
    ("direction", "`both`, `from_dds` or `to_dds`", "which way samples pass; `both`"),
    ("max_frequencies", "texts `REGEX=HERTZ`", "at most so many samples a second and instance"),
    ("pub_priorities", "texts `REGEX=1..7[:express]`", "Zenoh priority of what comes from DDS"),
    ("generalise_subs", "key expressions", "accepted without effect; the log says so"),
    ("generalise_pubs", "key expressions", "accepted without effect; the log says so"),
    ("forward_discovery", "true or false", "mirror endpoints of other Elea bridges; false"),
    ("reliable_routes_blocking", "true or false", "RELIABLE writers wait for room; true"),
    (
        "queries_timeout",
        "seconds, or `{default, services, actions}`",
        "of history queries and services; 5.0, results of actions 300",
    ),
    ("shm_enabled", "false", "the library has no shared memory exchange; false"),
    ("work_thread_num", "a number", "accepted without effect"),
    ("max_block_thread_num", "a number", "accepted without effect"),
    ("names", "`dds` or `ros2`", "how topics become keys; `dds`"),
    ("namespace", "a ROS namespace", "prefix of ROS names, with `names: ros2`; `/`"),
    ("partition_separator", "a text", "what stands for `/` in partitions; none"),
    ("pattern_writers", "true or false", "whether writers in pattern partitions pass; false"),
    ("instances", "`topic`, or regular expressions", "keys with a key per instance; `topic`"),
    (
        "types",
        "types by name",
        "types of endpoints that send none: `{layout, keys}` or `{ros, definitions}`",
    ),
    ("type_timeout", "seconds", "until a type that is not answered is unresolved; 2.0"),
    (
        "routes",
        "`[{topic, type, key, partition, direction, qos}]`",
        "routes that exist without an endpoint; none",
    ),
    ("qos", "`[{match, reader, writer}]`", "policies of mirrors by key; none"),
    ("on_demand", "true or false", "read topics only while a subscriber exists; true"),
    ("linger", "seconds", "a route outlives its last endpoint by; 5.0"),
    ("timestamps", "`dds` or `zenoh`", "whose time samples are stamped with; `dds`"),
    ("numbering", "true or false", "number the samples of each writer; true"),
    ("advanced", "true or false", "ask advanced publishers for history; true"),
    (
        "transient_local_cache_multiplier",
        "1 to 1000",
        "with `names: ros2`, so many times the depth is kept; 10",
    ),
    ("ownership_strength", "0 to 2147483647", "of mirror writers; 0"),
    ("tokens", "true or false", "declare a liveliness token per endpoint; true"),
    ("standby", "true or false", "one of several equal bridges is active; true"),
    ("foreign_bridges", "`ignore` or `accept`", "samples of Eclipse bridges in DDS; `ignore`"),
    ("check_encoding", "true or false", "write only samples encoded as CDR to DDS; false"),
    ("rmw_zenoh", "true or false", "serve the keys of rmw_zenoh, too; with ROS names; false"),
    ("deletes", "true or false", "carry dispose and unregister as deletes; true"),
    (
        "discovery",
        "`{peers, interfaces, participant_index, ttl, config}`",
        "how participants are found; loopback",
    ),
    ("ros_distro", "a text", "whose messages the ROS graph has; `ROS_DISTRO`, else as seen"),
    ("domains", "a list of sections like this one", "several domains in one router; none"),
)
CHANGEABLE: Final = (
    *("allow", "deny", "max_frequencies", "qos", "pub_priorities", "queries_timeout"),
    "direction",
)


def markdown() -> str:
    """The section as a part of `docs/reference/config.md`."""
    text = (
        "\n## `plugins/dds`\n\nBridges a DDS domain ([dds-bridge.md](../howto/dds-bridge.md))."
        "\n\n| key | meaning and default | legal |\n| --- | --- | --- |\n"
    )
    for name, legal, meaning in KEYS:
        text += f"| `{name}` | {meaning} | {legal.replace('|', chr(92) + '|')} |\n"
    return text
