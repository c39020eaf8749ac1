"""Sessions of Spark's processes: one per process and way to reach the data space, opened late.

Python workers are used for many tasks, so a session outlives the task that opened it. What travels
to a worker is how to reach the data space, never a session and never a secret.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Final

from elea.config.config import Config
from elea.session.session import Session, open
from elea.spark.options import Reach

_OPENED: Final[dict[tuple[int, Reach], Session]] = {}
_OPENING: Final = threading.Lock()


def config_of(reach: Reach) -> Config:
    """The configuration of a session.

    Raises:
        ConfigError: the file cannot be read, or an endpoint is none.
    """
    config = Config.from_file(reach.config) if reach.config else Config()
    if reach.config is None or config.get_json("mode") == "null":
        config.insert_json5("mode", json.dumps(reach.mode))
    if reach.connect:
        config.insert_json5("connect/endpoints", json.dumps(list(reach.connect)))
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("connect/timeout_ms", str(round(reach.timeout_s * 1_000)))
        config.insert_json5("connect/exit_on_failure", "true")
    elif config.endpoints("connect"):
        config.insert_json5("scouting/multicast/enabled", "false")
    if config.get_json("listen/endpoints") == Config().get_json("listen/endpoints"):
        config.insert_json5("listen/endpoints", "[]")  # nobody needs to find a task
    return config


def check_reached(reach: Reach) -> None:
    """Connect once, on the driver: tasks would each wait for the timeout, and be tried again.

    Raises:
        ConfigError: as `config_of`.
        LinkError: nothing listens at the endpoints, or the connection is refused.
    """
    config = config_of(reach)
    if config.endpoints("connect"):
        config.insert_json5("connect/timeout_ms", "0")
        config.insert_json5("connect/exit_on_failure", "true")
        open(config).close()


def opened(reach: Reach) -> Session:
    """The session of this process.

    Raises:
        ConfigError: as `config_of`.
        LinkError: nobody can be reached.
    """
    # The number of the process: one that was forked has nothing of its parent's session.
    place = (os.getpid(), reach)
    with _OPENING:
        session = _OPENED.get(place)
        if session is None or session.is_closed():
            session = _OPENED[place] = open(config_of(reach))
        return session


def close_all() -> None:
    """Close the sessions of this process, for programs that go on without Spark."""
    with _OPENING:
        for place in [one for one in _OPENED if one[0] == os.getpid()]:
            _OPENED.pop(place).close()
