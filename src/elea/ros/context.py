"""Context: a session in a ROS domain, with its graph and its types; nodes share one."""

from __future__ import annotations

import itertools
import json
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Final, Self

from elea.config.config import Config
from elea.errors import ConfigError
from elea.ros.catalog import Types
from elea.ros.counts import Counts
from elea.ros.formats.keys import checked_domain, topic_key
from elea.ros.formats.tokens import AnyToken, Kind, Token
from elea.ros.graph import Graph
from elea.session.session import Session, open

DOMAIN_ENV: Final = "ROS_DOMAIN_ID"
CONFIG_ENV: Final = "ZENOH_SESSION_CONFIG_URI"
OVERRIDE_ENV: Final = "ZENOH_CONFIG_OVERRIDE"
ENDPOINT: Final = "tcp/localhost:7447"  # where rmw_zenoh's router is (R2-802)

# One counter for nodes and endpoints of a session, from 0 (R2-601).
_ids: weakref.WeakKeyDictionary[Session, Iterator[int]] = weakref.WeakKeyDictionary()
_ids_lock: Final = threading.Lock()


class Context:
    """What nodes of one session share.

    Args:
        session: An open session, which stays open; without it, one is opened.
        connect: Where to connect to, one endpoint or several.
        domain: 0 to 232; without it, that of the environment, else 0.
        prefix: What stands before all keys of the fleet.
        types: Definitions beyond those that are shipped.
        ask_fleet: Ask nodes for definitions that are not known (R2-323).
        read_only: Refuse to publish, to serve and to call (R2-816).

    Raises:
        ConfigError, LinkError: as `elea.open`.
    """

    def __init__(
        self,
        session: Session | None = None,
        *,
        connect: str | list[str] | None = None,
        domain: int | None = None,
        prefix: str = "",
        types: Types | None = None,
        ask_fleet: bool = True,
        read_only: bool = False,
    ) -> None:
        self.read_only = read_only
        self.domain = domain_of(domain)
        self.prefix = prefix.strip("/")
        self.types = Types() if types is None else types
        self._owns_session = session is None
        self.session = open(session_config(connect)) if session is None else session
        self.zid = str(self.session.zid())
        self.graph = Graph(self.session, self.domain, prefix=self.prefix)
        self.counts = Counts()
        if ask_fleet and not read_only:
            from elea.ros.asking import FleetAsker  # late: it is a client of this context

            self.types.ask = FleetAsker(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def close(self) -> None:
        """End the graph, and the session if it was opened here."""
        self.types.ask = None
        if not self.session.is_closed():
            self.graph.close()
        if self._owns_session:
            self.session.close()

    def metrics(self) -> Iterator[tuple[str, str, int]]:
        """What was counted so far: the name of a metric, the topic or nothing, the value (R2-817).

        `elea.ros.counts.METRICS` has the meaning of each name.
        """
        bad = self.graph.bad_count + self.graph.left_out_count
        return self.counts.counted(len(self.graph.tokens()), bad)

    def check_writable(self, what: str) -> None:
        """Raise if this context only looks.

        Raises:
            ConfigError: it does.
        """
        if self.read_only:
            raise ConfigError("plugins/ros2/read_only", f"is true: {what} is refused")

    def next_id(self) -> int:
        """The next number of a node or an endpoint of this session."""
        with _ids_lock:
            return next(_ids.setdefault(self.session, itertools.count()))

    def key(self, name: str, type: str, hash: str) -> str:
        """The key of a topic or service."""
        key = topic_key(self.domain, name, type, hash)
        return f"{self.prefix}/{key}" if self.prefix else key

    def token_key(self, token: AnyToken) -> str:
        """The key on which a token is declared."""
        return f"{self.prefix}/{token.key}" if self.prefix else token.key

    def node_token(self, namespace: str, name: str) -> Token:
        """A token for a new node."""
        nid = self.next_id()
        return Token(self.domain, self.zid, nid, nid, Kind.NODE, namespace, name)


def domain_of(domain: int | None) -> int:
    """A domain as it is given, else of the environment, else 0.

    Raises:
        InvalidValueError: it is none.
        ConfigError: the environment has none.
    """
    if domain is not None:
        return checked_domain(domain)
    text = os.environ.get(DOMAIN_ENV, "").strip() or "0"
    if not text.isdigit():
        raise ConfigError(DOMAIN_ENV, f"expected a number from 0 to 232, got {text!a}")
    return checked_domain(int(text))


def session_config(connect: str | list[str] | None = None) -> Config:
    """The configuration of a session in a fleet: a client without scouting, with timestamps.

    Without an endpoint, the variables of rmw_zenoh are read (R2-803).

    Raises:
        ConfigError: one of them cannot be used.
    """
    file = os.environ.get(CONFIG_ENV, "") if connect is None else ""
    config = Config.from_file(file) if file else Config()
    if not file:
        endpoints = [connect] if isinstance(connect, str) else connect or [ENDPOINT]
        config.insert_json5("mode", '"client"')
        config.insert_json5("connect/endpoints", json.dumps(endpoints))
        config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("timestamping/enabled", "true")
    overrides = os.environ.get(OVERRIDE_ENV, "") if connect is None else ""
    for setting in filter(None, overrides.split(";")):
        key, mark, value = setting.partition("=")
        if not mark:
            raise ConfigError(OVERRIDE_ENV, f"expected key/of/setting=value, got {setting!a}")
        config.insert_json5(key.strip(), value.strip())
    return config
