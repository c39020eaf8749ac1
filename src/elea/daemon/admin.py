"""AdminSpace: a node describes itself below `@/<zid>/<role>`, in Eclipse Zenoh's layout.

It is a queryable and a subscriber of the daemon's session. Replies have the keys, encodings and
JSON of Eclipse Zenoh 1.10 (behaviour.md 7.3). In addition `config/...` can be read, secrets
excepted, by those who ask for it by name.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from elea.config.config import Config
from elea.config.schema import BY_PATH, CHILDREN
from elea.daemon import metrics
from elea.daemon.services import Services
from elea.errors import ClosedError, EleaError
from elea.ids import WhatAmI, ZenohId
from elea.json5 import Json
from elea.keyexpr.match_hot import intersects
from elea.link.driver import Driver
from elea.node.ports import LinkInfo
from elea.node.views import NeighbourView
from elea.parameters import Parameters
from elea.provenance import SampleKind
from elea.routing.tables import Kind
from elea.routing.trees import WEIGHT_DEFAULT
from elea.routing.views import Sources, declared, graphs, successors, wanted
from elea.sample import Sample
from elea.session.query import Query
from elea.session.session import Session

_LOG: Final = logging.getLogger("elea.daemon")
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_NO_GRAPH: Final = "graph {}"
_GZIP: Final = ";content-encoding=gzip"
_DECLARED: Final = {
    "subscriber": (declared, Kind.SUBSCRIBER),
    "publisher": (wanted, Kind.SUBSCRIBER),
    "queryable": (declared, Kind.QUERYABLE),
    "querier": (wanted, Kind.QUERYABLE),
    "token": (declared, Kind.TOKEN),
}


class Control(Protocol):
    """The daemon, as its admin space sees it."""

    @property
    def config(self) -> Config:
        """The configuration in effect."""

    @property
    def services(self) -> Services: ...

    def change_config(self, path: str, value: str | None) -> None:
        """Set a key to a JSON5 text, or back to its default; soon, and by another thread."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply."""

    key: str
    payload: bytes
    encoding: str = _JSON


class AdminSpace:
    """What a node tells of itself, to whoever may ask."""

    def __init__(self, session: Session, driver: Driver, control: Control) -> None:
        self._driver = driver
        self._control = control
        self._started_ns = driver.now_ns()
        self._root = f"@/{session.zid()}/{driver.node.whatami}"
        self._config_prefix = f"{self._root}/config/"
        self._queryable = session.declare_queryable(f"{self._root}/**", self._asked)
        self._subscriber = session.declare_subscriber(f"{self._root}/config/**", self._written)

    @property
    def root(self) -> str:
        """The key of the node; all others are below it."""
        return self._root

    def close(self) -> None:
        """Answer no more."""
        self._subscriber.undeclare()
        self._queryable.undeclare()

    # Queries.

    def _asked(self, query: Query) -> None:
        with query:
            if not self._control.config.value("adminspace/permissions/read", bool):
                _LOG.info("a query on %s was not answered: reading is not allowed", query.key_expr)
                return
            try:
                for answer in self.answers(str(query.key_expr), query.parameters):
                    query.reply(answer.key, answer.payload, encoding=answer.encoding)
            except ClosedError:  # the daemon ends, and with it the query
                return

    def answers(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        """What is answered to a query on a key."""
        parts: dict[str, Callable[[str, Parameters], Iterator[Answer]]] = {
            self._root: self._node,
            f"{self._root}/metrics": self._metrics,
            f"{self._root}/linkstate/*": self._linkstate,
            **{f"{self._root}/{name}/**": partial(self._declarations, name) for name in _DECLARED},
            f"{self._root}/route/successor/**": self._successors,
            f"{self._root}/plugins/**": self._plugins,
            f"{self._root}/status/plugins/**": self._plugins_status,
            f"{self._root}/config/**": self._config,
        }
        for pattern, part in parts.items():
            if intersects(key, pattern):
                for answer in part(key, parameters):
                    if intersects(key, answer.key):
                        yield answer

    def _node(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        driver, config = self._driver, self._control.config
        with driver.lock:
            views = driver.node.views()
            members = driver.node.groups.members()
        sessions: list[Json] = [_session(view) for view in views]
        for member in members:
            sessions.append(_member(member.zid, member.whatami, member.info))
        plugins: dict[str, Json] = {
            one.name: {"name": one.name, "path": one.path} for one in self._control.services
        }
        yield Answer(
            self._root,
            _dumps(
                {
                    "zid": str(ZenohId(driver.node.zid)),
                    "version": metrics.build_text(),
                    "metadata": json.loads(config.get_json("metadata")),
                    "locators": list(driver.locators()),
                    "sessions": sessions,
                    "plugins": plugins,
                }
            ),
        )

    def _metrics(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        driver = self._driver
        with driver.lock:
            families = metrics.collect(
                driver.node,
                uptime_s=(driver.now_ns() - self._started_ns) / 1e9,
                per_transport=parameters.get("per_transport") != "false",
            )
        descriptors = parameters.get("descriptors") != "false"
        payload = metrics.text(families, descriptors=descriptors).encode()
        encoding = metrics.ENCODING
        if parameters.get("compression") != "false":
            payload, encoding = gzip.compress(payload, 1), encoding + _GZIP
        yield Answer(f"{self._root}/metrics", payload, encoding)

    def _linkstate(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        with self._driver.lock:
            found = graphs(self._driver.node.routing)
        for region, graph in found.items():
            dot = _NO_GRAPH
            if graph is not None:
                dot = graph.dot([str(ZenohId(zid)) for zid in graph.nodes])
            yield Answer(f"{self._root}/linkstate/{region}", dot.encode(), _TEXT)

    def _declarations(self, name: str, key: str, parameters: Parameters) -> Iterator[Answer]:
        read, kind = _DECLARED[name]
        prefix = f"{self._root}/{name}/"
        # Most ask for some keys of one kind: then the others need not be looked at.
        among = key.removeprefix(prefix) if key.startswith(prefix) else None
        with self._driver.lock:
            found = read(self._driver.node.routing, kind, among)
        for declared_key, sources in found.items():
            yield Answer(prefix + declared_key, _sources(sources))

    def _successors(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        with self._driver.lock:
            found = successors(self._driver.node.routing)
        prefix = f"{self._root}/route/successor"
        for (source, target), hop in found.items():
            place = f"{prefix}/src/{ZenohId(source)}/dst/{ZenohId(target)}"
            yield Answer(place, _dumps(str(ZenohId(hop))))

    def _plugins(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        for one in self._control.services:
            status: dict[str, Json] = {"name": one.name, "path": one.path, "state": "Started"}
            yield Answer(f"{self._root}/plugins/{one.name}", _dumps(status))

    def _plugins_status(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        for one in self._control.services:
            prefix = f"{self._root}/status/plugins/{one.name}"
            yield Answer(f"{prefix}/__path__", one.path.encode(), _TEXT)
            for name, value in one.service.status().items():
                yield Answer(f"{prefix}/{name}", _dumps(value))

    def _config(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        """Every key of the configuration, or the one that is asked for with all below it."""
        if not key.startswith(self._config_prefix):
            return  # asked for everything: this is not what Eclipse would answer
        config = self._control.config
        asked = key.removeprefix(self._config_prefix)
        for path in (asked,) if asked in CHILDREN else BY_PATH:
            yield Answer(self._config_prefix + path, config.get_json(path).encode())

    # Writes.

    def _written(self, sample: Sample) -> None:
        key = str(sample.key_expr)
        path = key.removeprefix(self._config_prefix)
        if not self._control.config.value("adminspace/permissions/write", bool):
            _LOG.warning("a write to %s was ignored: writing is not allowed", key)
            return
        if path == key or "*" in path:
            _LOG.warning("a write to %s was ignored: it names no single key", key)
            return
        if sample.kind is SampleKind.DELETE:
            self._control.change_config(path, None)
            return
        try:
            self._control.change_config(path, sample.payload.to_string())
        except (EleaError, UnicodeDecodeError) as error:
            _LOG.warning("a write to %s was ignored: %s", key, error)


def _dumps(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _sources(sources: Sources) -> bytes:
    lists = {
        "routers": [str(ZenohId(zid)) for zid in sources.routers],
        "peers": [str(ZenohId(zid)) for zid in sources.peers],
        "clients": [str(ZenohId(zid)) for zid in sources.clients],
    }
    return json.dumps(lists, separators=(",", ":")).encode()


def _session(view: NeighbourView) -> Json:
    proven = {"user": view.user, "cert_common_name": view.certificate_name}
    return {
        "peer": str(ZenohId(view.zid)),
        "whatami": str(WhatAmI.from_index(view.whatami)),
        "links": [_link(info) for info in view.links],
        "region": view.region,
        "weight": None if view.weights is None else _weight(*view.weights),
        "shm": False,
        **{name: value for name, value in proven.items() if value is not None},
    }


def _weight(own: int, other: int) -> Json:
    return {
        "src_weight": own or None,
        "dst_weight": other or None,
        "actual_weight": max(own, other) or WEIGHT_DEFAULT,
    }


def _member(zid: bytes, whatami: int, info: LinkInfo) -> Json:
    return {
        "peer": str(ZenohId(zid)),
        "whatami": str(WhatAmI.from_index(whatami)),
        "group": "unknown" if info.group is None else str(info.group),
        "links": [_link(info)],
    }


def _link(info: LinkInfo) -> Json:
    return {"src": str(info.local), "dst": str(info.remote)}
