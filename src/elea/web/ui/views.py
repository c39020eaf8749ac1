"""Views: what a browser wants, as parts of a frame with what is new since the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from elea.errors import KeyExprError, LimitError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.operate.admin_space import Node
from elea.operate.payload_text import hex_lines, payload_lines
from elea.operate.text import escape
from elea.operate.traffic import Row as SessionRow
from elea.provenance import SampleKind
from elea.series import Losses, Row, number_of, read, shown
from elea.session.rights import Action, Flow, Identity
from elea.web.state import State
from elea.web.ui import alerts, feeds
from elea.web.ui.messages import Kind, Want
from elea.web.ui.network import Network
from elea.web.ui.services import devices, doors, histories, logs
from elea.web.ui.told import Topic, home
from elea.web.ui.watch import Value, Watch, Watched
from elea.zbytes import ZBytes

_NODES: Final = "@/*/*"
_PIPELINES: Final = "@elea/pipeline/*/*"
_AUDIT: Final = "@/*/*/audit"
_NOW: Final = (Topic.TRAFFIC, Topic.FEED, Topic.PIPELINES, Topic.ALERTS)  # what the first view has
_TEXT_LEN: Final = 160  # of a value in a row
_TEXT_OCTETS: Final = 1_024  # of a value that are read for that
_DUMP_LEN: Final = 4_096
_ROW_LEN: Final = 16
_USERS_COUNT: Final = 50  # of one kind, of one key
_EVENTS_COUNT: Final = 50
_NODES_COUNT: Final = 500
_LIVE_COLUMNS: Final = 100  # of what is new since the last frame
_TEXT_KINDS: Final = ("publisher", "subscriber", "queryable", "querier", "token")


class View(Protocol):
    """What one want of one browser shows."""

    period_s: float  # between two parts, at least

    def part(self) -> dict[str, Json] | None:
        """What is new; None if nothing is. Called on the loop."""

    def watched(self) -> tuple[str, ...]:
        """The keys whose values it needs."""

    def leave(self) -> None:
        """It is wanted no more."""


class Sources:
    """What views are made from, on behalf of one user."""

    def __init__(self, state: State, network: Network, watch: Watch, identity: Identity) -> None:
        self.state = state
        self.network = network
        self.watch = watch
        self.identity = identity
        self.values: dict[str, Watched] = {}  # of this browser

    def may_watch(self, key: str) -> bool:
        """Whether a subscriber may be declared for the user: its samples would be fetched."""
        return self.denied(Action.DECLARE_SUBSCRIBER, key) is None

    def denied(self, action: Action, key: str, *, flow: Flow = Flow.INGRESS) -> str | None:
        """Why rules do not let the user do something, if they do not."""
        return self.state.rights.refusal(self.identity, action, key, flow=flow)


def view_of(want: Want, sources: Sources) -> View:
    """What a browser is shown for a want."""
    match want.kind:
        case Kind.STATUS:
            return _OfNetwork(sources, lambda: _status(sources), _NOW)
        case Kind.NODES:
            return _OfNetwork(sources, lambda: _nodes(sources.network))
        case Kind.LOG:
            return _OfNetwork(sources, lambda: _logs_part(sources.network), (Topic.LOGS,))
        case Kind.FEED:
            return _OfNetwork(sources, lambda: _feed(sources), (Topic.FEED, Topic.AUDIT))
        case Kind.PIPELINES:
            key = want.keys[0] if want.keys else ""
            make = partial(feeds.pipeline_part, sources.network, key)
            return _OfNetwork(sources, make, (Topic.PIPELINES,), ((Action.QUERY, _PIPELINES),))
        case Kind.ALERTS:
            most = sources.state.limits.ui_feed_count
            make = partial(sources.network.told.alerts.told, most)
            needed = ((Action.DECLARE_SUBSCRIBER, alerts.KEYS), (Action.QUERY, alerts.KEYS))
            return _OfNetwork(sources, make, (Topic.ALERTS,), needed)
        case Kind.DEVICES:
            return _OfNetwork(sources, lambda: devices(sources.network.services))
        case Kind.TREE:
            return _OfNetwork(sources, lambda: _tree(sources.network, want), (Topic.KEYS,))
        case Kind.ROWS:
            return _Rows(sources, want.keys)
        case Kind.SERIES:
            return _Series(sources, want.keys[0] if want.keys else "", want.fields)
        case Kind.VALUE:
            return _OneValue(sources, want.keys[0] if want.keys else "")


class _OfNetwork:
    """A view of what nodes tell, made again whenever they were asked again."""

    period_s = 0.5

    def __init__(
        self,
        sources: Sources,
        make: Callable[[], dict[str, Json]],
        topics: tuple[Topic, ...] = (),
        needed: tuple[tuple[Action, str], ...] = (),
    ) -> None:
        self._sources = sources
        self._make = make
        self._topics = topics
        self._needed = ((Action.QUERY, _NODES), *needed)
        self._revision = -1

    def part(self) -> dict[str, Json] | None:
        network = self._sources.network
        network.want(*self._topics)
        if network.revision == self._revision or network.look is None:
            return None
        self._revision = network.revision
        found = (self._sources.denied(action, key) for action, key in self._needed)
        why = next(filter(None, found), None)
        return self._make() if why is None else {"denied": escape(why)}

    def watched(self) -> tuple[str, ...]:
        return ()

    def leave(self) -> None:
        pass


class _Rows:
    """The last values of keys in view."""

    period_s = 0.25

    def __init__(self, sources: Sources, keys: Iterable[str]) -> None:
        self._sources = sources
        self._keys = tuple(dict.fromkeys(one for one in keys if _is_plain(one)))
        self._shown: dict[str, tuple[int, int]] = {}  # count and tenths of rate that were sent

    def part(self) -> dict[str, Json] | None:
        now_s = time.monotonic()
        rows: list[Json] = []
        for key in self._keys:
            watched = self._sources.values.get(key)
            if watched is None:
                if key not in self._shown and not self._sources.may_watch(key):
                    self._shown[key] = (-1, -1)
                    rows.append([key, None, None, None, "not allowed"])
                continue
            rate = watched.rate(now_s)
            state = (watched.count, -1 if rate is None else round(rate * 10))
            if self._shown.get(key) == state:
                continue
            self._shown[key] = state
            rows.append([key, _rounded(rate), *self._cells(key, watched, now_s)])
        return {"v": rows} if rows else None

    def watched(self) -> tuple[str, ...]:
        return self._keys

    def leave(self) -> None:
        pass

    def _cells(self, key: str, watched: Watched, now_s: float) -> list[Json]:
        """Age in seconds, bytes, text."""
        why = _denied_value(self._sources, key, watched)
        value = watched.value
        if why or value is None:
            return [None, None, f"not allowed: {escape(why)}" if why else escape(watched.error)]
        age_s = round(now_s - value.at_s, 3)
        return [age_s, value.length, _short(value)]


class _OneValue:
    """One key: its last value in full, and who uses it."""

    period_s = 0.25

    def __init__(self, sources: Sources, key: str) -> None:
        self._sources = sources
        self._key = key
        self._shown: tuple[int, int, int] | None = None

    def part(self) -> dict[str, Json] | None:
        network = self._sources.network
        network.want()
        watched = self._sources.values.get(self._key)
        rate = None if watched is None else watched.rate(time.monotonic())
        count = -1 if watched is None else watched.count
        state = (count, -1 if rate is None else round(rate * 10), network.revision)
        if state == self._shown:
            return None
        self._shown = state
        part: dict[str, Json] = {"key": escape(self._key), "users": self._users()}
        if watched is None:
            if "*" in self._key:
                part["note"] = "a key expression with wildcards has no value of its own"
            elif not _is_plain(self._key):
                part["note"] = _reason(self._key)
            elif not self._sources.may_watch(self._key):
                part["note"] = "not allowed: access rules deny a subscriber of this key"
            return part
        why = _denied_value(self._sources, self._key, watched)
        if why:
            part["note"] = f"not allowed: {escape(why)}"
            return part
        part |= {"rate": _rounded(rate), "count": watched.count, "note": escape(watched.error)}
        if watched.value is not None:
            part["value"] = _value(watched.value, self._sources.state.limits.ui_lines_count)
        return part

    def watched(self) -> tuple[str, ...]:
        return (self._key,) if _is_plain(self._key) else ()

    def leave(self) -> None:
        pass

    def _users(self) -> dict[str, Json] | None:
        """Names of its users by kind; None if the user may not ask for them."""
        if self._sources.denied(Action.QUERY, _NODES) is not None:
            return None
        network = self._sources.network
        users = network.users.get(self._key, {})
        return {
            kind: [escape(network.labels.label(zid)) for zid in users[kind][:_USERS_COUNT]]
            for kind in _TEXT_KINDS
            if users.get(kind)
        }


class _Series:
    """Numbers of each new sample of one key."""

    period_s = 0.1

    def __init__(self, sources: Sources, key: str, fields: tuple[str, ...]) -> None:
        self._sources = sources
        self._key = key
        self._fields = fields
        self._losses = Losses()
        self._followed: Watched | None = None
        self._seen_count = 0
        self._note = ""

    def part(self) -> dict[str, Json] | None:
        note = self._follow()
        if note or self._followed is None:
            changed, self._note = note != self._note, note
            return {"note": note} if changed else None
        trail = list(self._followed.trail or ())
        new = [(count, value) for count, value in trail if count > self._seen_count]
        if not new:
            return None
        if new[0][0] > self._seen_count + 1:
            self._losses.clear()  # some were not looked at: they are not lost
        skipped = new[0][0] - self._seen_count - 1
        self._seen_count = new[-1][0]
        len_max = self._sources.state.limits.ui_trail_len
        rows = [
            Row(_time_of(value), value.payload, value.encoding, number_of(value.source))
            for _, value in new
            if value.kind is SampleKind.PUT and value.length <= len_max
        ]
        if not rows:
            return None
        rows.sort(key=lambda row: row.at_s)
        found = read(rows, self._fields, self._losses)
        since, until = rows[0].at_s, rows[-1].at_s
        return {
            **shown(found, since, until, _LIVE_COLUMNS, whole=False),
            "skip": skipped,
            "note": "",
        }

    def watched(self) -> tuple[str, ...]:
        return (self._key,) if _is_plain(self._key) else ()

    def leave(self) -> None:
        if self._followed is not None:
            self._sources.watch.unfollow(self._followed)
            self._followed = None

    def _follow(self) -> str:
        """Have the samples kept, and say why that cannot be."""
        if not _is_plain(self._key):
            return _reason(self._key) or "a plot shows one key, without wildcards"
        watched = self._sources.values.get(self._key)
        if watched is not self._followed:  # it was not watched for a while, if it is another one
            self.leave()
            self._losses.clear()
            if watched is not None and self._sources.watch.follow(watched):
                self._followed, self._seen_count = watched, watched.count
        if watched is None:
            denied = not self._sources.may_watch(self._key)
            return "not allowed: access rules deny a subscriber of this key" if denied else ""
        why = _denied_value(self._sources, self._key, watched)
        if why:
            return f"not allowed: {escape(why)}"
        if self._followed is None:
            return escape(watched.error) or "too many keys are plotted"
        return escape(watched.error)


def _time_of(value: Value) -> float:
    """When a sample was published, as far as it is told; else when it came."""
    if value.timestamp is None:
        return time.time() - (time.monotonic() - value.at_s)
    return value.timestamp.get_time_as_ntp64().as_secs_f64()


def _denied_value(sources: Sources, key: str, watched: Watched) -> str:
    """Why a user may not see a value, or an empty text."""
    why = sources.denied(Action.DECLARE_SUBSCRIBER, key)
    if why is None and watched.value is not None:
        deletes = watched.value.kind is SampleKind.DELETE
        action = Action.DELETE if deletes else Action.PUT
        why = sources.denied(action, key, flow=Flow.EGRESS)
    return why or ""


def _tree(network: Network, want: Want) -> dict[str, Json]:
    index = network.index
    if want.words.strip():
        rows, total = index.search(want.words, want.offset, want.limit)
    else:
        rows, total = index.rows(frozenset(want.keys), want.offset, want.limit)
    return {
        "v": rows,
        "offset": want.offset,
        "total": total,
        "keys": len(index),
        "skip": network.left_out_count,
    }


def _feed(sources: Sources) -> dict[str, Json]:
    network, most = sources.network, sources.state.limits.ui_feed_count
    return {
        "refusals": feeds.refusals(network, most),
        "told": network.told.events is not None,
        **(feeds.audit(network) if _may_audit(sources) else {"audit": None}),
    }


def _may_audit(sources: Sources) -> bool:
    """Whether somebody may read the audit: not everybody who reaches an open page."""
    settings = sources.state.settings
    is_open = not (settings.is_loopback or settings.viewing_needs_token)
    return not is_open and sources.denied(Action.QUERY, _AUDIT) is None


def _logs_part(network: Network) -> dict[str, Json]:
    told = network.told
    return {**logs(network.services), **histories(told.densities, told.log_infos)}


def _status(sources: Sources) -> dict[str, Json]:
    network = sources.network
    taken = network.look
    assert taken is not None  # else there is no part
    own = home(sources.state.session)
    sees_alerts = sources.denied(Action.DECLARE_SUBSCRIBER, alerts.KEYS) is None
    sees_pipelines = sources.denied(Action.QUERY, _PIPELINES) is None
    roles = [node.role for node in taken.nodes]
    clients = {row.session.zid for row in taken.rows if row.session.role == "client"}
    told = [row for row in taken.rows if row.received_rate is not None]
    return {
        "name": escape(network.labels.label(own)),
        "zid": own,
        "routers": roles.count("router"),
        "peers": roles.count("peer"),
        "clients": len(clients),
        "keys": len(network.index),
        "rates": _rates(told) if taken.rows else [0, 0, 0, 0],
        "counted": not taken.rows or any(row.counters is not None for row in taken.rows),
        "drops": _counts(taken.drop_reasons()),
        "refused": _counts(network.refused.items()),
        "logs": _logs(network.services),
        "doors": doors(network.services),
        "services": [*sorted({escape(key.partition("/")[0]) for key in network.services})],
        "slow": _slow(network, taken.rows),
        "events": feeds.events(network, _EVENTS_COUNT),
        "pipelines": feeds.pipeline_states(network) if sees_pipelines else [],
        "alerts": network.told.alerts.told(_EVENTS_COUNT) if sees_alerts else None,
        **feeds.traffic(network),
    }


def _slow(network: Network, rows: list[SessionRow]) -> list[Json]:
    """Receivers with messages that wait for them, and how many bytes; most first."""
    waiting = [
        (row.counters.waiting_octets, row.session.zid)
        for row in rows
        if row.counters is not None and row.counters.waiting_octets
    ]
    ordered = sorted(waiting, reverse=True)[:_EVENTS_COUNT]
    return [[escape(network.labels.label(zid)), length] for length, zid in ordered]


def _rates(rows: list[SessionRow]) -> Json:
    """Messages and bytes per second in and out, or null while there is one look only."""
    if not rows:
        return None
    return [
        round(sum(one.received_rate or 0 for one in rows), 1),
        round(sum(one.received_octets_rate or 0 for one in rows), 1),
        round(sum(one.sent_rate or 0 for one in rows), 1),
        round(sum(one.sent_octets_rate or 0 for one in rows), 1),
    ]


def _logs(services: dict[str, Json]) -> list[Json]:
    """Each log that is recorded: its name, its state, what it counted."""
    found: list[Json] = []
    for key, told in services.items():
        if not key.startswith("recorder/recordings/") or not isinstance(told, dict):
            continue
        logs = told.get("logs")
        if not isinstance(logs, dict):
            error = told.get("error", "")
            name = key.rpartition("/")[2]
            found.append({"name": escape(name), "state": "Failed", "error": escape(str(error))})
            continue
        for name, book in logs.items():
            counts = book if isinstance(book, dict) else {}
            shown: dict[str, Json] = {
                field: value
                for field, value in counts.items()
                if isinstance(value, int) and not isinstance(value, bool)
            }
            found.append({**shown, "name": escape(name), "state": escape(str(counts.get("state")))})
    return found


def _nodes(network: Network) -> dict[str, Json]:
    taken = network.look
    assert taken is not None  # else there is no part
    left_out = max(0, len(taken.nodes) - _NODES_COUNT) + max(0, len(taken.rows) - _NODES_COUNT)
    return {
        "nodes": [
            _node(network, node, taken.cpu_shares.get(node.zid))
            for node in taken.nodes[:_NODES_COUNT]
        ],
        "sessions": [_session(network, row) for row in taken.rows[:_NODES_COUNT]],
        "refused": _counts(network.refused.items()),
        "skip": left_out,
    }


def _node(network: Network, node: Node, share: float | None) -> Json:
    return {
        "zid": node.zid,
        "name": escape(network.labels.label(node.zid)),
        "role": node.role,
        "version": escape(node.version),
        "locators": [escape(one) for one in node.locators],
        "cpu": None if share is None else round(share, 3),
        "answered": round(node.answered_s, 3),
    }


def _session(network: Network, row: SessionRow) -> Json:
    counters, labels = row.counters, network.labels
    return {
        "at": row.node.zid,
        "at_name": escape(labels.label(row.node.zid)),
        "zid": row.session.zid,
        "name": escape(labels.label(row.session.zid)),
        "role": row.session.role,
        "identity": escape(row.identity),
        "protocol": escape(row.protocol),
        "region": escape(row.session.region),
        "in": _rounded(row.received_rate),
        "out": _rounded(row.sent_rate),
        "in_bytes": _rounded(row.received_octets_rate),
        "out_bytes": _rounded(row.sent_octets_rate),
        "dropped": None if counters is None else counters.dropped,
        "drops": [] if counters is None else _counts(counters.drops.items()),
        "waiting": None if counters is None else counters.waiting_octets,
    }


def _counts(counts: Iterable[tuple[str, int]]) -> list[Json]:
    """Names and counts, those that are 0 left out."""
    return [[escape(name), count] for name, count in sorted(counts) if count]


def _value(value: Value, lines_count: int) -> dict[str, Json]:
    name, lines = payload_lines(ZBytes(value.payload), value.encoding)
    stamp, info = value.timestamp, value.source
    return {
        "kind": value.kind.name,
        "encoding": name or escape(str(value.encoding)),
        "lines": [one[:4_000] for one in lines[:lines_count]],
        "more": max(0, len(lines) - lines_count),
        "hex": list(hex_lines(value.payload[:_DUMP_LEN])),
        "length": value.length,
        "shown": len(value.payload),
        "timestamp": "" if stamp is None else escape(stamp.to_string_rfc3339_lossy()),
        "source": "" if info is None else f"{info.source_id.zid} number {info.source_sn}",
        "attachment": value.attachment_len,
        "age": round(time.monotonic() - value.at_s, 3),
    }


def _short(value: Value) -> str:
    """A value as one line."""
    if value.kind is SampleKind.DELETE:
        return "deleted"
    payload = value.payload[:_TEXT_OCTETS]
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        if len(value.payload) <= _TEXT_OCTETS or error.start < len(payload) - 4:
            return payload[:_ROW_LEN].hex(" ") + (" …" if value.length > _ROW_LEN else "")
        text = payload[: error.start].decode()
    shown = escape(" ".join(text.split())) if text.strip() else escape(text)
    return shown if len(shown) <= _TEXT_LEN else shown[: _TEXT_LEN - 1] + "…"


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


def _is_plain(key: str) -> bool:
    """Whether it is one key, which has a value."""
    return "*" not in key and not _reason(key)


def _reason(key: str) -> str:
    """Why a text is no key expression, or an empty text."""
    try:
        KeyExpr(key)
    except (KeyExprError, LimitError) as error:
        return escape(str(error))
    return ""
