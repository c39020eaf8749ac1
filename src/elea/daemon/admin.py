"""AdminSpace: a node describes itself below `@/<zid>/<role>`, in Eclipse Zenoh's layout.

It is a queryable and a subscriber of the daemon's session. Replies have the keys, encodings and
JSON of Eclipse Zenoh 1.10 (behaviour.md 7.3). In addition `config/...` can be read, secrets
excepted, by those who ask for it by name.
"""

from __future__ import annotations

import gzip
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final, Protocol

from elea.config.config import Config
from elea.config.schema import BY_PATH
from elea.daemon import metrics, observations
from elea.daemon.audit import Audit
from elea.daemon.events import Events
from elea.daemon.routes import route
from elea.daemon.services import Services
from elea.errors import ClosedError, ConfigError, EleaError
from elea.ids import WhatAmI, ZenohId
from elea.json5 import Json
from elea.keyexpr.match import intersects
from elea.node.node import Node
from elea.node.ports import LinkInfo
from elea.node.views import NeighbourView
from elea.parameters import Parameters
from elea.provenance import SampleKind
from elea.routing.explain import Action
from elea.routing.linkstate.trees import WEIGHT_DEFAULT
from elea.routing.tables import Kind
from elea.routing.views import Sources, declared, entries, graphs, router_map, wanted
from elea.sample import Sample
from elea.session.ports import DriverPort
from elea.session.query import Query
from elea.session.session import Session

_LOG: Final = logging.getLogger("elea.daemon")
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_NO_GRAPH: Final = "graph {}"
_LOOK_COUNT: Final = 64  # answers between two looks at the one who asked
_KEYS_COUNT: Final = 256  # looked at under the node's lock at a time
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

    @property
    def audit(self) -> Audit | None:
        """Where writes are noted, if anywhere."""

    @property
    def events(self) -> Events:
        """What happened of late."""

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

    def __init__(self, session: Session, driver: DriverPort, control: Control) -> None:
        assert isinstance(driver.node, Node)  # the port of a session shows less of it
        self._info = session.info  # not the session: it ends with its last reference
        self._driver = driver
        self._node = driver.node
        self._control = control
        self._started_ns = driver.now_ns()
        self._root = f"@/{session.zid()}/{self._node.whatami}"
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
                answers = self.answers(str(query.key_expr), query.parameters)
                for number, answer in enumerate(answers, 1):
                    query.reply(answer.key, answer.payload, encoding=answer.encoding)
                    if number % _LOOK_COUNT == 0 and not query.is_wanted():
                        return  # the asker left, or has as many answers as it may
            except ClosedError:  # the daemon ends, and with it the query
                return
            except ValueError as error:  # a parameter that means nothing
                query.reply_err(str(error))

    def answers(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        """What is answered to a query on a key."""
        parts: dict[str, Callable[[str, Parameters], Iterator[Answer]]] = {
            self._root: self._itself,
            f"{self._root}/metrics": self._metrics,
            f"{self._root}/spool": self._spool,
            f"{self._root}/linkstate/*": self._linkstate,
            **{f"{self._root}/{name}/**": partial(self._declarations, name) for name in _DECLARED},
            f"{self._root}/route/successor/**": self._successors,
            **{
                f"{self._root}/route/{action}/**": partial(self._route, action) for action in Action
            },
            f"{self._root}/plugins/**": self._plugins,
            f"{self._root}/status/plugins/**": self._plugins_status,
            f"{self._root}/config/**": self._config,
            f"{self._root}/keys/**": self._keys,
            f"{self._root}/events": self._events,
            f"{self._root}/audit": self._audit_lines,
        }
        for pattern, part in parts.items():
            if intersects(key, pattern):
                for answer in part(key, parameters):
                    if intersects(key, answer.key):
                        yield answer

    def _itself(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        driver, config = self._driver, self._control.config
        with driver.lock:
            views = self._node.views()
            members = self._node.groups.members()
        stats = parameters.get("_stats", "false") != "false"
        sessions: list[Json] = [_session(view, driver.now_ns(), stats=stats) for view in views]
        for member in members:
            sessions.append(_member(member.zid, member.whatami, member.info))
        plugins: dict[str, Json] = {
            one.name: {"name": one.name, "path": one.path} for one in self._control.services
        }
        shown: dict[str, Json] = {
            "zid": str(ZenohId(self._node.zid)),
            "version": metrics.build_text(),
            "metadata": json.loads(config.get_json("metadata")),
            "locators": list(driver.locators()),
            "sessions": sessions,
            "plugins": plugins,
        }
        if stats:
            shown["stats"] = self._stats(views)
        yield Answer(self._root, _dumps(shown))

    def _stats(self, views: list[NeighbourView]) -> Json:
        """What all transports counted, and what the process uses."""
        driver = self._driver
        with driver.lock:
            snapshot = metrics.Snapshot(self._node, views, self._uptime_s())
            totals = {name: snapshot.total(name) for name in metrics.COUNTERS}
            routing = self._node.routing.stats.dropped()
        return {
            **metrics.stats_json(totals),
            "time": round(time.time(), 6),
            "routing_drops": dict(routing),
            "process": metrics.process_json(),
            "uptime_seconds": round(self._uptime_s(), 3),
        }

    def _metrics(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        audit, driver = self._control.audit, self._driver
        spool = self._info.spool_stats()
        with driver.lock:
            families = metrics.collect(
                self._node,
                uptime_s=self._uptime_s(),
                per_transport=parameters.get("per_transport") != "false",
                audit_lost=0 if audit is None else audit.lost,
                spool=spool,
            )
        families += self._control.services.counted()
        descriptors = parameters.get("descriptors") != "false"
        payload = metrics.text(families, descriptors=descriptors).encode()
        encoding = metrics.ENCODING
        if parameters.get("compression") != "false":
            payload, encoding = gzip.compress(payload, 1), encoding + _GZIP
        yield Answer(f"{self._root}/metrics", payload, encoding)

    def _spool(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        stats = self._info.spool_stats()
        if stats is not None:
            yield Answer(f"{self._root}/spool", _dumps(asdict(stats)))

    def _uptime_s(self) -> float:
        return (self._driver.now_ns() - self._started_ns) / 1e9

    def _linkstate(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        with self._driver.lock:
            found = graphs(self._node.routing)
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
        routing = self._node.routing
        if read is wanted:
            with self._driver.lock:
                found = wanted(routing, kind, among)
            yield from (Answer(prefix + one, _sources(told)) for one, told in found.items())
            return
        with self._driver.lock:
            there = entries(routing, kind, among)
        for first in range(0, len(there), _KEYS_COUNT):  # others are served between two parts
            with self._driver.lock:
                found = declared(routing, kind, among, there[first : first + _KEYS_COUNT])
            yield from (Answer(prefix + one, _sources(told)) for one, told in found.items())

    def _successors(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        with self._driver.lock:
            routers = router_map(self._node.routing)
        for source in routers.nodes:
            place = f"{self._root}/route/successor/src/{ZenohId(source)}/dst"
            if intersects(key, f"{place}/*"):
                for target, hop in routers.successors(source).items():
                    yield Answer(f"{place}/{ZenohId(target)}", _dumps(str(ZenohId(hop))))

    def _route(self, action: Action, key: str, parameters: Parameters) -> Iterator[Answer]:
        prefix = f"{self._root}/route/{action}/"
        if not key.startswith(prefix):
            return  # asked for everything: there are as many answers as keys
        with self._driver.lock:
            found = route(self._node, action, key.removeprefix(prefix), parameters)
        yield Answer(key, _dumps(found))

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
        for path in BY_PATH if "*" in asked else (asked,):
            with suppress(ConfigError):  # not set: not answered
                yield Answer(self._config_prefix + path, config.get_json(path).encode())

    def _keys(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        """Traffic by key: counted only while it is asked for, so a query on everything is not."""
        if not observations.is_named(key, self._root, "keys"):
            return
        prefix = f"{self._root}/keys"
        if intersects(key, prefix) and not key.endswith("**"):
            yield Answer(prefix, _dumps(observations.keys(self._driver, self._node, parameters)))
            return
        among = "/".join(key.split("/")[4:]) or "**"
        for one, told in observations.counters_of(self._driver, self._node, among):
            yield Answer(f"{prefix}/{one}", _dumps(told))

    def _events(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        if observations.is_named(key, self._root, "events"):
            told = observations.tail(self._control.events.ring, parameters, "events")
            yield Answer(f"{self._root}/events", _dumps(told))

    def _audit_lines(self, key: str, parameters: Parameters) -> Iterator[Answer]:
        audit = self._control.audit
        if audit is not None and observations.is_named(key, self._root, "audit"):
            told = observations.tail(audit.lines, parameters, "lines")
            told |= {"lost": audit.lost, "broken": audit.verify_kept()}
            yield Answer(f"{self._root}/audit", _dumps(told))

    # Writes.

    def _written(self, sample: Sample) -> None:
        key = str(sample.key_expr)
        path = key.removeprefix(self._config_prefix)
        why = self._write(key, path, sample)
        if why is not None:
            _LOG.warning("a write to %s was ignored: %s", key, why)
        audit = self._control.audit
        if audit is not None:
            audit.note("admin_write", key=key, accepted=why is None, why=why)

    def _write(self, key: str, path: str, sample: Sample) -> str | None:
        """Ask for a change; or why not."""
        if not self._control.config.value("adminspace/permissions/write", bool):
            return "writing is not allowed"
        if path == key or "*" in path:
            return "it names no single key"
        try:
            deletes = sample.kind is SampleKind.DELETE
            self._control.change_config(path, None if deletes else sample.payload.to_string())
        except (EleaError, UnicodeDecodeError) as error:
            return str(error)
        return None


class _Opened:
    """An open session in place of a daemon: its configuration stays as it is."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.services = Services()
        self.audit = None
        self.events = Events()

    def change_config(self, path: str, value: str | None) -> None:
        raise ConfigError(path, "the configuration of an open session does not change")


def describe(session: Session, driver: DriverPort) -> None:
    """Let the node of a session describe itself, until the session is closed."""
    if session.config.get("namespace") is not None:
        _LOG.warning("no admin space: what a session with a namespace answers lies within it")
        return
    AdminSpace(session, driver, _Opened(session.config))


def _dumps(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _sources(sources: Sources) -> bytes:
    lists = {
        "routers": [str(ZenohId(zid)) for zid in sources.routers],
        "peers": [str(ZenohId(zid)) for zid in sources.peers],
        "clients": [str(ZenohId(zid)) for zid in sources.clients],
    }
    return json.dumps(lists, separators=(",", ":")).encode()


def _session(view: NeighbourView, now_ns: int, *, stats: bool) -> Json:
    proven = {"user": view.user, "cert_common_name": view.common_name}
    shown: dict[str, Json] = {
        "peer": str(ZenohId(view.zid)),
        "whatami": str(WhatAmI.from_index(view.whatami)),
        "links": [_link(info) for info in view.links],
        "region": view.region,
        "weight": None if view.weights is None else _weight(*view.weights),
        "shm": False,
        **{name: value for name, value in proven.items() if value is not None},
    }
    if stats:
        shown["stats"] = {
            **metrics.stats_json(view.counters),
            "connected_seconds": round((now_ns - view.since_ns) / 1e9, 3),
            "user": view.user,
            "common_name": view.common_name,
            "waiting_bytes": view.waiting_len,
            "waiting_messages": view.waiting_count,
        }
    return shown


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
